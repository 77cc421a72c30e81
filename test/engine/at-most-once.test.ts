/** A step with `maxRetries: 0` whose message comes twice, as after a lapsed lease. */
import { expect, it } from "vitest";
import type { StepMessage } from "../../engine/ports/queue.ts";
import { createRig, done } from "./rig.ts";
import { withEvents } from "./with-events.ts";

it("a start that lands behind the step's outcome runs no second body", async () => {
  let letGo = (): void => undefined;
  let isFirst = true;
  const rig = createRig({
    programs: { main: (guest) => guest.step("once") },
    steps: { once: { maxRetries: 0, body: () => done("x") } },
    settings: { inlineStepsMax: 0 },
    wrap: withEvents((events) => ({
      create: async (runId, event, params) => {
        const waits = isFirst && event.eventType === "step_started";
        if (waits) {
          isFirst = false;
          await new Promise<void>((resolve) => (letGo = resolve));
        }
        return events.create(runId, event, params);
      },
    })),
  });
  const run = await rig.start();
  await rig.settle();
  const { message, meta } = rig.deliveries.find((one) => one.message.kind === "step")!;
  const second = rig
    .engine()
    .handlers.step(message as StepMessage, { ...meta, deliveryCount: 2, attempt: 2 });
  expect(await second).toEqual({ kind: "ack" });
  letGo();
  await rig.runOut(run);
  expect(rig.attempts).toHaveLength(1);
  expect(await rig.output(run)).toBe("x");
  // The late start is in the log, where it is inert.
  expect((await rig.types(run)).filter((type) => type === "step_started")).toHaveLength(2);
});
