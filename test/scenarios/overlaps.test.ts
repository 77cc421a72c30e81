/** "Edge cases and failure handling": overlapping deliveries, crashes, and what they must not lose. */
import { expect } from "vitest";
import { refusingWorld } from "./refusing-world.ts";
import {
  about,
  all,
  hook,
  program,
  scenario,
  sequence,
  sleep,
  step,
  useStage,
  writes,
} from "./stage.ts";

useStage();

const QUEUED = { inlineStepsMax: 0 };
const INLINE = { inlineStepsMax: 3 };
const chain = sequence(step("a"), step("b"), step("c"));

scenario(
  "lease stall overlap",
  {
    runs: [program(chain)],
    workers: 2,
    settings: INLINE,
    script: [{ fault: "stall", at: "events.createBatch", when: writes("step_completed") }],
  },
  ({ observation, count, orchestratorDeliveries }) => {
    expect(count("run_completed")).toBe(1);
    expect(count("step_completed")).toBe(3);
    // The first delivery was refused by the fence and asked for its message again.
    const answers = orchestratorDeliveries().map(({ answer }) => answer?.kind);
    expect(answers).toContain("redeliver");
    expect(observation.faults.size).toBe(1);
  },
);

scenario(
  "self-superseded 412",
  { runs: [program(chain)], settings: INLINE, world: refusingWorld([2]) },
  ({ count, orchestratorDeliveries }) => {
    expect(count("run_completed")).toBe(1);
    const [first, second] = orchestratorDeliveries();
    expect(first?.answer).toEqual({ kind: "redeliver", afterMs: 1_000, counted: true });
    // The same message again, counted.
    expect(second?.meta.messageId).toBe(first?.meta.messageId);
    expect(second?.meta.attempt).toBe(2);
  },
);

scenario(
  "two deliveries of one message, one dies owing a send",
  {
    runs: [program(all(step("a"), step("b")))],
    settings: QUEUED,
    workers: 2,
    script: [{ fault: "crash after", at: "events.createBatch", when: writes("step_created") }],
  },
  ({ count, bodies }) => {
    expect(count("run_completed")).toBe(1);
    expect(bodies("a")).toBe(1);
    expect(bodies("b")).toBe(1);
  },
);

scenario(
  "crash between commit and dispatch",
  {
    runs: [program(step("a"))],
    settings: QUEUED,
    script: [{ fault: "crash before", at: "queue.sendBatch", when: about("step") }],
  },
  ({ count, bodies, observation }) => {
    expect(count("step_created")).toBe(1);
    expect(bodies("a")).toBe(1);
    expect(observation.faults.size).toBe(1);
  },
);

scenario(
  "creator's redelivery coalesced away",
  {
    runs: [program(all(step("a"), hook("h")), { payloads: [{ hook: "h", afterMs: 0 }] })],
    settings: QUEUED,
    workers: 2,
    script: [{ fault: "refused", at: "queue.sendBatch", when: about("step") }],
  },
  ({ count, bodies }) => {
    expect(count("run_completed")).toBe(1);
    expect(bodies("a")).toBe(1);
  },
);

scenario(
  "an inline step's retry whose message was never sent",
  {
    runs: [
      program(all(step("a", { failures: 1 }), hook("h")), {
        payloads: [{ hook: "h", afterMs: 0 }],
      }),
    ],
    settings: INLINE,
    workers: 2,
    script: [{ fault: "crash after", at: "events.createBatch", when: writes("step_retrying") }],
  },
  ({ count, bodies }) => {
    expect(count("run_completed")).toBe(1);
    expect(bodies("a")).toBe(2);
  },
);

scenario(
  "a new wait's creator coalesced away",
  {
    runs: [program(all(sleep(3_600_000), hook("h")), { payloads: [{ hook: "h", afterMs: 0 }] })],
    workers: 2,
    script: [{ fault: "answer lost", at: "events.createBatch", when: writes("wait_created") }],
  },
  ({ count }) => {
    expect(count("wait_completed")).toBe(1);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a timer delivery's redelivery coalesced away",
  {
    runs: [
      program(all(sleep(60_000), sleep(3_600_000), sleep(7_200_000), hook("h", 3)), {
        payloads: [
          { hook: "h", afterMs: 59_990 },
          { hook: "h", afterMs: 60_010 },
          { hook: "h", afterMs: 60_100 },
        ],
      }),
    ],
    workers: 2,
    script: [{ fault: "crash after", at: "events.createBatch", when: writes("wait_completed") }],
  },
  ({ count }) => {
    expect(count("wait_completed")).toBe(3);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "lost completion wake",
  {
    runs: [program(step("a"))],
    settings: QUEUED,
    script: [{ fault: "answer lost", at: "events.create", when: writes("step_completed") }],
  },
  ({ count, bodies }) => {
    expect(count("run_completed")).toBe(1);
    expect(count("step_completed")).toBe(1);
    expect(bodies("a")).toBe(1);
  },
);

scenario(
  "run already finished at setup",
  {
    runs: [program(sleep(5_000), { cancelAfterMs: 1_000 })],
  },
  ({ count }) => {
    expect(count("run_cancelled")).toBe(1);
    expect(count("wait_completed", "run_completed")).toBe(0);
  },
);
