/** How an engine stops: what it drives is handed off, and what runs ends or is run again elsewhere. */
import { describe, expect, it } from "vitest";
import { STOP_GRACE_MS } from "../../engine/limits.ts";
import type { StepAttempt, StepOutcome } from "../../engine/ports/steps.ts";
import { createRig, done, fails } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";

const HOUR = 3_600_000;

/** Ends after so long, or as runners do once its signal is aborted. */
const lasting =
  (rig: () => Rig, ms: number, cut: StepOutcome = { kind: "interrupted", reason: "cut" }) =>
  ({ signal }: StepAttempt) =>
    new Promise<StepOutcome>((resolve) => {
      rig().clock.setTimer(ms, () => resolve(done("end")));
      signal.addEventListener("abort", () => resolve(cut));
    });

/** A run with a body at work, in place or in the background. */
async function atWork(
  where: "in place" | "in the background",
  body: (rig: () => Rig) => NonNullable<RigOptions["steps"]>[string],
) {
  const rig: Rig = createRig({
    programs: { main: async (guest) => guest.step("work") },
    steps: { work: body(() => rig) },
    settings: { inlineStepsMax: where === "in place" ? 3 : 0 },
  });
  const run = await rig.start();
  await rig.settle();
  expect(rig.attempts).toHaveLength(1);
  let isStopped = false;
  const stopped = rig
    .engine()
    .stop()
    .then(() => (isStopped = true));
  rig.restart();
  return { rig, run, stopped, isStopped: () => isStopped };
}

describe.each(["in place", "in the background"] as const)("a body %s", (where) => {
  it("that ends within the grace is recorded, and run no more", async () => {
    const { rig, run, stopped } = await atWork(where, (of) => lasting(of, STOP_GRACE_MS - 1));
    await rig.advance(STOP_GRACE_MS - 1);
    await stopped;
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
    expect(rig.attempts).toHaveLength(1);
  });

  it("that goes on is cut short after the grace, and its attempt does not count", async () => {
    const { rig, run, stopped, isStopped } = await atWork(where, (of) => lasting(of, HOUR));
    await rig.advance(STOP_GRACE_MS - 1);
    expect(isStopped()).toBe(false);
    await rig.advance(1);
    await stopped;
    const retrying = (await rig.log(run)).find((event) => event.eventType === "step_retrying");
    expect(retrying?.eventData).toMatchObject({ interrupted: true });
    await rig.runOut(run);
    expect(rig.attempts.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(await rig.output(run)).toBe("end");
  });

  it("that fails by its signal has not failed", async () => {
    const { rig, run, stopped } = await atWork(where, (of) =>
      lasting(of, HOUR, fails("AbortError", { isFatal: true })),
    );
    await rig.advance(STOP_GRACE_MS);
    await stopped;
    expect(await rig.types(run)).not.toContain("step_failed");
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
  });

  it("that may run only once is waited for", async () => {
    const { rig, run, stopped, isStopped } = await atWork(where, (of) => ({
      maxRetries: 0,
      body: lasting(of, HOUR),
    }));
    await rig.advance(HOUR - 1);
    expect(isStopped()).toBe(false);
    await rig.advance(1);
    await stopped;
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
    expect(rig.attempts).toHaveLength(1);
  });
});

describe("a process that stops", () => {
  it("hands off what it drives and takes nothing new", async () => {
    const { rig, run, stopped } = await atWork("in place", (of) => lasting(of, HOUR));
    await rig.advance(STOP_GRACE_MS);
    await stopped;
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "handoff" });
    await rig.runOut(run);
    const [first, second] = rig.deliveries.filter(({ message }) => message.kind !== "step");
    expect(second?.meta.messageId).toBe(first?.meta.messageId);
    expect([first?.meta.attempt, second?.meta.attempt]).toEqual([1, 1]);
  });

  it("waits for nothing where nothing runs, and leaves no timer", async () => {
    const rig = createRig({ programs: { main: async (guest) => guest.hook("door").next() } });
    await rig.start();
    await rig.settle();
    await rig.engine().stop();
    expect(rig.clock.nextTimerAt).toBeNull();
  });
});
