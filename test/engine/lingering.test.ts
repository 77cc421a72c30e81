/** Deliveries that stay on the live feed though they have nothing to run. */
import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import { createRig, done } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";
import { withEvents } from "./with-events.ts";

describe("lingering", () => {
  it("a delivery stays for background outcomes and acts on them without a new one", async () => {
    const rig: Rig = createRig({
      programs: { main: async (guest) => guest.step("slow") },
      steps: {
        slow: () =>
          new Promise<StepOutcome>((resolve) => {
            rig.clock.setTimer(10_000, () => resolve(done("s")));
          }),
      },
      settings: { inlineStepsMax: 0, lingerMs: 30_000 },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("s");
    const orchestrators = rig.deliveries.filter((d) => d.message.kind === "orchestrator");
    expect(orchestrators.map((d) => d.meta.deliveryCount)).toEqual([1, 2]);
    expect(orchestrators[0]?.answer).toEqual({ kind: "ack" });
  });

  it("a delivery leaves after the linger if nothing comes", async () => {
    const rig = createRig({
      programs: { main: async (guest) => guest.step("slow") },
      steps: { slow: () => new Promise(() => undefined) },
      settings: { inlineStepsMax: 0, lingerMs: 30_000 },
    });
    await rig.start();
    await rig.advance(29_999);
    expect(rig.deliveries[0]?.answer).toBeNull();
    await rig.advance(1);
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "ack" });
  });

  it("an open hook alone keeps no delivery; one with a payload a moment ago does", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const hook = guest.hook("door");
          return (await hook.next()) + (await hook.next());
        },
      },
      settings: { lingerMs: 30_000 },
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries.map((d) => d.answer)).toEqual([{ kind: "ack" }]);
    await rig.resume("door", "a");
    await rig.settle();
    expect(rig.deliveries[1]?.answer).toBeNull();
    await rig.resume("door", "b");
    await rig.settle();
    expect(await rig.output(run)).toBe("ab");
    expect(rig.deliveries[1]?.answer).toEqual({ kind: "ack" });
  });

  it("a wait that falls due ends the linger and is completed in process", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          void guest.step("slow");
          await guest.sleep(5_000);
          return "woke";
        },
      },
      steps: { slow: () => new Promise(() => undefined) },
      settings: { inlineStepsMax: 0, lingerMs: 30_000 },
    });
    const run = await rig.start();
    await rig.advance(5_000);
    expect(await rig.output(run)).toBe("woke");
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "ack" });
  });

  /** A run that waits for a background step whose body never ends. */
  const waiting = (more: Partial<RigOptions> = {}): RigOptions => ({
    programs: { main: (guest) => guest.step("slow") },
    steps: { slow: () => new Promise(() => undefined) },
    settings: { inlineStepsMax: 0, lingerMs: 30_000 },
    ...more,
  });

  it("a World without a feed keeps no delivery", async () => {
    const rig = createRig(
      waiting({
        wrap: (world) => ({
          ...world,
          capabilities: { ...world.capabilities, liveFeed: false },
        }),
      }),
    );
    await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "ack" });
  });

  it("a feed that is refused keeps none, and one that ends lets go at once", async () => {
    const refused = createRig(
      waiting({
        wrap: withEvents(() => ({
          subscribe: () => Promise.reject(new BatonError("RUN_FEED_LIMIT", "no more")),
        })),
      }),
    );
    await refused.start();
    await refused.settle();
    expect(refused.deliveries[0]?.answer).toEqual({ kind: "ack" });

    let cut: () => void = () => undefined;
    const ended = createRig(
      waiting({
        wrap: withEvents((events) => ({
          subscribe: (runId, afterSlot, onEvent, options) => {
            cut = () => options.onError(new BatonError("WORLD_UNAVAILABLE", "cut"));
            return events.subscribe(runId, afterSlot, onEvent, options);
          },
        })),
      }),
    );
    await ended.start();
    await ended.advance(1_000);
    expect(ended.deliveries[0]?.answer).toBeNull();
    cut();
    await ended.settle();
    expect(ended.deliveries[0]?.answer).toEqual({ kind: "ack" });
  });

  it("a delivery that has come near the end of its window does not stay", async () => {
    const rig = createRig(
      waiting({
        settings: {
          inlineStepsMax: 0,
          lingerMs: 30_000,
          inlineWindowMs: 40_000,
          inlineMarginMs: 100_000,
        },
      }),
    );
    await rig.start();
    await rig.advance(19_999);
    expect(rig.deliveries[0]?.answer).toBeNull();
    // As long as a body could begin, and no longer.
    await rig.advance(1);
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "ack" });
  });
});
