/** Steps that run in the orchestrator's own delivery. */
import { describe, expect, it } from "vitest";
import type { StepMessage } from "../../engine/ports/queue.ts";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import { createRig, done } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";
import type { Program } from "./fake-sandbox.ts";

const one: Program = async (guest) => guest.step("work", "in");
const caught: Program = (guest) =>
  guest.step("work").catch((error: Error) => `caught ${error.message}`);
const background = { settings: { inlineStepsMax: 0 } } as const;

const stepMessages = (rig: Rig) =>
  rig.sends.flatMap((send) => (send.message.kind === "step" ? [send.message] : []));

/** A body that ends when the test says so. */
function held() {
  const ends: ((outcome: StepOutcome) => void)[] = [];
  const body = () => new Promise<StepOutcome>((resolve) => ends.push(resolve));
  return { body, end: (outcome: StepOutcome) => ends.shift()?.(outcome), ends };
}

async function played(options: RigOptions) {
  const rig = createRig(options);
  const run = await rig.start();
  await rig.runOut(run);
  return { rig, run, output: await rig.output(run), types: await rig.types(run) };
}

describe("an inline step", () => {
  it("without retries is failed, not run again, when its orchestrator died", async () => {
    const body = held();
    const rig = createRig({
      programs: { main: caught },
      steps: { work: { maxRetries: 0, body: body.body } },
    });
    const run = await rig.start();
    await rig.settle();
    const [first] = rig.deliveries;
    rig.restart();
    // The lease lapsed: the same message, counted, in another process.
    const { handlers } = rig.engine();
    await handlers.orchestrator(first!.message as never, {
      ...first!.meta,
      deliveryCount: 2,
      attempt: 2,
    });
    expect(await rig.output(run)).toContain("its last attempt never reported an outcome");
    expect(rig.attempts).toHaveLength(1);
  });

  it("is run again with the next attempt when its orchestrator died", async () => {
    const body = held();
    const rig = createRig({ programs: { main: one }, steps: { work: body.body } });
    const run = await rig.start();
    await rig.settle();
    const [first] = rig.deliveries;
    rig.restart();
    const again = rig.engine().handlers.orchestrator(first!.message as never, {
      ...first!.meta,
      deliveryCount: 2,
      attempt: 2,
    });
    await rig.settle();
    expect(rig.attempts.map((a) => a.attempt)).toEqual([1, 2]);
    body.ends[1]?.(done("second"));
    expect(await again).toEqual({ kind: "ack" });
    expect(await rig.output(run)).toBe("second");
    // The stalled one wakes up, has heard that the run is over, and writes nothing.
    body.ends[0]?.(done("first"));
    await rig.settle();
    expect(first!.answer).toEqual({ kind: "ack" });
    expect(await rig.output(run)).toBe("second");
  });

  it("is told when its run is cancelled, and its outcome is inert", async () => {
    const rig = createRig({
      programs: { main: one },
      steps: {
        work: ({ signal }) =>
          new Promise<StepOutcome>((resolve) => {
            signal.addEventListener("abort", () => resolve(done("too late")));
          }),
      },
    });
    const run = await rig.start();
    await rig.settle();
    await rig.engine().getRun(run.tenantId, run.runId).cancel();
    await rig.settle();
    expect(await rig.output(run)).toBe("cancelled");
    expect((await rig.types(run)).slice(2)).toEqual([
      "step_started",
      "run_cancelled",
      "step_completed",
    ]);
    expect(rig.deliveries.at(-1)?.answer).toEqual({ kind: "ack" });
  });

  it("that cannot be encoded fails alone and catchably, and is never run", async () => {
    const { rig, output, types } = await played({
      programs: {
        main: async (guest) => {
          const results = await Promise.allSettled([
            guest.badStep("work"),
            guest.step("work"),
            guest.step("work"),
          ]);
          return results.map((result) => result.status).join(" ");
        },
      },
      steps: { work: () => done("x") },
    });
    expect(output).toBe("rejected fulfilled fulfilled");
    expect(rig.attempts).toHaveLength(2);
    expect(types.filter((type) => type === "step_created")).toHaveLength(1);
  });
});

describe("slots", () => {
  it("open inline steps count against the slots of a later fan-out", async () => {
    const body = held();
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const slow = [guest.step("slow"), guest.step("slow")];
          await guest.step("work");
          await Promise.all([guest.step("work"), guest.step("work")]);
          await Promise.all(slow);
          return "end";
        },
      },
      steps: { work: () => done("x"), slow: body.body },
    });
    const run = await rig.start();
    await rig.settle();
    const log = await rig.log(run);
    expect(log.filter((event) => event.eventType === "step_created")).toHaveLength(1);
    body.end(done("s"));
    body.end(done("s"));
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
  });

  it("a message of a step carries what the step needs and nothing of another tenant", async () => {
    const { rig, run } = await played({
      programs: { main: one },
      steps: { work: () => done("x") },
      ...background,
    });
    const expected: Partial<StepMessage> = {
      tenantId: run.tenantId,
      runId: run.runId,
      stepName: "work",
      stepAttempt: 1,
    };
    expect(stepMessages(rig)).toMatchObject([expected]);
  });
});
