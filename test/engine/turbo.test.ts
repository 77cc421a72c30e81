import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import { runIdOf } from "../../engine/ids.ts";
import { newEvent } from "../../engine/plan.ts";
import type { DeliveryMeta, OrchestratorMessage } from "../../engine/ports/queue.ts";
import type { Settings } from "../../engine/settings.ts";
import { freshInput } from "../../engine/turbo.ts";
import { bytes, RUN } from "./log-of.ts";
import { createRig, done } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";
import { slowWorld } from "./slow-world.ts";
import type { SlowOptions } from "./slow-world.ts";

const TURBO: Partial<Settings> = { turbo: true, runAheadDepth: 0 };
const twoSteps: RigOptions["programs"] = {
  main: async (guest) => (await guest.step("work")) + (await guest.step("work")),
};

function rigOver(slow: ReturnType<typeof slowWorld>, options: Partial<RigOptions> = {}): Rig {
  return createRig({
    programs: twoSteps,
    steps: { work: () => done("x") },
    wrap: slow.wrap,
    ...options,
    settings: { ...TURBO, ...options.settings },
  });
}

async function played(options: SlowOptions, more: Partial<RigOptions> = {}) {
  const slow = slowWorld(options);
  const rig = rigOver(slow, more);
  const run = await rig.start();
  await rig.runOut(run);
  return { rig, run, slow, output: await rig.output(run), types: await rig.types(run) };
}

describe("a delivery is fresh", () => {
  const runInput = {
    workflowName: "main",
    deploymentId: "b",
    input: bytes(""),
    seed: new Uint8Array(32),
    createdAt: 1,
  };
  const start: OrchestratorMessage = {
    kind: "orchestrator",
    ...RUN,
    specVersion: 9,
    reason: "start",
    runInput,
  };
  const first = { attempt: 1, deliveryCount: 1, recovery: false } as DeliveryMeta;
  const { runInput: _dropped, ...continuation } = start;
  it.each([
    ["on the first delivery of the start message", start, first, true],
    ["not on a redelivery", start, { ...first, attempt: 2, deliveryCount: 2 }, false],
    ["not on a coalesced re-run", start, { ...first, deliveryCount: 2 }, false],
    ["not after a handoff", start, { ...first, deliveryCount: 3 }, false],
    ["not on a recovery", start, { ...first, recovery: true }, false],
    ["not where the message carries no input", continuation, first, false],
    ["not on a wake", { ...continuation, reason: "wake" }, first, false],
  ] as const)("%s", (_name, message, meta, isFresh) => {
    expect(freshInput(message, meta) !== null).toBe(isFresh);
  });
});

