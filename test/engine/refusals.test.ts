/** What the World refuses, and what the sandbox will not open. */
import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import type { EventType } from "../../engine/events.ts";
import type { OpenResult } from "../../engine/ports/sandbox.ts";
import type { BatchItemResult } from "../../engine/ports/world.ts";
import { createRig, done } from "./rig.ts";
import { withEvents } from "./with-events.ts";

const work = { work: () => done("x") };
const twoSteps = {
  main: async (guest: { step(name: string): Promise<string> }) =>
    (await Promise.all([guest.step("work"), guest.step("work")])).join(""),
};

/** A World that refuses the first `times` items or writes of a type. */
function refusing(type: EventType, error: BatonError, times: number) {
  let left = times;
  const isRefused = (eventType: EventType) => eventType === type && left > 0 && left-- > 0;
  return withEvents((events) => ({
    create: async (runId, event, params) => {
      if (isRefused(event.eventType)) throw error;
      return events.create(runId, event, params);
    },
    createBatch: async (runId, batch, params) => {
      const ids = new Set<unknown>();
      const refused = batch.map(({ eventType, correlationId }) => {
        // Nothing of an entity commits behind a refused item of it.
        if (isRefused(eventType)) ids.add(correlationId);
        return ids.has(correlationId);
      });
      const taken = batch.filter((_, i) => refused[i] !== true);
      const empty = { results: [], allocated: 0, events: [], hasMore: false };
      const result = taken.length === 0 ? empty : await events.createBatch(runId, taken, params);
      const rest = [...result.results];
      const results = refused.map((is): BatchItemResult => {
        const next = is ? undefined : rest.shift();
        return next ?? { kind: "refused", error };
      });
      return { ...result, results };
    },
  }));
}

const conflict = new BatonError("ENTITY_CONFLICT", "no");
const throttled = new BatonError("THROTTLED", "less", { retryAfterMs: 5_000 });

describe("a write that the World refuses", () => {
  it.each([
    ["an item of a batch", "step_started", twoSteps],
    ["an outcome", "step_completed", twoSteps],
    ["run_started", "run_started", twoSteps],
    ["the run's end", "run_completed", twoSteps],
  ] as const)("%s is planned again, and the run goes on", async (_name, type, programs) => {
    const rig = createRig({ programs, steps: work, wrap: refusing(type, conflict, 1) });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xx");
    expect(rig.attempts).toHaveLength(2);
    expect(rig.deliveries).toHaveLength(1);
  });

  it("again and again ends the delivery, counted, and then the run at its cap", async () => {
    const rig = createRig({
      programs: twoSteps,
      steps: work,
      wrap: refusing("step_started", conflict, 1e9),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "redeliver", afterMs: 1_000, counted: true });
    await rig.runOut(run);
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "MAX_DELIVERIES_EXCEEDED" });
    expect(rig.attempts).toEqual([]);
  });

  it("for load comes again when the World says, uncounted", async () => {
    const rig = createRig({
      programs: twoSteps,
      steps: work,
      wrap: refusing("step_started", throttled, 2),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual({
      kind: "redeliver",
      afterMs: 5_000,
      counted: false,
    });
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xx");
    expect(rig.deliveries.map((d) => d.meta.attempt)).toEqual([1, 1]);
  });

  it("a refused creation never has an outcome, and its body does not run", async () => {
    const rig = createRig({
      programs: { main: (guest) => guest.badStep("work").catch(() => "caught") },
      wrap: refusing("step_created", conflict, 1),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("caught");
    expect((await rig.types(run)).slice(2, 4)).toEqual(["step_created", "step_failed"]);
  });
});

describe("a failure that the host decides", () => {
  const limit = {
    kind: "limit",
    exceeded: { code: "CPU_LIMIT_EXCEEDED", limit: "cpuHardMs", used: 2, allowed: 1 },
    usage: { cpuMs: 2, heapBytes: 1 },
  } as const;

  it.each([
    [
      "superseded",
      new BatonError("IN_BAND_SUPERSEDED", "no"),
      { kind: "redeliver", counted: true },
    ],
    ["throttled", throttled, { kind: "redeliver", counted: false }],
    ["without an answer", new Error("reset"), "rejected"],
  ] as const)("and is %s is decided again by the redelivery", async (_name, error, answer) => {
    const rig = createRig({
      programs: twoSteps,
      interfere: () => limit,
      wrap: refusing("run_failed", error as BatonError, 1),
    });
    const run = await rig.start();
    await rig.settle();
    const first = rig.deliveries[0]?.answer;
    if (typeof answer === "string") expect(first).toBe(answer);
    else expect(first).toMatchObject(answer);
    await rig.runOut(run);
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "CPU_LIMIT_EXCEEDED" });
  });
});

