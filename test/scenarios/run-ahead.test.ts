/**
 * "Run-ahead and turbo edge cases", "Run-ahead and awaited hooks" and "Run-ahead stop".
 *
 * Two of the spec's cases have no form here: every World has `createBatch`, and no World rotates a
 * message into a new one (a handoff delivers the same one again).
 */
import { describe, expect, it } from "vitest";
import { aheadPastHook, belowUnseen, speculativeKept, untoldTime } from "../sim/ahead-mutants.ts";
import type { Mutant } from "../sim/simulator.ts";
import type { Program } from "../sim/workflows/programs.ts";
import { refusingWorld } from "./refusing-world.ts";
import { cancelledBeforeStart, creationLost, watched } from "./watched-world.ts";
import {
  HOUR_MS,
  hook,
  played,
  program,
  scenario,
  sequence,
  step,
  useStage,
  writes,
} from "./stage.ts";
import type { Play } from "./stage.ts";

useStage();

const AHEAD = { runAheadDepth: 10, turbo: true, optimisticInlineStart: true };
const steps = (prefix: string, count: number): readonly Program[] =>
  Array.from({ length: count }, (_, i) => step(`${prefix}${i}`));

scenario(
  "a long sequence runs ahead, and its log is the one of its program",
  { runs: [program(sequence(...steps("s", 30)))], settings: AHEAD },
  ({ count, observation }) => {
    expect(count("step_started")).toBe(30);
    expect(observation.bodies).toHaveLength(30);
    // Two of each step's, and those of the run: written one by one there would be 62.
    const writeCount = observation.calls.get("events.createBatch") ?? 0;
    expect(writeCount).toBeLessThan(60);
  },
);

/** A hook against steps, with what follows either. */
const hookAgainstSteps: Program = {
  do: "race",
  of: [sequence(hook("a"), ...steps("won", 2)), sequence(...steps("s", 8))],
};

scenario(
  "run-ahead waits at a hook that the code awaits: its payload is taken where it stands",
  {
    runs: [program(hookAgainstSteps, { payloads: [{ hook: "a", afterMs: 120 }] })],
    settings: AHEAD,
  },
  ({ count }) => {
    expect(count("run_completed")).toBe(1);
  },
);

/** A hook whose payloads come while nobody awaits them. */
const unreadHook: Program = {
  do: "unread",
  name: "a",
  times: 3,
  body: sequence(...steps("s", 12)),
};

