/** "Edge cases and failure handling" and "Timer edge cases": sleeps, their timers, and time itself. */
import { expect } from "vitest";
import type { RunEvent } from "../../engine/events.ts";
import {
  about,
  all,
  hook,
  library,
  program,
  race,
  scenario,
  sequence,
  sleep,
  step,
} from "./stage.ts";
import { DAY_MS, HOUR_MS, useStage, writes } from "./stage.ts";

useStage();

/** When each wait was completed, ms after its deadline. */
function lateness(events: readonly RunEvent[]): readonly number[] {
  const deadlines = new Map(
    events.flatMap((event) =>
      event.eventType === "wait_created"
        ? [[event.correlationId, event.eventData.resumeAt] as const]
        : [],
    ),
  );
  return events
    .filter(({ eventType }) => eventType === "wait_completed")
    .map(({ correlationId, createdAt }) => createdAt - (deadlines.get(correlationId) ?? 0));
}

scenario(
  "two concurrent sleeps",
  { runs: [program(all(sleep(HOUR_MS), sleep(2 * HOUR_MS)))] },
  ({ run, count }) => {
    expect(count("wait_completed")).toBe(2);
    expect(count("run_completed")).toBe(1);
    expect(Math.max(...lateness(run.events))).toBeLessThan(10_000);
  },
);

scenario(
  "two concurrent sleeps, and the first one's timer delivery dies behind its commit",
  {
    runs: [program(all(sleep(HOUR_MS), sleep(2 * HOUR_MS), sleep(3 * HOUR_MS)))],
    script: [{ fault: "crash after", at: "events.createBatch", when: writes("wait_completed") }],
  },
  ({ count, observation }) => {
    expect(observation.faults.size).toBe(1);
    expect(count("wait_completed")).toBe(3);
  },
);

scenario(
  "a timer that is delivered early arms its wait again",
  {
    runs: [
      program(all(sleep(HOUR_MS), hook("h", 2)), {
        payloads: [
          { hook: "h", afterMs: HOUR_MS - 3_000 },
          { hook: "h", afterMs: HOUR_MS - 1_000 },
        ],
      }),
    ],
    script: [{ fault: "stall", at: "events.list", nth: 3 }],
  },
  ({ count }) => {
    expect(count("wait_completed")).toBe(1);
  },
);

scenario(
  "a last hop coalesced away: the re-run that covers it arms it",
  {
    runs: [
      program(all(sleep(60_000), hook("h", 6)), {
        payloads: [1, 2, 3, 4, 5, 6].map((i) => ({ hook: "h", afterMs: 59_000 + i * 200 })),
      }),
    ],
    workers: 2,
    script: [{ fault: "ack lost", at: "delivery", when: about("timer"), times: 2 }],
  },
  ({ count }) => {
    expect(count("wait_completed")).toBe(1);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a long sleep's hops are one message each, and the wait is completed at its deadline",
  { runs: [library("longSleep", { ms: 10 })] },
  ({ run, timersSent, count }) => {
    expect(count("run_completed")).toBe(1);
    // 400 days in hops of 23 hours.
    expect(timersSent()).toBeGreaterThanOrEqual(417);
    expect(timersSent()).toBeLessThanOrEqual(420);
    expect(Math.max(...lateness(run.events))).toBeLessThan(10_000);
  },
);

scenario(
  "hops whose deliveries fail after the next one was sent",
  {
    runs: [program(sleep(10 * DAY_MS))],
    script: [{ fault: "ack lost", at: "delivery", when: about("timer"), times: 5 }],
  },
  ({ timersSent, count }) => {
    expect(count("wait_completed")).toBe(1);
    expect(timersSent()).toBeLessThanOrEqual(11 + 5 + 3);
  },
);

scenario(
  "near-due re-arms on every delivery: 40 branches of a step and a short sleep send 40 timers",
  {
    runs: [
      program(all(...Array.from({ length: 40 }, (_, i) => sequence(step(`s${i}`), sleep(3_000))))),
    ],
    settings: { inlineStepsMax: 0 },
  },
  ({ count, timersSent }) => {
    expect(count("wait_completed")).toBe(40);
    // Each wait's own timer: a delivery that holds none of them arms nothing.
    expect(timersSent()).toBeLessThanOrEqual(40);
  },
);

scenario(
  "an intermediate hop of a run that has ended writes nothing",
  { runs: [program(sleep(40 * DAY_MS), { cancelAfterMs: 2 * DAY_MS })] },
  ({ run, count, timersSent }) => {
    expect(run.events.at(-1)?.eventType).toBe("run_cancelled");
    expect(count("wait_completed")).toBe(0);
    expect(timersSent()).toBeLessThanOrEqual(5);
  },
);

scenario(
  "a refused `wait_completed`: the timer's message comes again",
  {
    runs: [program(sequence(sleep(60_000), step("after")))],
    workers: 2,
    script: [{ fault: "stall", at: "events.createBatch", when: writes("wait_completed") }],
  },
  ({ count, bodies }) => {
    expect(count("wait_completed")).toBe(1);
    expect(bodies("after")).toBeGreaterThanOrEqual(1);
  },
);

scenario(
  "run.wakeUp() is not lost while a delivery is at work",
  {
    runs: [
      program(sequence(all(step("long", { ms: 30_000 }), sleep(90 * DAY_MS)), step("after")), {
        wakeAfterMs: 15_000,
      }),
    ],
  },
  ({ run, count }) => {
    expect(count("wake_requested")).toBe(1);
    expect(count("wait_completed")).toBe(1);
    const [created, ended] = [run.events[0], run.events.at(-1)];
    expect((ended?.createdAt ?? 0) - (created?.createdAt ?? 0)).toBeLessThan(HOUR_MS);
  },
);

scenario(
  "a sleep that lost its race is not waited for",
  { runs: [program(sequence(race(step("fast"), sleep(5 * DAY_MS)), step("after")))] },
  ({ run, count }) => {
    expect(count("run_completed")).toBe(1);
    const [created, ended] = [run.events[0], run.events.at(-1)];
    expect((ended?.createdAt ?? 0) - (created?.createdAt ?? 0)).toBeLessThan(DAY_MS);
  },
);