describe("a heap that does not open", () => {
  /** Answers the first opens in the sandbox's place. */
  function opening(...answers: OpenResult[]) {
    const rig = createRig({ programs: twoSteps, steps: work });
    const open = rig.sandbox.open.bind(rig.sandbox);
    rig.sandbox.open = async (request) => answers.shift() ?? open(request);
    return rig;
  }

  it("because its bundle fails at top level fails the run with the tenant's error", async () => {
    const error = { message: "boom is not defined", stack: "" };
    const rig = opening({ kind: "bundle_failed", error });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.output(run)).toContain("boom is not defined");
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "USER_ERROR" });
  });

  it("because of a limit fails the run with its code", async () => {
    const exceeded = {
      code: "HEAP_LIMIT_EXCEEDED",
      limit: "heapBytesMax",
      used: 2,
      allowed: 1,
    } as const;
    const rig = opening({ kind: "limit", exceeded });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "HEAP_LIMIT_EXCEEDED" });
  });

  it("because its thread was lost is opened again", async () => {
    const lost = { kind: "lost", reason: "thread" } as const;
    const rig = opening(lost, lost);
    const run = await rig.start();
    await rig.settle();
    expect(await rig.output(run)).toBe("xx");
    expect(rig.deliveries).toHaveLength(1);
  });

  it("because its image does not fit goes cold", async () => {
    const rig = createRig({
      settings: { isCold: false },
      programs: {
        main: async (guest) => {
          for (let n = 0; n < 20; n++) await guest.step("work");
          return guest.hook("door").next();
        },
      },
      steps: work,
    });
    const run = await rig.start();
    await rig.settle();
    rig.restart();
    const open = rig.sandbox.open.bind(rig.sandbox);
    let refused = 0;
    rig.sandbox.open = async (request) => {
      if (request.image === undefined) return open(request);
      refused += 1;
      return { kind: "image_refused", reason: "another build" };
    };
    await rig.resume("door", "in");
    await rig.settle();
    expect(await rig.output(run)).toBe("in");
    expect([refused, rig.sandbox.opened.cold]).toEqual([1, 2]);
  });
});

describe("reads that fail", () => {
  it("a broken World call rejects that delivery alone, and the run goes on afterwards", async () => {
    let isDown = true;
    const rig = createRig({
      programs: twoSteps,
      steps: work,
      wrap: (world) => ({
        ...world,
        forTenant: (tenantId) => {
          const store = world.forTenant(tenantId);
          return {
            ...store,
            runs: {
              ...store.runs,
              get: async (runId) => {
                if (isDown) throw new Error("ECONNRESET");
                return store.runs.get(runId);
              },
            },
          };
        },
      }),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toBe("rejected");
    isDown = false;
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xx");
  });

  it("a snapshot that cannot be read, written or deleted costs time and nothing else", async () => {
    const down = async (): Promise<never> => {
      throw new BatonError("WORLD_UNAVAILABLE", "down");
    };
    const rig = createRig({
      programs: {
        main: async (guest) => {
          for (let n = 0; n < 40; n++) await guest.step("work");
          return guest.hook("door").next();
        },
      },
      steps: work,
      wrap: (world) => ({
        ...world,
        forTenant: (tenantId) => ({
          ...world.forTenant(tenantId),
          snapshots: { put: down, get: down, delete: down, list: down },
        }),
      }),
    });
    const run = await rig.start();
    await rig.settle();
    rig.restart();
    await rig.resume("door", "in");
    await rig.settle();
    expect(await rig.output(run)).toBe("in");
    expect(rig.deliveries.every((d) => d.answer !== "rejected")).toBe(true);
  });
});
