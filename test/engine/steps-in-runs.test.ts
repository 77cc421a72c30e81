import { describe, expect, it } from "vitest";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import { BatonError } from "../../engine/errors.ts";
import { createRig, done, fails } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";
import { withEvents } from "./with-events.ts";
import type { Program } from "./fake-sandbox.ts";

const HOUR = 3_600_000;
const one: Program = async (guest) => guest.step("work", "in");
const caught: Program = (guest) =>
  guest.step("work").catch((error: Error) => `caught ${error.message}`);
const background = { settings: { inlineStepsMax: 0 } } as const;

const stepMessages = (rig: Rig) =>
  rig.sends.flatMap((send) => (send.message.kind === "step" ? [send.message] : []));
const stepDeliveries = (rig: Rig) => rig.deliveries.filter((d) => d.message.kind === "step");

async function played(options: RigOptions) {
  const rig = createRig(options);
  const run = await rig.start();
  await rig.runOut(run);
  return { rig, run, output: await rig.output(run), types: await rig.types(run) };
}

describe.each([
  ["inline", {}],
  ["background", background],
])("a step that runs %s", (mode, settings) => {
  it("is retried after about a second, four attempts in all, and fails with the last error", async () => {
    const { rig, output, types } = await played({
      programs: { main: caught },
      steps: { work: ({ attempt }) => fails(`no ${attempt}`) },
      ...settings,
    });
    expect(output).toBe("caught no 4");
    expect(rig.attempts.map((a) => [a.attempt, a.isLast])).toEqual([
      [1, false],
      [2, false],
      [3, false],
      [4, true],
    ]);
    expect(types.filter((type) => type === "step_retrying")).toHaveLength(3);
    expect(rig.clock.now() - rig.attempts[0]!.stepStartedAt).toBe(3_000);
    expect(new Set(rig.attempts.map((a) => a.stepStartedAt)).size).toBe(1);
    expect(stepMessages(rig)).toHaveLength(1);
  });

  it("with a retry delay of 0 is retried at once", async () => {
    const { rig, output } = await played({
      programs: { main: one },
      steps: {
        work: ({ attempt }) =>
          attempt === 1 ? fails("no", { retryAt: rig0.clock.now() }) : done("yes"),
      },
      ...settings,
    });
    expect(output).toBe("yes");
    expect(rig.clock.now() - rig.attempts[0]!.stepStartedAt).toBe(0);
  });

  it("waits for a retry days away on one delayed redelivery", async () => {
    const { rig, output } = await played({
      programs: { main: one },
      steps: {
        work: ({ attempt, stepStartedAt }) =>
          attempt === 1 ? fails("no", { retryAt: stepStartedAt + 50 * HOUR + 7 }) : done("yes"),
      },
      ...settings,
    });
    expect(output).toBe("yes");
    expect(rig.attempts).toHaveLength(2);
    expect(rig.clock.now() - rig.attempts[0]!.stepStartedAt).toBe(50 * HOUR + 7);
    expect(stepDeliveries(rig).length).toBe(mode === "inline" ? 1 : 2);
  });

  it("fails at once on a fatal error", async () => {
    const { rig, output, types } = await played({
      programs: { main: caught },
      steps: { work: () => fails("fatal", { isFatal: true }) },
      ...settings,
    });
    expect(output).toBe("caught fatal");
    expect(rig.attempts).toHaveLength(1);
    expect(types).not.toContain("step_retrying");
  });

  it("is run again, uncounted, when it was cut short by something else", async () => {
    let cuts = 0;
    const { rig, output, types } = await played({
      programs: { main: one },
      steps: {
        work: {
          maxRetries: 1,
          body: () => (++cuts <= 5 ? { kind: "interrupted", reason: "thread" } : done("yes")),
        },
      },
      ...settings,
    });
    expect(output).toBe("yes");
    expect(rig.attempts.map((a) => a.attempt)).toEqual([1, 1, 1, 1, 1, 1]);
    expect(types.filter((type) => type === "step_retrying")).toHaveLength(5);
  });

  it("without retries fails when it is cut short, and is never run twice", async () => {
    const { rig, output } = await played({
      programs: { main: caught },
      steps: { work: { maxRetries: 0, body: () => ({ kind: "interrupted", reason: "thread" }) } },
      ...settings,
    });
    expect(output).toContain("cut short");
    expect(rig.attempts).toHaveLength(1);
  });
});