describe("turbo", () => {
  it("reads nothing, and starts the first bodies while `run_started` is in flight", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow);
    slow.hold();
    const run = await rig.start();
    await rig.settle();
    expect(rig.attempts).toHaveLength(1);
    expect(await rig.types(run)).toEqual(["run_created"]);
    expect(rig.calls().filter((call) => !call.endsWith(".create"))).toEqual([]);
    slow.release();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xx");
  });

  it("writes everything behind `run_started`, and the same log as without it", async () => {
    const on = await played({});
    const off = await played({}, { settings: { turbo: false } });
    expect(on.types).toEqual(off.types);
    expect(on.types.slice(0, 3)).toEqual(["run_created", "run_started", "step_started"]);
    expect(on.slow.writes.map(([type]) => type)).toEqual([
      "run_started",
      "step_started",
      "step_completed",
      "step_started",
      "step_completed",
      "run_completed",
    ]);
  });

  it("starts bodies early at every boundary of its delivery, until there is a hook or a wait", async () => {
    const early: boolean[] = [];
    const slow = slowWorld();
    const rig = rigOver(slow, {
      programs: {
        main: async (guest) => {
          let said = "";
          for (let i = 0; i < 3; i++) said += await guest.step("work");
          guest.hook("t").dispose();
          return said + (await guest.step("work")) + (await guest.step("work"));
        },
      },
      steps: {
        work: async ({ run, stepId }) => {
          early.push(!(await rig.log(run)).some(({ correlationId }) => correlationId === stepId));
          return done("x");
        },
      },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xxxxx");
    expect(early).toEqual([true, true, true, false, false]);
  });

  it("without early starts awaits each start, and still skips the load", async () => {
    const { rig, output } = await played({}, { settings: { optimisticInlineStart: false } });
    expect(output).toBe("xx");
    expect(rig.calls()).not.toContain("runs.get");
  });

  it("never starts a step with `maxRetries: 0` early", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow, { steps: { work: { maxRetries: 0, body: () => done("x") } } });
    slow.hold();
    const run = await rig.start();
    await rig.settle();
    expect(rig.attempts).toHaveLength(0);
    slow.release();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xx");
  });

  it.each([
    ["a hook", (token: string) => token],
    ["a wait", () => null],
  ])("stops at %s: bodies wait for their start", async (_name, token) => {
    const slow = slowWorld();
    const rig = rigOver(slow, {
      programs: {
        main: async (guest) => {
          if (token("t") === null) void guest.sleep(1_000);
          else guest.hook("t");
          return guest.step("work");
        },
      },
    });
    slow.hold();
    const run = await rig.start();
    await rig.settle();
    expect(rig.attempts).toHaveLength(0);
    slow.release();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });

  it("ends a run that was cancelled before: the first body ran, and nothing is written", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow);
    slow.hold();
    const run = await rig.start();
    await rig.settle();
    const { events } = rig.world.forTenant(run.tenantId);
    await events.create(run.runId, newEvent("run_cancelled", null, {}));
    slow.release();
    await rig.runOut(run);
    await rig.settle();
    expect(rig.attempts).toHaveLength(1);
    expect(await rig.types(run)).toEqual(["run_created", "run_cancelled"]);
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "ack" });
  });

  it("refused by the fence, asks for a redelivery, which reads the log", async () => {
    let isFirst = true;
    const { rig, output, types } = await played({
      change: (events, params) => {
        const isStale = isFirst;
        isFirst = false;
        return { events, params: isStale ? { ...params, expectedSeqInBand: 7 } : params };
      },
    });
    expect(output).toBe("xx");
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "redeliver", afterMs: 1_000, counted: true });
    expect(rig.calls()).toContain("events.list");
    expect(types.filter((type) => type === "run_started")).toHaveLength(1);
  });

  it("with a start that is refused for now, reads the run in the same delivery", async () => {
    const { rig, output } = await played({
      before: async (write) => {
        if (write === 1) throw new BatonError("ENTITY_CONFLICT", "no");
      },
    });
    expect(output).toBe("xx");
    expect(rig.deliveries).toHaveLength(1);
    expect(rig.calls()).toContain("runs.get");
  });

  it("with a start without an answer, leaves the run to a redelivery", async () => {
    const { rig, output, types } = await played({
      before: async (write) => {
        if (write === 1) throw new BatonError("WORLD_UNAVAILABLE", "no answer");
      },
    });
    expect(output).toBe("xx");
    expect(rig.deliveries.map(({ answer }) => answer)).toEqual(["rejected", { kind: "ack" }]);
    expect(types.filter((type) => type === "step_completed")).toHaveLength(2);
  });

  it("makes a run whose creation never landed", async () => {
    const rig = rigOver(slowWorld());
    const runId = runIdOf(`wrun_${"1".repeat(26)}`);
    const runInput = {
      workflowName: "main",
      deploymentId: "b".repeat(64),
      input: bytes(""),
      seed: new Uint8Array(32),
      createdAt: rig.clock.now(),
    };
    const run = { tenantId: RUN.tenantId, runId };
    await rig.world.queue.send({
      kind: "orchestrator",
      ...run,
      specVersion: 9,
      reason: "start",
      runInput,
    });
    await rig.runOut(run);
    await rig.settle();
    expect(await rig.output(run)).toBe("xx");
  });

  it("of a run whose bundle is missing, or does not open, fails or parks as any other", async () => {
    const rig = rigOver(slowWorld(), {
      interfere: () => ({
        kind: "limit",
        exceeded: { code: "CPU_LIMIT_EXCEEDED", limit: "cpuSoftMs", used: 2, allowed: 1 },
        usage: { cpuMs: 2, heapBytes: 1 },
      }),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "CPU_LIMIT_EXCEEDED" });
    expect(await rig.types(run)).toEqual(["run_created", "run_started", "run_failed"]);
  });
});

it("what an early body writes waits for `run_started`, and fails if that is refused", async () => {
  for (const isRefused of [false, true]) {
    const slow = slowWorld();
    const told: string[] = [];
    const rig = rigOver(slow, {
      steps: {
        work: async ({ access }) => {
          await access.setAttributes([{ key: "k", value: "v" }]).then(
            () => void told.push("set"),
            (error: unknown) => void told.push((error as BatonError).code),
          );
          return done("x");
        },
      },
    });
    slow.hold();
    const run = await rig.start();
    await rig.settle();
    expect([rig.attempts.length, told]).toEqual([1, []]);
    const { events } = rig.world.forTenant(run.tenantId);
    if (isRefused) await events.create(run.runId, newEvent("run_cancelled", null, {}));
    slow.release();
    await rig.runOut(run);
    await rig.settle();
    expect(told[0]).toBe(isRefused ? "RUN_EXPIRED" : "set");
    const sets = (await rig.types(run)).filter((type) => type === "attr_set");
    expect(sets).toHaveLength(isRefused ? 0 : 2);
  }
});
