/** Failures that users of other engines reported: ordering, timers, steps. What must happen here. */
import { describe, expect, it } from "vitest";
import { parseNewEvent } from "../../engine/events.ts";
import type { Program } from "../sim/workflows/programs.ts";
import { valueOf } from "../sim/oracle/model.ts";
import type { Scene } from "./stage.ts";
import { all, hook, HOUR_MS, library, played, program, race, scenario, sequence } from "./stage.ts";
import { sleep, step, useStage, writes } from "./stage.ts";

useStage();

const output = ({ run }: Scene): unknown => {
  const end = run.events.at(-1);
  return end?.eventType === "run_completed" ? valueOf(end.eventData.output, null) : end?.eventType;
};

describe("ordering and determinism", () => {
  scenario(
    "the clock after a race is that of the log position that won it",
    {
      runs: [library("stepAgainstHook", { ms: 10, hops: 2 })],
      workers: 2,
      script: [{ fault: "stall", at: "events.createBatch", when: writes("step_completed") }],
    },
    ({ count }) => expect(count("run_completed")).toBe(1),
  );

  for (const hops of [0, 1, 2, 4, 8, 16]) {
    const branch = (first: Program, label: string) =>
      sequence(first, { do: "hops", count: hops }, step(label));
    scenario(
      `a buffered payload against a step's result, ${hops} awaits before the next step`,
      {
        runs: [
          program(
            all(
              branch(step("work", { ms: 40 }), "after-work"),
              branch(hook("h"), "after-hook"),
              branch(sleep(40), "after-sleep"),
            ),
            { payloads: [{ hook: "h", afterMs: 30 }] },
          ),
        ],
        script: [{ fault: "heap lost", at: "sandbox.pass", nth: 4 }],
      },
      ({ count }) => expect(count("run_completed")).toBe(1),
    );
  }

  scenario(
    "the winner of a race of steps is the recorded one, whatever a replay takes first",
    {
      runs: [
        program(
          sequence(
            race(step("slow", { ms: 300 }), step("fast", { ms: 100 }), step("middle", { ms: 200 })),
            step("after", { ms: 500 }),
          ),
        ),
      ],
      script: [
        { fault: "crash before", at: "body", when: ({ args }) => args[1] === "after" },
        { fault: "crash after", at: "events.createBatch", nth: 4 },
      ],
    },
    ({ count }) => expect(count("run_completed")).toBe(1),
  );

  scenario(
    "a race of a sleep and a hook that settles does not hang after it was put away",
    {
      runs: [
        program(sequence(race(sleep(30_000), hook("h")), sleep(HOUR_MS), step("after")), {
          payloads: [{ hook: "h", afterMs: 60_000 }],
        }),
      ],
      settings: { liveHeapBytesMax: 0 },
    },
    ({ count, bodies }) => {
      expect(bodies("after")).toBe(1);
      expect(count("run_completed")).toBe(1);
    },
  );

  scenario(
    "a stale owner is refused at its first write, and starts no body after it",
    {
      runs: [program(sequence(step("a"), step("b"), step("c")))],
      workers: 2,
      script: [{ fault: "stall", at: "events.createBatch", when: writes("step_started") }],
    },
    ({ count }) => {
      expect(count("step_completed")).toBe(3);
      expect(count("run_completed")).toBe(1);
    },
  );
});

describe("timers and time", () => {
  for (const ms of [0, 1, 60 * 86_400_000]) {
    scenario(
      `a sleep of ${ms} ms ends at its time`,
      { runs: [program(sequence(sleep(ms), step("after")))] },
      ({ run, count }) => {
        expect(count("wait_created")).toBe(1);
        const created = run.events.find((event) => event.eventType === "wait_created");
        const ended = run.events.find((event) => event.eventType === "wait_completed");
        const lateMs = (ended?.createdAt ?? 0) - (created?.createdAt ?? 0) - ms;
        expect(lateMs).toBeGreaterThanOrEqual(-5_000);
        expect(lateMs).toBeLessThan(10_000);
      },
    );
  }

  scenario(
    "a sleep until a computed time keeps the deadline that was recorded",
    {
      runs: [library("stepsAndSleeps", { width: 3, ms: 1_000 })],
      script: [{ fault: "crash after", at: "events.createBatch", when: writes("wait_created") }],
    },
    ({ count }) => expect(count("wait_created")).toBe(3),
  );

  scenario(
    "past and zero sleeps resume at once, as events of the log",
    { runs: [library("shortSleeps", { ms: 10 })] },
    ({ count }) => {
      expect(count("wait_created")).toBe(5);
      expect(count("run_completed")).toBe(1);
    },
  );

  scenario(
    "invalid sleeps throw at the call, and write nothing",
    { runs: [library("wrongSleeps", { ms: 10 })] },
    (scene) => {
      expect(scene.count("wait_created")).toBe(0);
      expect(output(scene)).toMatchObject({ refused: 4 });
    },
  );

  scenario(
    "a retry without a delay is tried again at once",
    {
      runs: [program(step("a", { failures: 1, how: "retryable", retryMs: 0 }))],
      settings: { inlineStepsMax: 0 },
    },
    ({ bodies, count }) => {
      expect(bodies("a")).toBe(2);
      expect(count("step_completed")).toBe(1);
    },
  );
});

