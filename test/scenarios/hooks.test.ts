/** Hooks and what surrounds them, by the spec's names: conflicts, disposal, the inline start rule. */
import { describe, expect } from "vitest";
import { library, scenario, useStage, writes } from "./stage.ts";

useStage();

describe("hook conflicts", () => {
  scenario(
    "a hook_created that is answered with a conflict is consumed in the same delivery",
    { runs: [library("hookGuard", { width: 1, ms: 10 })], settings: { inlineStepsMax: 0 } },
    ({ count, orchestratorDeliveries }) => {
      expect(count("hook_conflict")).toBe(1);
      // The start, and the wakes of the step's outcome: none for the conflict.
      expect(orchestratorDeliveries().length).toBeLessThanOrEqual(2);
    },
  );

  scenario(
    "no inline step starts while a new hook awaits its conflict",
    { runs: [library("hookGuard", { width: 3, ms: 10 })] },
    ({ run, count }) => {
      expect(count("step_created")).toBe(3);
      const first = run.events.find(({ eventType }) => eventType === "step_created");
      expect(first?.eventData).toMatchObject({ inline: false });
    },
  );

  scenario(
    "a hook whose creation is processed twice does not conflict with itself",
    {
      runs: [library("hookOnce", { ms: 10 })],
      script: [{ fault: "crash after", at: "events.create", when: writes("hook_created") }],
    },
    ({ count, faultsMet }) => {
      expect(faultsMet()).toBe(1);
      expect(count("hook_created")).toBe(1);
      expect(count("hook_conflict")).toBe(0);
      expect(count("run_completed")).toBe(1);
    },
  );
});

describe("terminal hook disposal", () => {
  scenario(
    "a disposal is written before a later creation of its token, and none that the run's end makes",
    { runs: [library("hookReused", { ms: 10 })] },
    ({ run, count }) => {
      expect(count("hook_created")).toBe(3);
      expect(count("hook_conflict")).toBe(0);
      expect(run.events.map(({ eventType }) => eventType).slice(-3)).toEqual([
        "hook_disposed",
        "hook_created",
        "run_completed",
      ]);
    },
  );

  scenario(
    "a crash in the drain leaves nothing that the next delivery does not finish",
    {
      runs: [library("hookReused", { ms: 10 })],
      script: [
        { fault: "crash after", at: "events.create", when: writes("hook_disposed"), times: 2 },
      ],
    },
    ({ count }) => {
      expect(count("hook_disposed")).toBe(2);
      expect(count("run_completed")).toBe(1);
    },
  );
});