scenario(
  "a displaced speculative write: payloads of an unread hook move results to no other step",
  {
    runs: [
      program(unreadHook, {
        payloads: [60, 80, 100, 140].map((afterMs) => ({ hook: "a", afterMs })),
      }),
    ],
    settings: AHEAD,
  },
  ({ count }) => {
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a run-ahead stop runs step bodies again, and writes no outcome without its creation",
  {
    runs: [program(sequence(...steps("s", 8)))],
    settings: AHEAD,
    script: [{ fault: "throttled", at: "events.createBatch" }],
  },
  ({ count, faultsMet, bodies }) => {
    expect(faultsMet()).toBe(1);
    expect(count("step_completed")).toBe(8);
    for (let i = 0; i < 8; i++) expect(bodies(`s${i}`)).toBeLessThanOrEqual(2);
  },
);

scenario(
  "a fence refusal while running ahead: no orphan writes, and the redelivery completes",
  {
    runs: [program(sequence(...steps("s", 8)))],
    settings: AHEAD,
    workers: 2,
    script: [{ fault: "stall", at: "events.createBatch", nth: 2 }],
  },
  ({ count }) => {
    expect(count("step_completed")).toBe(8);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a cancellation below a speculative write: no outcome is left without its creation",
  {
    runs: [program(sequence(...steps("s", 40)), { cancelAfterMs: 150 })],
    settings: AHEAD,
  },
  ({ run }) => {
    const started = new Set(
      run.events
        .filter(({ eventType }) => eventType === "step_started")
        .map(({ correlationId }) => correlationId),
    );
    const ended = run.events.filter(({ eventType }) => eventType === "step_completed");
    for (const { correlationId } of ended) expect(started).toContain(correlationId);
  },
);

scenario(
  "an incomplete report below a speculative write: the log is read first",
  {
    runs: [program(sequence(...steps("s", 8)))],
    settings: AHEAD,
    script: [{ fault: "short report", at: "events.createBatch", times: 5 }],
  },
  ({ count }) => {
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a failed turbo `run_started`: the redelivery loads the log",
  {
    runs: [program(sequence(...steps("s", 3)))],
    settings: AHEAD,
    script: [{ fault: "answer lost", at: "events.create", when: writes("run_started") }],
  },
  ({ count, faultsMet, bodies }) => {
    expect(faultsMet()).toBe(1);
    expect(count("run_started")).toBe(1);
    expect(count("run_completed")).toBe(1);
    // Those that began behind a start without an answer begin again.
    for (let i = 0; i < 3; i++) expect(bodies(`s${i}`)).toBeLessThanOrEqual(2);
  },
);

scenario(
  "a start message that hands off does not begin afresh",
  {
    runs: [program(sequence(step("first", { ms: 7_000 }), ...steps("s", 2)))],
    settings: { ...AHEAD, inlineWindowMs: 5_000 },
  },
  ({ count, bodies, orchestratorDeliveries }) => {
    expect(count("run_completed")).toBe(1);
    expect(bodies("first")).toBe(1);
    expect(orchestratorDeliveries().length).toBeGreaterThan(1);
  },
);

scenario(
  "a World that stores its own time: nothing runs ahead on it from then on",
  {
    runs: [program(sequence(...steps("s", 6)))],
    settings: AHEAD,
    world: watched({ shiftMs: 7 }).mutant,
  },
  ({ count, observation }) => {
    expect(count("step_completed")).toBe(6);
    // After the first answer each write is waited for: two of every step's, and the run's end.
    expect(observation.calls.get("events.createBatch")).toBeGreaterThanOrEqual(12 - 2);
  },
);

describe("the depth cap", () => {
  const { mutant, writes: seen } = watched({ delayMs: 400 });
  scenario(
    "an outcome at the cap waits for an earlier write, and shares its round trip with the next start",
    {
      runs: [program(sequence(...steps("s", 12)))],
      settings: { ...AHEAD, runAheadDepth: 2 },
      world: mutant,
    },
    ({ count }) => {
      expect(count("run_completed")).toBe(1);
      const outcomes = seen.map(
        ({ events }) => events.filter(({ eventType }) => eventType === "step_completed").length,
      );
      expect(Math.max(...outcomes)).toBe(2);
      expect(seen.some(({ events }) => events.at(-1)?.eventType === "step_started")).toBe(true);
      seen.length = 0;
    },
  );
});

scenario(
  "a slot gap from a queued sibling's start is no hole: nothing is rolled back",
  {
    runs: [
      program({
        do: "all",
        of: ["a", "b", "c"].map((branch, i) =>
          sequence(...[0, 1, 2, 3].map((n) => step(`${branch}${n}`, { ms: 10 + 7 * i + n }))),
        ),
      }),
    ],
    settings: AHEAD,
    world: watched({ delayMs: 30 }).mutant,
  },
  ({ count, observation }) => {
    expect(count("step_completed")).toBe(12);
    // A roll-back would open a second heap.
    expect(observation.calls.get("sandbox.open")).toBe(1);
    expect(observation.bodies).toHaveLength(12);
  },
);

scenario(
  "a run cancelled before its first delivery still runs the first step's body, and writes nothing",
  {
    runs: [program(sequence(...steps("s", 3)), { cancelAfterMs: HOUR_MS })],
    settings: AHEAD,
    world: cancelledBeforeStart,
  },
  ({ run, bodies }) => {
    expect(run.events.map(({ eventType }) => eventType)).toEqual(["run_created", "run_cancelled"]);
    expect([bodies("s0"), bodies("s1") <= 1]).toEqual([1, true]);
  },
);

scenario(
  "a turbo `run_started` that the fence refuses: a redelivery, which loads the log",
  {
    runs: [program(sequence(...steps("s", 3)))],
    settings: AHEAD,
    world: refusingWorld([1]),
  },
  ({ count, orchestratorDeliveries }) => {
    expect(orchestratorDeliveries()[0]?.answer).toEqual({
      kind: "redeliver",
      afterMs: 1_000,
      counted: true,
    });
    expect([count("run_started"), count("run_completed")]).toEqual([1, 1]);
  },
);

scenario(
  "a resilient start under turbo: `run_started` makes the run whose creation never landed",
  {
    runs: [program(sequence(...steps("s", 3)))],
    settings: AHEAD,
    world: creationLost(),
  },
  ({ run, count }) => {
    expect(run.events[0]?.eventType).toBe("run_created");
    expect([count("run_created"), count("run_completed")]).toEqual([1, 1]);
  },
);

describe("a step body's own writes under turbo", () => {
  const { mutant, writes: seen } = watched({ delayMs: 200 });
  scenario(
    "wait for `run_started`",
    {
      runs: [program(sequence(step("s", { attribute: "k" }), step("t")))],
      settings: AHEAD,
      world: mutant,
    },
    ({ run, bodies }) => {
      const [started] = seen;
      expect(started?.events.map(({ eventType }) => eventType)).toEqual(["run_started"]);
      const set = run.events.find(({ eventType }) => eventType === "attr_set");
      expect(set?.createdAt).toBeGreaterThanOrEqual(started?.committedAtMs ?? Infinity);
      expect(bodies("s")).toBe(1);
      seen.length = 0;
    },
  );
});

describe("`WORKFLOW_OPTIMISTIC_INLINE_START=0`", () => {
  const { mutant, writes: seen } = watched({ delayMs: 50 });
  scenario(
    "each start is awaited, and the load is still skipped",
    {
      runs: [program(sequence(...steps("s", 3)))],
      settings: { ...AHEAD, optimisticInlineStart: false },
      world: mutant,
    },
    ({ observation }) => {
      for (const { stepId, startedAtMs } of observation.bodies) {
        const start = seen.find(({ events }) =>
          events.some(
            ({ eventType, correlationId }) =>
              eventType === "step_started" && correlationId === stepId,
          ),
        );
        expect(startedAtMs).toBeGreaterThanOrEqual(start?.committedAtMs ?? Infinity);
      }
      // A load begins with the snapshot; clients list events too.
      expect(observation.calls.get("snapshots.get") ?? 0).toBe(0);
      seen.length = 0;
    },
  );
});

scenario(
  "a coalesced re-run of the first delivery loads the log: it begins nothing again",
  {
    runs: [
      program(
        {
          do: "unread",
          name: "a",
          times: 1,
          body: sequence(step("s0", { ms: 2_000 }), step("s1")),
        },
        { payloads: [{ hook: "a", afterMs: 300 }] },
      ),
    ],
    settings: AHEAD,
  },
  ({ bodies, count, orchestratorDeliveries }) => {
    const reruns = orchestratorDeliveries().filter(({ meta }) => meta.deliveryCount > 1);
    expect(reruns.length).toBeGreaterThan(0);
    expect(reruns.every(({ meta }) => meta.attempt === 1)).toBe(true);
    expect([bodies("s0"), bodies("s1")]).toEqual([1, 1]);
    expect([count("run_started"), count("run_completed")]).toEqual([1, 1]);
  },
);

const PLAYS = 60;

describe("what run-ahead stands on", () => {
  const loose: Program = {
    do: "all",
    of: [
      sequence(...steps("s", 10), { do: "clock", even: step("even"), odd: step("odd") }),
      { do: "loose", body: sequence(step("l", { ms: 40 }), hook("a", 3), step("m")) },
    ],
  };
  it.each([
    [aheadPastHook, hookAgainstSteps],
    [speculativeKept, unreadHook],
    [untoldTime, loose],
    [belowUnseen, hookAgainstSteps],
  ] as const)("is held by the oracle: mutant %#", async (mutant: Mutant, of) => {
    const violationsAt = async (seed: number, world: Mutant | null) => {
      const payloads = [0, 30, 60].map((ms) => ({ hook: "a", afterMs: 40 + 3 * seed + ms }));
      const play: Play = {
        runs: [program(of, { payloads })],
        settings: AHEAD,
        ...(world === null ? {} : { world }),
      };
      return (await played(play, String(seed), false)).violations;
    };
    let found = 0;
    for (let seed = 1; seed <= PLAYS && found === 0; seed++) {
      expect(await violationsAt(seed, null)).toEqual([]);
      if ((await violationsAt(seed, mutant)).length > 0) found = seed;
    }
    expect(found, mutant.name).toBeGreaterThan(0);
  });
});
