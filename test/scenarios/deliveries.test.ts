/** "Edge cases and failure handling", "Run lifecycle" and "Queue edge cases": how deliveries end. */
import { describe, expect, it } from "vitest";
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
import { refusingWorld } from "./refusing-world.ts";
import { played } from "./stage.ts";

useStage();

scenario(
  "deadline handoff, and the margin before it",
  {
    runs: [
      program(sequence(...Array.from({ length: 20 }, (_, i) => step(`s${i}`, { ms: 1_000 })))),
    ],
    settings: { inlineWindowMs: 5_000 },
  },
  ({ count, orchestratorDeliveries, bodies, stepMessagesSent }) => {
    expect(count("run_completed")).toBe(1);
    const answers = orchestratorDeliveries().map(({ answer }) => answer?.kind);
    expect(answers.filter((answer) => answer === "handoff").length).toBeGreaterThanOrEqual(3);
    // No step was sent to the queue for the deadline's sake, and no handoff was an attempt.
    expect(stepMessagesSent()).toBe(0);
    expect(bodies("s19")).toBe(1);
    expect(new Set(orchestratorDeliveries().map(({ meta }) => meta.attempt))).toEqual(new Set([1]));
  },
);

scenario(
  "a start message that was handed off does not begin its run again",
  {
    runs: [program(sequence(step("a", { ms: 6_000 }), step("b", { ms: 6_000 }), step("c")))],
    settings: { inlineWindowMs: 5_000 },
  },
  ({ count, bodies }) => {
    expect(count("run_started")).toBe(1);
    expect(["a", "b", "c"].map((label) => bodies(label))).toEqual([1, 1, 1]);
  },
);

scenario(
  "coalesced re-runs exhausted: handed off, and no attempt counted",
  {
    runs: [
      program(hook("h", 120), {
        payloads: Array.from({ length: 120 }, (_, i) => ({ hook: "h", afterMs: 100 + i * 4 })),
      }),
    ],
  },
  ({ count, orchestratorDeliveries }) => {
    expect(count("hook_received")).toBe(120);
    expect(count("run_completed")).toBe(1);
    expect(new Set(orchestratorDeliveries().map(({ meta }) => meta.attempt))).toEqual(new Set([1]));
  },
);

scenario(
  "a heap is lost in the middle of a delivery",
  {
    runs: [program(sequence(step("a"), step("b"), step("c")))],
    script: [{ fault: "heap lost", at: "sandbox.pass", nth: 3 }],
  },
  ({ count, bodies, orchestratorDeliveries }) => {
    expect(count("run_completed")).toBe(1);
    expect(orchestratorDeliveries()).toHaveLength(1);
    expect(["a", "b", "c"].map((label) => bodies(label))).toEqual([1, 1, 1]);
  },
);

scenario(
  "unknown outcome of a write: the log decides at the next load",
  {
    runs: [program(sequence(step("a"), step("b")))],
    script: [{ fault: "answer lost", at: "events.createBatch", when: writes("step_completed") }],
  },
  ({ count, bodies }) => {
    expect(count("step_completed")).toBe(2);
    expect(bodies("a")).toBe(1);
  },
);

scenario(
  "an incomplete report: the log is loaded before anything of it is consumed",
  {
    runs: [
      program(all(sequence(step("a"), step("b"), step("c")), hook("h", 8)), {
        payloads: Array.from({ length: 8 }, (_, i) => ({ hook: "h", afterMs: i * 15 })),
      }),
    ],
    script: [{ fault: "short report", at: "events.createBatch", times: 4 }],
  },
  ({ count }) => {
    expect(count("hook_received")).toBe(8);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "an event that landed after the guest decided starts another pass",
  {
    runs: [
      program(sequence(all(hook("h"), sleep(60_000)), step("after")), {
        payloads: [{ hook: "h", afterMs: 30 }],
      }),
    ],
    script: [{ fault: "answer lost", at: "events.create", when: writes("hook_received") }],
  },
  ({ count }) => {
    // The client asked again under the same name: one payload.
    expect(count("hook_received")).toBe(1);
    expect(count("run_completed")).toBe(1);
  },
);

scenario(
  "a wake with nothing new writes nothing",
  {
    runs: [program(sequence(step("a"), sleep(60_000)))],
    settings: { inlineStepsMax: 0 },
    script: [{ fault: "ack lost", at: "delivery", when: about("wake"), times: 3 }],
  },
  ({ run }) => {
    expect(run.events.map(({ eventType }) => eventType)).toEqual([
      "run_created",
      "run_started",
      "step_created",
      "step_started",
      "step_completed",
      "wait_created",
      "wait_completed",
      "run_completed",
    ]);
  },
);

describe("refused on every pass", () => {
  it("the delivery cap fails the run", async () => {
    const refused = Array.from({ length: 50 }, (_, i) => i + 1);
    const play = { runs: [program(step("a"))], world: refusingWorld(refused) };
    const { run, orchestratorDeliveries, bodies } = await played(play, "one", false);
    expect(orchestratorDeliveries().length).toBeGreaterThanOrEqual(48);
    expect(orchestratorDeliveries().length).toBeLessThanOrEqual(55);
    expect(run.events.at(-1)?.eventData).toMatchObject({ errorCode: "MAX_DELIVERIES_EXCEEDED" });
    expect(bodies("a")).toBe(0);
  });
});
