import { describe, expect, it } from "vitest";
import { newEvent } from "../../engine/plan.ts";
import { BatonError } from "../../engine/errors.ts";
import type { Settings } from "../../engine/settings.ts";
import type { Program } from "./fake-sandbox.ts";
import { createRig, done, fails } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";
import { pathOf, slowWorld } from "./slow-world.ts";
import type { SlowOptions, SlowWorld } from "./slow-world.ts";
import { withEvents } from "./with-events.ts";

const AHEAD: Partial<Settings> = { runAheadDepth: 10 };

const sequence =
  (count: number): Program =>
  async (guest) => {
    let last = "";
    for (let i = 0; i < count; i++) last = await guest.step("work", String(i));
    return last;
  };

function rigOver(slow: SlowWorld, options: RigOptions): Rig {
  return createRig({ wrap: slow.wrap, ...options, settings: { ...AHEAD, ...options.settings } });
}

/** One run from its start to its end over a World whose in-band writes take 50 ms. */
async function timed(programs: RigOptions["programs"], settings: Partial<Settings>) {
  const slow: SlowWorld = slowWorld({ writeMs: 50, clock: () => rig.clock });
  const steps = { work: () => done("x") };
  const rig: Rig = rigOver(slow, { programs, steps, settings });
  const run = await rig.start();
  const startedAt = rig.clock.now();
  await rig.runOut(run);
  expect(await rig.output(run)).toBe("x");
  return { ms: rig.clock.now() - startedAt, log: await rig.log(run), slow, rig };
}

const rollBacks = (rig: Rig) =>
  rig.lines.map(({ fields }) => Number(fields["rollBacks"] ?? 0)).reduce((a, b) => a + b, 0);
const alarms = (rig: Rig) =>
  rig.lines.filter(({ fields }) => fields["possibleLogCorruption"] === true);