describe("steps, retries, rejections", () => {
  scenario(
    "an argument that cannot be encoded fails that step alone, and can be caught",
    { runs: [library("unserializable", { ms: 10 })] },
    (scene) => {
      expect(output(scene)).toMatchObject({ caught: "error" });
      expect(scene.bodies("sibling")).toBe(1);
      expect(scene.count("step_failed")).toBe(1);
    },
  );

  scenario(
    "a failed step in allSettled, with a sleep behind it, is no unhandled rejection",
    {
      runs: [library("settledFanOut", { width: 6, ms: 20 })],
      script: [{ fault: "heap lost", at: "sandbox.pass", nth: 5 }],
    },
    ({ count }) => expect(count("run_completed")).toBe(1),
  );

  scenario(
    "steps that were left open when the workflow returned are started, and change nothing",
    { runs: [library("looseSteps", { width: 3, ms: 20 })] },
    ({ count, run }) => {
      expect(count("run_completed")).toBe(1);
      expect(run.status).toBe("completed");
      expect(count("wait_completed")).toBe(0);
    },
  );

  scenario(
    "a lost connection fails its delivery alone: the other tenant's run goes on",
    {
      runs: [program(sequence(step("a"), step("b"))), program(sequence(step("c"), step("d")))],
      script: [{ fault: "refused", at: "events.createBatch" }],
    },
    ({ observation, count }) => {
      expect(count("run_completed")).toBe(1);
      expect(observation.runs.map(({ status }) => status)).toEqual(["completed", "completed"]);
    },
  );

  scenario(
    "a delivery that comes twice writes no step twice",
    {
      runs: [program(sequence(step("a"), step("b")))],
      settings: { inlineStepsMax: 0 },
      script: [{ fault: "ack lost", at: "delivery", times: 6 }],
    },
    ({ count, bodies }) => {
      expect(count("step_created")).toBe(2);
      expect(bodies("a")).toBe(1);
      expect(bodies("b")).toBe(1);
    },
  );
});

/** Every call of a whole run, each the one at which its process dies. */
describe("a crash at any call", () => {
  const sites = ["events.create", "events.createBatch", "events.list", "queue.sendBatch"];
  const cases = sites.flatMap((at) =>
    (["crash before", "crash after"] as const).map((fault) => [fault, at] as const),
  );
  it.each(cases)("%s %s: the run comes to the same", async (fault, at) => {
    const of = sequence(all(step("a", { failures: 1 }), sleep(500), step("b")), step("c"));
    for (let nth = 1; ; nth++) {
      const play = {
        runs: [program(of)],
        script: [{ fault, at, nth }],
        settings: { inlineStepsMax: 1 },
        workers: 2,
      };
      const scene = await played(play, `crash ${nth}`, false);
      expect(scene.violations).toEqual([]);
      expect(scene.count("run_completed")).toBe(1);
      expect(scene.count("step_completed")).toBeGreaterThanOrEqual(3);
      if (scene.faultsMet() === 0) break;
      expect(nth).toBeLessThan(60);
    }
  });
});

describe("a corrupt deadline", () => {
  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5, "soon"])(
    "%s is refused before it is in a log, so nothing re-arms for ever",
    (resumeAt) => {
      const event = {
        eventType: "wait_created",
        correlationId: "wait_00000000000000000000000000",
        eventData: { resumeAt },
        specVersion: 9,
      };
      expect(() => parseNewEvent(event)).toThrow();
      expect(() => parseNewEvent({ ...event, eventData: { resumeAt: 1 } })).not.toThrow();
    },
  );
});
