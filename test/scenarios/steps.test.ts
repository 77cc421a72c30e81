/** "Edge cases and failure handling", "Step edge cases" and "Fan-out edge cases". */
import { expect } from "vitest";
import {
  about,
  all,
  DAY_MS,
  hook,
  HOUR_MS,
  library,
  program,
  scenario,
  sequence,
} from "./stage.ts";
import { sleep, step, useStage, writes } from "./stage.ts";

useStage();

const QUEUED = { inlineStepsMax: 0 };

scenario(
  "an inline `maxRetries: 0` step after an orchestrator's crash",
  {
    runs: [library("onceSteps", { width: 1, ms: 50 })],
    script: [{ fault: "crash before", at: "body" }],
  },
  ({ count, observation }) => {
    expect(observation.bodies).toHaveLength(1);
    expect(count("step_failed")).toBe(1);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a background `maxRetries: 0` step whose delivery outlives its lease",
  {
    runs: [library("onceSteps", { width: 1, ms: 50 })],
    settings: QUEUED,
    workers: 2,
    script: [{ fault: "stall", at: "events.create", when: writes("step_started") }],
  },
  ({ observation, count }) => {
    expect(observation.faults.size).toBe(1);
    expect(count("run_completed")).toBe(1);
    expect(observation.bodies).toHaveLength(1);
  },
);

scenario(
  "a background `maxRetries: 0` step whose delivery wakes behind its outcome runs no second body",
  {
    runs: [program(all({ do: "once", label: "pay", plan: { ms: 50 } }, sleep(HOUR_MS)))],
    settings: QUEUED,
    workers: 2,
    script: [{ fault: "stall", at: "events.create", when: writes("step_started") }],
  },
  ({ count, bodies }) => {
    expect([count("step_started"), count("step_completed")]).toEqual([2, 1]);
    expect(bodies("pay")).toBe(1);
  },
);

scenario(
  "a background body is not begun behind a refused start",
  {
    runs: [program(step("late"), { cancelAfterMs: 100 })],
    settings: QUEUED,
    script: [{ fault: "stall", at: "events.create", when: writes("step_started") }],
  },
  ({ count, bodies }) => {
    expect(count("run_cancelled")).toBe(1);
    expect(count("step_started")).toBe(0);
    expect(bodies("late")).toBe(0);
  },
);

scenario(
  "a throttled start runs no body and is not an attempt",
  {
    runs: [program(step("a"))],
    settings: QUEUED,
    script: [{ fault: "throttled", at: "events.create", when: writes("step_started"), times: 3 }],
  },
  ({ count, bodies, run }) => {
    expect(bodies("a")).toBe(1);
    expect(count("step_started")).toBe(1);
    const started = run.events.find(({ eventType }) => eventType === "step_started");
    expect(started?.eventData).toMatchObject({ attempt: 1 });
  },
);

scenario(
  "outcome already in the log: the redelivery runs no body and wakes its run again",
  {
    runs: [program(sequence(step("a"), step("b")))],
    settings: QUEUED,
    script: [{ fault: "ack lost", at: "delivery", when: about("step") }],
  },
  ({ bodies, count }) => {
    expect(bodies("a")).toBe(1);
    expect(bodies("b")).toBe(1);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "an inline retry moves to the background for good",
  { runs: [program(sequence(step("a", { failures: 2 }), step("b")))] },
  ({ bodies, count, stepMessagesSent }) => {
    expect(bodies("a")).toBe(3);
    expect(bodies("b")).toBe(1);
    expect(count("step_retrying")).toBe(2);
    expect(stepMessagesSent()).toBe(1);
  },
);

scenario(
  "an inline retry past the 24 hours of dedupe has one owner",
  {
    runs: [
      program(
        all(step("a", { failures: 1, how: "retryable", retryMs: 50 * HOUR_MS }), hook("h", 5)),
        { payloads: [1, 20, 26, 40, 49].map((hour) => ({ hook: "h", afterMs: hour * HOUR_MS })) },
      ),
    ],
    script: [{ fault: "ack lost", at: "delivery", when: about("wake"), times: 5 }],
  },
  ({ bodies, count }) => {
    expect(bodies("a")).toBe(2);
    expect(count("step_completed")).toBe(1);
  },
);

scenario(
  "a retry in days is one delayed redelivery",
  {
    runs: [program(step("a", { failures: 1, how: "retryable", retryMs: 30 * DAY_MS }))],
    settings: QUEUED,
  },
  ({ bodies, stepDeliveries, stepMessagesSent }) => {
    expect(bodies("a")).toBe(2);
    expect(stepDeliveries()).toHaveLength(2);
    expect(stepMessagesSent()).toBe(1);
  },
);

scenario(
  "an interrupted attempt is not counted",
  {
    runs: [program(step("a", { failures: 1 }))],
    settings: QUEUED,
    script: [{ fault: "interrupted", at: "body", times: 2 }],
  },
  ({ observation, bodies }) => {
    expect(bodies("a")).toBe(4);
    expect(observation.bodies.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 2]);
  },
);

scenario(
  "a step that the run's cancellation finds queued never starts",
  {
    runs: [program(sequence(step("first"), sleep(1_000), step("never")), { cancelAfterMs: 500 })],
    settings: QUEUED,
  },
  ({ count, bodies }) => {
    expect(count("run_cancelled")).toBe(1);
    expect(bodies("never")).toBe(0);
  },
);

scenario(
  "a fan-out of 64 is one creation batch",
  {
    runs: [program(all(...Array.from({ length: 64 }, (_, i) => step(`s${i}`))))],
    settings: QUEUED,
  },
  ({ observation, count, stepDeliveries }) => {
    expect(count("step_completed")).toBe(64);
    expect(observation.calls.get("events.createBatch")).toBe(1);
    expect(observation.bodies).toHaveLength(64);
    // A re-run's re-send that comes behind a step's outcome finds it in the log, and that is all.
    expect(stepDeliveries().length).toBeLessThanOrEqual(2 * 64);
  },
);

scenario(
  "a later batch of a fan-out fails: the redelivery writes what is missing",
  {
    runs: [program(all(...Array.from({ length: 150 }, (_, i) => step(`s${i}`))))],
    settings: QUEUED,
    script: [{ fault: "refused", at: "events.createBatch", nth: 2 }],
  },
  ({ count }) => {
    expect(count("step_created")).toBe(150);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a fence refusal in the middle of a fan-out owes the messages of what was created",
  {
    runs: [program(all(...Array.from({ length: 150 }, (_, i) => step(`s${i}`))))],
    settings: QUEUED,
    workers: 2,
    script: [{ fault: "stall", at: "events.createBatch", nth: 2 }],
  },
  ({ count }) => {
    expect(count("step_created")).toBe(150);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "wakes of a fan-out are coalesced, and none of its outcomes is lost",
  {
    runs: [program(all(...Array.from({ length: 100 }, (_, i) => step(`s${i}`, { ms: 5 }))))],
    settings: QUEUED,
  },
  ({ count, orchestratorDeliveries }) => {
    expect(count("run_completed")).toBe(1);
    // One for each wake at the most, each without a failure.
    expect(orchestratorDeliveries().length).toBeLessThanOrEqual(101);
    expect(Math.max(...orchestratorDeliveries().map(({ meta }) => meta.attempt))).toBe(1);
  },
);
