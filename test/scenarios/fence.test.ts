/** "Fence edge cases", "What returns 412" and "Event posting edge cases": writes that are refused. */
import { expect } from "vitest";
import { allocatingConflict, cancellingWorld, refusingWorld } from "./refusing-world.ts";
import { all, hook, program, scenario, sequence, sleep, step, useStage, writes } from "./stage.ts";
import type { Scene } from "./stage.ts";

useStage();

/** The client that the World goes before cancels as well, and comes too late. */
const LATER = { cancelAfterMs: 60_000 };
const chain = sequence(step("a"), step("b"));
const answers = (scene: Scene) => scene.orchestratorDeliveries().map(({ answer }) => answer?.kind);

scenario(
  "a definite refusal that did allocate: the next write is refused, and the message comes again",
  { runs: [program(chain)], world: allocatingConflict(2) },
  (scene) => {
    expect(scene.count("run_completed")).toBe(1);
    expect(scene.bodies("a")).toBe(1);
    expect(scene.bodies("b")).toBe(1);
    expect(answers(scene)).toContain("redeliver");
  },
);

scenario(
  "a refusal while bodies run: they settle first, and the redelivery runs them again",
  {
    runs: [program(all(step("a"), step("b", { ms: 4_000 })))],
    // `run_started`, the two starts, and then the outcome of the first.
    world: refusingWorld([3]),
  },
  (scene) => {
    expect(scene.count("run_completed")).toBe(1);
    expect(scene.count("step_completed")).toBe(2);
    expect(scene.bodies("b")).toBe(2);
    const [refused] = scene.orchestratorDeliveries();
    expect(refused?.answer).toEqual({ kind: "redeliver", afterMs: 1_000, counted: true });
    // Nothing of the refused delivery was written: each step has its two starts and one outcome.
    expect(scene.count("step_started")).toBe(4);
  },
);

scenario(
  "a kept heap is discarded after a refusal, and the redelivery replays to the same",
  {
    runs: [
      program(sequence(step("a"), hook("h"), step("b")), {
        payloads: [{ hook: "h", afterMs: 5_000 }],
      }),
    ],
    // The first write of the delivery that the payload's wake brings.
    world: refusingWorld([5]),
  },
  (scene) => {
    expect(scene.count("run_completed")).toBe(1);
    expect(scene.bodies("a")).toBe(1);
    expect(scene.bodies("b")).toBe(1);
    expect(answers(scene)).toContain("redeliver");
    expect(scene.observation.calls.get("sandbox.open")).toBeGreaterThan(1);
  },
);

scenario(
  "an overlap through a hook's wake: the parked delivery is fenced out",
  {
    runs: [
      program(all(hook("h"), sequence(step("a"), step("b"))), {
        payloads: [{ hook: "h", afterMs: 1_000 }],
      }),
    ],
    workers: 2,
    script: [{ fault: "stall", at: "events.createBatch", when: writes("step_completed") }],
  },
  (scene) => {
    expect(scene.count("run_completed")).toBe(1);
    expect(scene.count("step_completed")).toBe(2);
    expect(scene.count("hook_received")).toBe(1);
    expect(scene.faultsMet()).toBe(1);
  },
);

scenario(
  "an overlap through a timer: the parked delivery is fenced out",
  {
    runs: [program(all(sleep(2_000), sequence(step("a"), step("b"))))],
    workers: 2,
    script: [{ fault: "stall", at: "events.createBatch", when: writes("step_completed") }],
  },
  (scene) => {
    expect(scene.count("run_completed")).toBe(1);
    expect(scene.count("wait_completed")).toBe(1);
    expect(scene.count("step_completed")).toBe(2);
    expect(scene.faultsMet()).toBe(1);
  },
);

scenario(
  "a run that ends below a batch of starts: none of their bodies runs",
  { runs: [program(all(step("a"), step("b")), LATER)], world: cancellingWorld("step_started") },
  (scene) => {
    expect(scene.count("run_cancelled")).toBe(1);
    expect(scene.count("step_started", "step_completed")).toBe(0);
    expect(scene.observation.bodies).toEqual([]);
    expect(answers(scene).every((kind) => kind === "ack")).toBe(true);
  },
);

scenario(
  "a run that ends below its own completion: the first of the two by slot counts",
  { runs: [program(step("a"), LATER)], world: cancellingWorld("run_completed") },
  (scene) => {
    expect(scene.count("run_cancelled")).toBe(1);
    expect(scene.run.status).toBe("cancelled");
  },
);
