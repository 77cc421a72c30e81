/** "Run-ahead and turbo edge cases", "Run-ahead and awaited hooks" and "Run-ahead stop". */
import { describe, expect, it } from "vitest";
import { aheadPastHook, belowUnseen, untoldTime } from "../sim/ahead-mutants.ts";
import type { Mutant } from "../sim/simulator.ts";
import type { Program } from "../sim/workflows/programs.ts";
import { hook, played, program, scenario, sequence, step, useStage, writes } from "./stage.ts";
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

scenario(
  "a displaced speculative write: payloads of an unread hook move results to no other step",
  {
    runs: [
      program(
        {
          do: "all",
          of: [
            sequence(...steps("s", 12)),
            { do: "loose", body: sequence(step("l"), hook("a", 4)) },
          ],
        },
        { payloads: [60, 80, 100, 140].map((afterMs) => ({ hook: "a", afterMs })) },
      ),
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
