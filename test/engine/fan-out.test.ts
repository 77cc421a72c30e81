import { describe, expect, it } from "vitest";
import type { Program } from "./fake-sandbox.ts";
import { createRig, done } from "./rig.ts";
import type { Rig } from "./rig.ts";

const wide =
  (width: number): Program =>
  async (guest) => {
    const all = Array.from({ length: width }, (_, n) => guest.step("work", String(n)));
    return String((await Promise.all(all)).length);
  };

const count = (rig: Rig, name: string) => rig.calls().filter((call) => call === name).length;
const steps = (rig: Rig) => rig.sends.filter((send) => send.message.kind === "step").length;
const orchestratorDeliveries = (rig: Rig) =>
  rig.deliveries.filter(({ message }) => message.kind === "orchestrator").length;
const timers = (rig: Rig) =>
  rig.sends.filter(
    (send) => send.message.kind === "orchestrator" && send.message.waitContinuation !== undefined,
  ).length;

describe("a fan-out, counted", () => {
  it("64 steps are one batch of creations, three of them run in place", async () => {
    const rig = createRig({ programs: { main: wide(64) }, steps: { work: () => done("x") } });
    const run = await rig.start();
    await rig.runOut(run);
    const log = await rig.log(run);
    const creations = log.filter(
      (event) =>
        event.eventType === "step_created" ||
        (event.eventType === "step_started" && event.eventData.inline === true),
    );
    expect(creations.map((event) => Number(event.slot))).toEqual(
      Array.from({ length: 64 }, (_, n) => n + 3),
    );
    expect(creations.slice(0, 4).map((event) => event.eventType)).toEqual([
      "step_started",
      "step_started",
      "step_started",
      "step_created",
    ]);
    expect(await rig.output(run)).toBe("64");
    expect(steps(rig)).toBe(61);
  });

  it.each([
    [0, 100, 2],
    [3, 100, 2],
    [16, 100, 2],
  ])("with %i inline slots, %i creations are %i batches", async (slots, width, batches) => {
    const rig = createRig({
      programs: { main: wide(width) },
      steps: { work: () => new Promise(() => undefined) },
      settings: { inlineStepsMax: slots },
    });
    await rig.start();
    await rig.settle();
    expect(count(rig, "events.createBatch")).toBe(batches);
    expect(steps(rig)).toBe(width - slots);
  });

  it.each([
    [3, 61, 36],
    [16, 48, 36],
    [0, 64, 36],
  ])("100 steps with %i inline slots: %i and then %i messages", async (slots, first, later) => {
    const rig = createRig({
      programs: { main: wide(100) },
      steps: { work: () => new Promise(() => undefined) },
      settings: { inlineStepsMax: slots },
    });
    await rig.start();
    await rig.settle();
    const requests = rig.calls().filter((call) => /createBatch|sendBatch/.test(call));
    // Each batch's messages are out before the next batch, at most 16 to a request.
    const sent = (messages: number) =>
      Array.from({ length: Math.ceil(messages / 16) }, () => "queue.sendBatch");
    expect(requests).toEqual([
      "events.createBatch",
      ...sent(first),
      "events.createBatch",
      ...sent(later),
    ]);
    expect(steps(rig)).toBe(first + later);
  });

  it.each([16, 64, 1_024])("%i background outcomes: one wake each, no timer", async (width) => {
    const rig = createRig({
      programs: { main: wide(width) },
      steps: { work: () => done("x") },
      settings: { inlineStepsMax: 0 },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe(String(width));
    // The start's message is the first; of the wakes many are coalesced, and none comes twice.
    const wakes = rig.implied.filter(({ message }) => message.kind === "orchestrator");
    expect(wakes.filter(({ options }) => options?.idempotencyKey !== undefined)).toEqual([]);
    expect(wakes).toHaveLength(1 + width);
    expect(orchestratorDeliveries(rig)).toBeLessThanOrEqual(1 + width);
    const unlooked = rig.sends.filter(({ message }) => message.kind === "orchestrator");
    expect(unlooked).toEqual([]);
    expect(steps(rig)).toBeLessThanOrEqual(width * 2);
    expect(timers(rig)).toBe(0);
    expect(count(rig, "events.create")).toBe(3 + 2 * width);
    expect((await rig.types(run)).length).toBe(2 + 3 * width + 1);
  });

  it("an outcome is queued behind the last batch of creations", async () => {
    const rig = createRig({ programs: { main: wide(130) }, steps: { work: () => done("x") } });
    const run = await rig.start();
    await rig.runOut(run);
    const log = await rig.log(run);
    const inline = new Set(
      log
        .filter((e) => e.eventType === "step_started" && e.eventData.inline === true)
        .map((e) => e.correlationId),
    );
    const lastCreation = Math.max(
      ...log.filter((e) => e.eventType === "step_created").map((e) => e.slot),
    );
    const outcomes = log.filter(
      (e) => e.eventType === "step_completed" && inline.has(e.correlationId),
    );
    expect(outcomes).toHaveLength(3);
    for (const event of outcomes) expect(event.slot).toBeGreaterThan(lastCreation);
  });

  it.each([
    [40, 0],
    [1_024, 0],
    [1_024, 16],
  ])("%i steps that each sleep a little, %i inline: O(N) timers", async (width, slots) => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const branch = async (n: number) => {
            await guest.step("work", String(n));
            await guest.sleep(3_000);
          };
          await Promise.all(Array.from({ length: width }, (_, n) => branch(n)));
          return "all";
        },
      },
      steps: { work: () => done("x") },
      settings: { inlineStepsMax: slots },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("all");
    // At most one for each sleep; where all are of one chain, far fewer.
    expect(timers(rig)).toBeLessThanOrEqual(width + 8);
    const wakes = rig.implied.filter(({ message }) => message.kind === "orchestrator");
    expect(wakes.length).toBeLessThanOrEqual(1 + width);
    expect(orchestratorDeliveries(rig)).toBeLessThanOrEqual(1 + 2 * width);
  });
});

describe("the cost of a long run", () => {
  const sequence =
    (length: number): Program =>
    async (guest) => {
      for (let n = 0; n < length; n++) await guest.step("work", String(n));
      return "end";
    };

  async function costOf(length: number) {
    const rig = createRig({
      programs: { main: sequence(length) },
      steps: { work: () => done("x") },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
    return { calls: rig.calls().length, fed: rig.sandbox.fedCount(), sends: rig.sends.length };
  }

  it("a step costs two writes, two events fed and no message, however long the run", async () => {
    const short = await costOf(50);
    const long = await costOf(400);
    expect(long.calls - short.calls).toBe(350 * 2);
    expect(long.fed - short.fed).toBe(350 * 2);
    expect(long.sends).toBe(0);
  });

  it.each([999, 1_000, 1_001])("a cold load of %i events misses none", async (events) => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          for (let n = 0; n < Math.ceil((events - 4) / 2); n++) await guest.step("work", String(n));
          await guest.sleep(1_000);
          return guest.step("work", "last");
        },
      },
      steps: { work: () => done("x") },
      settings: { isCold: true },
    });
    const run = await rig.start();
    await rig.settle();
    rig.restart();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
    expect(rig.sandbox.opened.cold).toBeGreaterThan(1);
  });
});