// Only for its clock: a body's time is the rig's.
const rig0 = createRig({ programs: {} });

describe("a background step's message", () => {
  it("plain first: the body runs once its start has committed, with no read of the log", async () => {
    const order: string[] = [];
    const rig = createRig({
      programs: { main: one },
      steps: {
        work: () => {
          order.push("body");
          return done("x");
        },
      },
      ...background,
      wrap: withEvents((events) => ({
        create: async (runId, event, params) => {
          const result = await events.create(runId, event, params);
          if (event.eventType === "step_started") order.push("start committed");
          return result;
        },
      })),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(order).toEqual(["start committed", "body"]);
    expect(await rig.output(run)).toBe("x");
  });

  it("under the opt-in the body starts before its start commits, but not without retries", async () => {
    const order: string[] = [];
    const options = (maxRetries: number): RigOptions => ({
      programs: { main: one },
      steps: {
        work: {
          maxRetries,
          body: () => {
            order.push("body");
            return done("x");
          },
        },
      },
      settings: { inlineStepsMax: 0, optimisticBackgroundStart: true },
      wrap: withEvents((events) => ({
        create: async (runId, event, params) => {
          if (event.eventType === "step_started") order.push("start");
          return events.create(runId, event, params);
        },
      })),
    });
    await played(options(3));
    expect(order.splice(0)).toEqual(["body", "start"]);
    await played(options(0));
    expect(order).toEqual(["start", "body"]);
  });

  it("under the opt-in a body behind a throttled start runs for nothing, and once more", async () => {
    let throttles = 1;
    const { rig, output, types } = await played({
      programs: { main: one },
      steps: { work: () => done("x") },
      settings: { inlineStepsMax: 0, optimisticBackgroundStart: true },
      wrap: withEvents((events) => ({
        create: (runId, event, params) =>
          event.eventType === "step_started" && throttles-- > 0
            ? Promise.reject(new BatonError("THROTTLED", "less", { retryAfterMs: 5_000 }))
            : events.create(runId, event, params),
      })),
    });
    expect(output).toBe("x");
    expect(rig.attempts.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(types.filter((type) => type === "step_started")).toHaveLength(1);
    expect(types.filter((type) => type === "step_completed")).toHaveLength(1);
  });

  it("under the opt-in a body of a run that was cancelled runs, and writes no outcome", async () => {
    let cancel: () => Promise<unknown> = () => Promise.resolve();
    const rig = createRig({
      programs: { main: one },
      steps: { work: () => done("x") },
      settings: { inlineStepsMax: 0, optimisticBackgroundStart: true },
      wrap: withEvents((events) => ({
        create: async (runId, event, params) => {
          if (event.eventType === "step_started") await cancel();
          return events.create(runId, event, params);
        },
      })),
    });
    const run = await rig.start();
    cancel = () => rig.engine().getRun(run.tenantId, run.runId).cancel("enough");
    await rig.runOut(run);
    await rig.settle();
    expect(await rig.output(run)).toBe("cancelled");
    expect(rig.attempts).toHaveLength(1);
    const types = await rig.types(run);
    expect(types).not.toContain("step_started");
    expect(types).not.toContain("step_completed");
    expect(stepDeliveries(rig).at(-1)?.answer).toEqual({ kind: "ack" });
  });

  it("that finds its outcome sends the wake again and runs nothing", async () => {
    const { rig, output } = await played({
      programs: { main: one },
      steps: { work: () => done("x") },
      ...background,
    });
    expect(output).toBe("x");
    const wakes = () => rig.sends.filter((send) => send.message.kind === "orchestrator").length;
    const before = wakes();
    // The run is over: nothing is sent.
    await rig.world.queue.send({ ...stepMessages(rig)[0]!, stepResent: true });
    await rig.settle();
    expect(wakes()).toBe(before);
    expect(rig.attempts).toHaveLength(1);
  });

  it("that finds its outcome on a run under way wakes the run", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => (await guest.step("work")) + (await guest.hook("door").next()),
      },
      steps: { work: () => done("x") },
      ...background,
    });
    await rig.start();
    await rig.settle();
    const before = rig.sends.length;
    await rig.world.queue.send({ ...stepMessages(rig)[0]!, stepResent: true });
    await rig.settle();
    expect(rig.sends.slice(before).map((send) => send.message)).toMatchObject([{ reason: "wake" }]);
    expect(rig.attempts).toHaveLength(1);
  });

  it("of a run that was cancelled while it was queued starts no body", async () => {
    let isHere = false;
    const rig = createRig({
      programs: { main: one },
      steps: { work: { body: () => done("x"), isHere: () => isHere } },
      ...background,
    });
    const run = await rig.start();
    await rig.settle();
    await rig.engine().getRun(run.tenantId, run.runId).cancel("enough");
    isHere = true;
    await rig.advance(HOUR);
    expect(rig.attempts).toEqual([]);
    expect(await rig.output(run)).toBe("cancelled");
    expect(rig.clock.nextTimerAt).toBeNull();
  });

  it("whose step nothing here can run waits, uncounted, for a process that can", async () => {
    let isHere = false;
    const rig = createRig({
      programs: { main: one },
      steps: { work: { body: () => done("x"), isHere: () => isHere } },
    });
    const run = await rig.start();
    await rig.settle();
    await rig.advance(10 * HOUR);
    expect(stepDeliveries(rig).length).toBeGreaterThan(500);
    expect(stepDeliveries(rig).every((d) => d.meta.attempt === 1)).toBe(true);
    // An operator sees it: each time in the tenant's use, and by name once it has waited long.
    expect(rig.counted("unregisteredSteps")).toBe(stepDeliveries(rig).length);
    const told = rig.lines.filter(({ fields }) => fields["code"] === "STEP_NOT_REGISTERED");
    expect(told[0]?.message).toBe("nothing here can run the step");
    expect(told.at(-1)?.fields).toMatchObject({ stepName: "work", waitedMs: expect.any(Number) });
    expect(told.at(-1)?.message).toBe("a step waits for code that nothing here has");
    const row = await rig.world.forTenant(run.tenantId).runs.get(run.runId);
    expect(row?.parked).toBeNull();
    isHere = true;
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });

  it("carries no large input; its delivery reads the creation event", async () => {
    const large = "y".repeat(200_000);
    const { rig, output } = await played({
      programs: { main: (guest) => guest.step("work", large) },
      steps: { work: ({ input }) => done(String(input.length)) },
      ...background,
    });
    expect(output).toBe("200000");
    expect(stepMessages(rig)[0]!.stepInput).toBeUndefined();
  });

  it("tells a running body that its run was cancelled", async () => {
    const signals: AbortSignal[] = [];
    const rig = createRig({
      programs: { main: one },
      steps: {
        work: ({ signal }) => {
          signals.push(signal);
          return new Promise<StepOutcome>((resolve) => {
            signal.addEventListener("abort", () => resolve(fails("aborted", { isFatal: true })));
          });
        },
      },
      ...background,
    });
    const run = await rig.start();
    await rig.settle();
    await rig.engine().getRun(run.tenantId, run.runId).cancel();
    await rig.advance(2_000);
    expect(signals[0]?.aborted).toBe(true);
    expect(stepDeliveries(rig).at(-1)?.answer).toEqual({ kind: "ack" });
    expect(await rig.types(run)).toContain("step_failed");
  });

  it("delivered too often without any activity for an hour fails its step, catchably", async () => {
    let failures = 0;
    const rig = createRig({
      programs: { main: caught },
      steps: { work: () => done("x") },
      ...background,
      wrap: withEvents((events) => ({
        create: async (runId, event, params) => {
          if (event.eventType !== "step_started") return events.create(runId, event, params);
          failures += 1;
          throw new BatonError("WORLD_UNAVAILABLE", "down");
        },
      })),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toContain("MAX_DELIVERIES_EXCEEDED");
    expect(failures).toBe(48);
    expect(rig.attempts).toEqual([]);
  });

  it("throttled at its start runs no body and comes again, uncounted", async () => {
    let throttled = 0;
    const { rig, output } = await played({
      programs: { main: one },
      steps: { work: () => done("x") },
      ...background,
      wrap: withEvents((events) => ({
        create: async (runId, event, params) => {
          if (event.eventType === "step_started" && ++throttled <= 3) {
            throw new BatonError("THROTTLED", "less", { retryAfterMs: 500 });
          }
          return events.create(runId, event, params);
        },
      })),
    });
    expect(output).toBe("x");
    expect(rig.attempts).toHaveLength(1);
    expect(stepDeliveries(rig).map((d) => d.meta.attempt)).toEqual([1, 1, 1, 1]);
  });
});
