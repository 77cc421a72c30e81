/** What a delivery owes that is not its message's first, and what every message carries. */
import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import { SPEC_VERSION } from "../../engine/events.ts";
import type { DeliveryResult, OrchestratorMessage } from "../../engine/ports/queue.ts";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import { createRig, done, fails, TENANT } from "./rig.ts";
import type { Rig } from "./rig.ts";
import { withEvents } from "./with-events.ts";

const never = () => new Promise<StepOutcome>(() => undefined);
const steps = (rig: Rig) => rig.sends.filter(({ message }) => message.kind === "step");

/** The run's first message once more. */
function again(rig: Rig, meta: { deliveryCount: number; invocationStartedAt?: number }) {
  const [first] = rig.deliveries;
  return rig
    .engine()
    .handlers.orchestrator(first!.message as OrchestratorMessage, { ...first!.meta, ...meta });
}

describe("a delivery that is not its message's first", () => {
  const background = () =>
    createRig({
      programs: {
        main: async (guest) => {
          await Promise.all([guest.step("work", "a"), guest.step("work", "b")]);
          return "both";
        },
      },
      // Their starts are refused, so they stay without one.
      steps: { work: never },
      settings: { inlineStepsMax: 0 },
      wrap: withEvents((events) => ({
        create: (runId, event, params) =>
          event.eventType === "step_started"
            ? Promise.reject(new BatonError("THROTTLED", "less", { retryAfterMs: 60_000 }))
            : events.create(runId, event, params),
      })),
    });

  it("sends unstarted steps again once per invocation, under their own keys, marked", async () => {
    const rig = background();
    await rig.start();
    await rig.settle();
    expect(steps(rig)).toHaveLength(2);
    const invocationStartedAt = rig.clock.now();
    await again(rig, { deliveryCount: 2, invocationStartedAt });
    await again(rig, { deliveryCount: 3, invocationStartedAt });
    expect(steps(rig)).toHaveLength(4);
    await again(rig, { deliveryCount: 4, invocationStartedAt: invocationStartedAt + 1 });
    expect(steps(rig)).toHaveLength(6);
    const keys = steps(rig).map(({ options }) => options?.idempotencyKey);
    expect(new Set(keys).size).toBe(2);
    const marks = steps(rig).map(({ message }) => message.kind === "step" && message.stepResent);
    expect(marks).toEqual([undefined, undefined, true, true, true, true]);
  });

  it("a first delivery sends none of them again", async () => {
    const rig = background();
    await rig.start();
    await rig.settle();
    await again(rig, { deliveryCount: 1 });
    expect(steps(rig)).toHaveLength(2);
  });

  it("measures its window from the start of its invocation, not from its own", async () => {
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      settings: { inlineWindowMs: 600_000 },
      wrap: withEvents((events) => ({
        // Nothing gets begun before the test says so.
        createBatch: (...args) =>
          isHeld
            ? Promise.reject(new BatonError("THROTTLED", "less"))
            : events.createBatch(...args),
      })),
    });
    let isHeld = true;
    const run = await rig.start();
    await rig.settle();
    isHeld = false;
    const invocationStartedAt = rig.clock.now() - 600_000;
    const answer = await again(rig, { deliveryCount: 2, invocationStartedAt });
    expect(answer).toEqual({ kind: "handoff" });
    expect(rig.attempts).toEqual([]);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });
});

describe("a delivery that the fence refused", () => {
  it("sends the message of a retry that it committed, before it asks for its own again", async () => {
    let hasRefused = false;
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await Promise.all([guest.step("work"), guest.sleep(1_000)]);
          return "both";
        },
      },
      steps: {
        work: ({ attempt }) => {
          if (attempt > 1) return done("x");
          return new Promise<StepOutcome>((resolve) => {
            rig.clock.setTimer(1_000, () => resolve(fails("first")));
          });
        },
      },
      wrap: withEvents((events) => ({
        createBatch: (runId, batch, params) => {
          if (hasRefused || batch[0]?.eventType !== "wait_completed") {
            return events.createBatch(runId, batch, params);
          }
          hasRefused = true;
          return Promise.reject(new BatonError("IN_BAND_SUPERSEDED", "another one wrote"));
        },
      })),
    });
    const run = await rig.start();
    await rig.settle();
    await rig.advance(1_000);
    const refused: DeliveryResult = { kind: "redeliver", afterMs: 1_000, counted: true };
    expect(rig.deliveries[0]?.answer).toEqual(refused);
    expect(steps(rig)).toHaveLength(1);
    expect(steps(rig)[0]?.message).toMatchObject({ stepAttempt: 2 });
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("both");
    expect(rig.attempts).toHaveLength(2);
  });
});

describe("messages of a run", () => {
  it("each say its version: starts, wakes, timers, hops, steps and their retries", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const door = guest.hook("door");
          await Promise.all([guest.step("work"), guest.step("far"), door.next()]);
          await guest.sleep(3 * 24 * 3_600_000);
          return "end";
        },
      },
      steps: {
        work: ({ attempt }) => (attempt === 1 ? fails("once") : done("x")),
        far: { body: () => done("y") },
      },
      settings: { inlineStepsMax: 1 },
    });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "open");
    await rig.engine().getRun(run.tenantId, run.runId).wakeUp();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
    const messages = [...rig.sends, ...rig.implied].map(({ message }) => message);
    const kinds = messages.map((m) => (m.kind === "step" ? "step" : m.reason));
    expect(new Set(kinds)).toEqual(new Set(["start", "step", "wake", "timer"]));
    expect(messages.filter(({ specVersion }) => specVersion !== SPEC_VERSION)).toEqual([]);
    expect(messages.filter(({ tenantId }) => tenantId !== TENANT)).toEqual([]);
  });
});

describe("a payload whose write meets a conflict", () => {
  it("is told so, and may be sent again: the hook is not said to be gone", async () => {
    let isConflicted = true;
    const rig = createRig({
      programs: { main: (guest) => guest.hook("door").next() },
      wrap: withEvents((events) => ({
        create: (runId, event, params) =>
          event.eventType === "hook_received" && isConflicted
            ? Promise.reject(new BatonError("ENTITY_CONFLICT", "not now"))
            : events.create(runId, event, params),
      })),
    });
    const run = await rig.start();
    await rig.settle();
    await expect(rig.resume("door", "a", "once")).rejects.toMatchObject({
      code: "ENTITY_CONFLICT",
    });
    isConflicted = false;
    await rig.resume("door", "a", "once");
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("a");
  });
});