describe("run-ahead", () => {
  it("ends 100 sequential steps in a quarter of the time, with the same log", async () => {
    const off = await timed({ main: sequence(100) }, { runAheadDepth: 0 });
    const on = await timed({ main: sequence(100) }, {});
    expect(off.ms).toBe(202 * 50);
    expect(on.ms).toBeLessThanOrEqual(off.ms / 4);
    expect(pathOf(on.log)).toEqual(pathOf(off.log));
    // Where each step took two writes, one now carries five steps.
    expect([off.slow.writes.length, on.slow.writes.length]).toEqual([202, 24]);
    expect(rollBacks(on.rig)).toBe(0);
  });

  it("saves nothing that was not asked for: with depth 0 each write is waited for", async () => {
    const { slow } = await timed({ main: sequence(2) }, { runAheadDepth: 0 });
    expect(slow.writes.map((types) => types.join())).toEqual([
      "run_started",
      "step_started",
      "step_completed",
      "step_started",
      "step_completed",
      "run_completed",
    ]);
  });

  it("starts bodies before anything of their steps is committed, and writes in order", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow, {
      programs: { main: sequence(4) },
      steps: { work: ({ input }) => done(`did ${input.length}`) },
    });
    const run = await rig.start();
    slow.hold();
    await rig.settle();
    slow.held.shift()?.();
    await rig.settle();
    expect(rig.attempts.map(({ stepId }) => stepId.slice(-1))).toEqual(["1", "2", "3", "4"]);
    expect(await rig.types(run)).toEqual(["run_created", "run_started"]);
    slow.release();
    await rig.runOut(run);
    expect(slow.writes.map((types) => types.length)).toEqual([1, 1, 7, 1]);
    const log = await rig.log(run);
    expect(log.map(({ eventType }) => eventType).slice(2, 6)).toEqual([
      "step_started",
      "step_completed",
      "step_started",
      "step_completed",
    ]);
  });

  it("has at most as many outcomes uncommitted as its depth", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow, {
      programs: { main: sequence(9) },
      steps: { work: () => done("x") },
      settings: { runAheadDepth: 2 },
    });
    const run = await rig.start();
    slow.hold();
    await rig.settle();
    slow.held.shift()?.();
    await rig.settle();
    // Two outcomes are in flight, and the third body has ended.
    expect(rig.attempts).toHaveLength(3);
    slow.release();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });

  it("never starts a step with `maxRetries: 0` before its start is committed", async () => {
    const slow = slowWorld();
    const seen: (readonly string[])[] = [];
    const rig: Rig = rigOver(slow, {
      programs: { main: async (guest) => (await guest.step("work")) + (await guest.step("once")) },
      steps: {
        work: () => done("a"),
        once: { maxRetries: 0, body: async () => (seen.push(await rig.types(run)), done("b")) },
      },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("ab");
    expect(seen.map((types) => types.at(-1))).toEqual(["step_started"]);
    expect(seen.map((types) => types.length)).toEqual([5]);
  });

  it("waits at a hook that the code waits on, and the payload below an outcome comes first", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow, {
      programs: {
        main: async (guest) => {
          const hook = guest.hook("t");
          return Promise.race([hook.next(), guest.step("work").then(() => guest.step("work"))]);
        },
      },
      steps: { work: () => done("step") },
    });
    const run = await rig.start();
    slow.hold();
    for (let i = 0; i < 3; i++) {
      await rig.settle();
      slow.held.shift()?.();
    }
    await rig.settle();
    // The outcome of the first step is on its way; the guest has not been told.
    expect(rig.attempts).toHaveLength(1);
    await rig.resume("t", "hook");
    slow.release();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("hook");
    expect([rollBacks(rig), alarms(rig)]).toEqual([0, []]);
  });

  it("goes on past a hook that nobody waits on; its payload displaces and is taken in order", async () => {
    const slow = slowWorld();
    const rig = rigOver(slow, {
      programs: {
        main: async (guest) => {
          const hook = guest.hook("t");
          const first = await guest.step("work", "1");
          const second = await guest.step("work", "2");
          const at = guest.now();
          return `${await hook.next()} ${first} ${second} ${guest.now() - at}`;
        },
      },
      steps: { work: () => done("x") },
    });
    const run = await rig.start();
    slow.hold();
    for (let i = 0; i < 3; i++) {
      await rig.settle();
      slow.held.shift()?.();
    }
    await rig.settle();
    await rig.advance(5);
    await rig.resume("t", "hook");
    await rig.advance(7);
    slow.release();
    await rig.runOut(run);
    // The payload stands below both outcomes, so it moves no clock.
    expect(await rig.output(run)).toBe("hook x x 0");
    expect((await rig.types(run)).indexOf("hook_received")).toBe(4);
    expect([rollBacks(rig), alarms(rig)]).toEqual([1, []]);
    expect(rig.attempts).toHaveLength(2);
  });

  it("rolls back to an image that holds nothing uncommitted, not to the beginning", async () => {
    const slow = slowWorld({
      before: async (write, events, runId) => {
        if (write !== 20) return;
        await events.create(runId, {
          ...newEvent("attr_set", null, {
            changes: [{ key: "k", value: "v" }],
            writer: { kind: "client" },
          }),
        });
      },
    });
    const rig = rigOver(slow, {
      programs: { main: sequence(100) },
      steps: { work: () => done("x") },
      settings: { runAheadDepth: 4 },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
    expect(rollBacks(rig)).toBe(1);
    expect(rig.attempts).toHaveLength(100);
  });

  it("fails and retries as without it", async () => {
    const rig = rigOver(slowWorld(), {
      programs: {
        main: async (guest) => {
          const caught = await guest.step("fatal").catch((error: Error) => error.message);
          return `${caught} ${await guest.step("twice")}`;
        },
      },
      steps: {
        fatal: () => fails("no", { isFatal: true }),
        twice: ({ attempt }) => (attempt === 1 ? fails("again") : done("yes")),
      },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("no yes");
    expect(rollBacks(rig)).toBe(0);
  });
});

/** A run of three steps in which something is wrong with one write. */
async function disturbed(options: SlowOptions, program: Program = sequence(3)) {
  const slow = slowWorld(options);
  const rig = rigOver(slow, { programs: { main: program }, steps: { work: () => done("x") } });
  const run = await rig.start();
  await rig.runOut(run);
  return { rig, run, slow, output: await rig.output(run), types: await rig.types(run) };
}

describe("what stops run-ahead", () => {
  it("a World that keeps its own time: for good in this process, and the log is right", async () => {
    const slow = slowWorld({
      change: (events, params) => ({
        events: events.map(({ occurredAt, ...event }) => ({
          ...event,
          ...(occurredAt === undefined ? {} : { occurredAt: occurredAt + 1 }),
        })) as typeof events,
        params,
      }),
    });
    const rig = rigOver(slow, {
      programs: { main: async (guest) => `${await guest.step("work")} ${guest.now() > 0}` },
      steps: { work: () => done("x") },
    });
    const first = await rig.start();
    await rig.runOut(first);
    const before = slow.writes.length;
    const second = await rig.start();
    await rig.runOut(second);
    expect([await rig.output(first), await rig.output(second)]).toEqual(["x true", "x true"]);
    expect(rig.lines.filter(({ message }) => message.includes("other times"))).toHaveLength(1);
    expect(slow.writes.slice(before).map((types) => types.length)).toEqual([1, 1, 1, 1]);
  });

  it("a writer that nobody knows of: an alarm, the outcomes whose starts are in, a roll-back", async () => {
    // A World that lets a second in-band writer in, which completes a wait that is hours away.
    let seqInBand = 0;
    const { rig, output, types } = await disturbed(
      {
        before: async (write, events, runId) => {
          const { events: log, snapshot } = await events.list(runId);
          ({ seqInBand } = snapshot);
          if (write !== 4) return;
          const wait = log.find(({ eventType }) => eventType === "wait_created")?.correlationId;
          await events.createBatch(runId, [newEvent("wait_completed", wait ?? null, {})], {
            inBand: true,
            expectedSeqInBand: snapshot.seqInBand,
            eventCount: snapshot.seq,
          });
          seqInBand += 1;
        },
        change: (events, params) => ({
          events,
          params: { ...params, expectedSeqInBand: seqInBand },
        }),
      },
      async (guest) => {
        void guest.sleep(7_200_000);
        return sequence(3)(guest);
      },
    );
    expect(output).toBe("x");
    expect(alarms(rig)).toHaveLength(1);
    expect(types.filter((type) => type === "step_completed")).toHaveLength(3);
  });

  it("a refused start: no outcome is without its creation, and its body runs again", async () => {
    const { output, types, rig } = await disturbed({
      before: async (write) => {
        if (write === 3) throw new BatonError("ENTITY_CONFLICT", "no");
      },
    });
    expect(output).toBe("x");
    expect(types.slice(2, -1)).toEqual(
      Array.from({ length: 3 }, () => ["step_started", "step_completed"]).flat(),
    );
    expect(rig.attempts.map(({ stepId }) => stepId.slice(-1))).toEqual(["1", "2", "2", "3"]);
    expect([rollBacks(rig), rig.deliveries.length]).toEqual([1, 1]);
  });

  it("a World that asks for less load: the same message again, uncounted", async () => {
    const { output, rig } = await disturbed({
      before: async (write) => {
        if (write === 3) throw new BatonError("THROTTLED", "slow", { retryAfterMs: 1_000 });
      },
    });
    expect(output).toBe("x");
    expect(rig.deliveries.map(({ answer }) => answer)).toEqual([
      { kind: "redeliver", afterMs: 1_000, counted: false },
      { kind: "ack" },
    ]);
  });

  it("a cancellation below a write: no hazard, and no outcome without its creation", async () => {
    const { rig, output, types } = await disturbed({
      before: async (write, events, runId) => {
        if (write !== 3) return;
        await events.create(runId, newEvent("run_cancelled", null, {}));
      },
    });
    expect(output).toBe("cancelled");
    expect(alarms(rig)).toEqual([]);
    const ends = types.filter((type) => type === "step_completed").length;
    expect(types.filter((type) => type === "step_started").length).toBeGreaterThanOrEqual(ends);
  });

  it("a refusal by the fence: nothing further is written, and the redelivery completes", async () => {
    let isFirst = true;
    const { rig, output, slow } = await disturbed({
      change: (events, params) => {
        const isStale = isFirst && events[0]?.eventType === "step_completed";
        if (isStale) isFirst = false;
        return { events, params: isStale ? { ...params, expectedSeqInBand: 1 } : params };
      },
    });
    expect(output).toBe("x");
    expect(rig.deliveries.map(({ answer }) => answer)).toEqual([
      { kind: "redeliver", afterMs: 1_000, counted: true },
      { kind: "ack" },
    ]);
    expect(slow.writes.length).toBeGreaterThan(4);
  });

  it("a lost heap: what was decided commits, and the run goes on from the log", async () => {
    const rig = createRig({
      programs: { main: sequence(3) },
      steps: { work: () => done("x") },
      settings: AHEAD,
      interfere: ({ pass }) => (pass === 3 ? { kind: "lost", reason: "thread" } : null),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
    expect(rig.attempts).toHaveLength(3);
    expect(rollBacks(rig)).toBe(1);
  });

  it("an answer that leaves out what landed below: the log is read before the guest goes on", async () => {
    const rig = createRig({
      programs: { main: sequence(3) },
      steps: { work: () => done("x") },
      settings: AHEAD,
      wrap: withEvents((events) => ({
        createBatch: async (...args) => ({
          ...(await events.createBatch(...args)),
          hasMore: true,
        }),
      })),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
    expect((await rig.types(run)).filter((type) => type === "step_completed")).toHaveLength(3);
  });
});
