/** That each fault of the faulty World happens, is counted, and is one that the contract allows. */
import { describe, expect, it } from "vitest";
import { positionOf, slotOf } from "../../engine/slots.ts";
import * as h from "../../worlds/conformance/harness.ts";
import { HeldClock, SeededRandom } from "../../worlds/conformance/index.ts";
import type { CrashPoint, FaultProfile } from "../../worlds/faulty/index.ts";
import { CallerCrashed, NO_FAULTS, createFaultyWorld } from "../../worlds/faulty/index.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";

function setup(faults: Partial<FaultProfile>, crashAt?: CrashPoint, seed = 7) {
  const clock = new HeldClock();
  const inner = createMemoryWorld({ clock, random: new SeededRandom(1) });
  const faulty = createFaultyWorld(inner, {
    clock,
    random: new SeededRandom(seed),
    profile: { ...NO_FAULTS, ...faults },
  });
  const world = faulty.caller("worker", crashAt);
  const open = {
    world,
    now: () => clock.now(),
    advance: async (ms: number) => clock.advance(ms),
    close: async () => faulty.close(),
  };
  return { clock, inner, faulty, world, bench: new h.Bench(open) };
}

async function innerRun(inner: ReturnType<typeof createMemoryWorld>) {
  const runId = h.newRunId();
  await inner.forTenant(h.A).events.create(runId, h.runCreated());
  return runId;
}

describe("unknown outcomes", () => {
  it("a lost answer leaves the write done", async () => {
    const { inner, world, faulty } = setup({ loseAnswer: 1 });
    const runId = h.newRunId();
    await h.refusal(world.forTenant(h.A).events.create(runId, h.runCreated()), "WORLD_UNAVAILABLE");
    expect((await inner.forTenant(h.A).events.list(runId)).events.length).toBe(1);
    expect(faulty.happened.get("loseAnswer @ events.create")).toBe(1);
  });

  it("a lost call leaves it undone", async () => {
    const { inner, world } = setup({ loseCall: 1 });
    const runId = h.newRunId();
    await h.refusal(world.forTenant(h.A).events.create(runId, h.runCreated()), "WORLD_UNAVAILABLE");
    expect(await inner.forTenant(h.A).runs.get(runId)).toBeNull();
  });

  it("a refusal stays a refusal", async () => {
    const { world } = setup({ loseAnswer: 1 });
    const error = await h.refusal(
      world.forTenant(h.A).events.create(h.newRunId(), h.attrSet()),
      "RUN_NOT_FOUND",
    );
    expect(error.status).toBe(404);
  });
});

describe("crashes", () => {
  it.each([
    ["before", 0],
    ["after", 1],
  ] as const)(
    "a caller that dies %s a call has done %i of it, and calls nothing more",
    async (when, done) => {
      const { inner, world, faulty } = setup({}, { call: 2, when });
      const [first, second] = [h.newRunId(), h.newRunId()];
      const { events } = world.forTenant(h.A);
      await events.create(first, h.runCreated());
      await expect(events.create(second, h.runCreated())).rejects.toBeInstanceOf(CallerCrashed);
      const runs = (await inner.forTenant(h.A).runs.list()).data.length;
      expect(runs).toBe(1 + done);
      await expect(events.list(first)).rejects.toBeInstanceOf(CallerCrashed);
      await expect(world.queue.send(h.wake(first))).rejects.toBeInstanceOf(CallerCrashed);
      expect([world.isDead, world.calls]).toEqual([true, 2]);
      const fault = when === "before" ? "crashBefore" : "crashAfter";
      expect(faulty.happened.get(`${fault} @ events.create`)).toBe(1);
    },
  );

  it("a dead worker's delivery comes back, counted, to another one after its lease", async () => {
    const { inner, faulty, bench, clock } = setup({ leaseMs: 9_000 }, { call: 1, when: "before" });
    const runId = await innerRun(inner);
    const other = faulty.caller("other");
    const seen: number[] = [];
    const dying = async () => {
      await bench.world.forTenant(h.A).runs.get(runId);
      return h.ACK;
    };
    bench.world.queue.consume(
      { orchestrator: dying, step: dying },
      { orchestratorsMax: 1, stepsMax: 1 },
    );
    await inner.queue.send(h.wake(runId));
    await clock.advance(100);
    other.queue.consume(
      {
        orchestrator: async (_, meta) => {
          seen.push(meta.deliveryCount);
          return h.ACK;
        },
        step: async () => h.ACK,
      },
      { orchestratorsMax: 1, stepsMax: 1 },
    );
    await clock.advance(8_000);
    expect(seen).toEqual([]);
    await clock.advance(2_000);
    expect(seen).toEqual([2]);
  });
});

describe("deliveries", () => {
  it("a dropped delivery comes again after its lease, counted", async () => {
    const { inner, faulty, bench } = setup({ dropDelivery: 1, leaseMs: 1_000 });
    const runId = await innerRun(inner);
    const consumer = new h.HeldConsumer(bench);
    await inner.queue.send(h.wake(runId));
    await bench.open.advance(500);
    expect(consumer.all.length).toBe(0);
    faulty.calm();
    await bench.open.advance(1_000);
    expect((await consumer.nth(1)).meta).toMatchObject({ deliveryCount: 2, attempt: 2 });
  });

  it("a duplicated delivery comes again although it was acked", async () => {
    const { inner, faulty, bench } = setup({ duplicateDelivery: 1 });
    const runId = await innerRun(inner);
    const consumer = new h.HeldConsumer(bench);
    await inner.queue.send(h.wake(runId));
    const first = await consumer.nth(1);
    first.answer(h.ACK);
    const again = await consumer.nth(2);
    expect(again.meta).toMatchObject({ messageId: first.meta.messageId, deliveryCount: 2 });
    faulty.calm();
    again.answer(h.ACK);
    expect(await consumer.count()).toBe(2);
  });

  it("a lapsed lease puts a second delivery beside the first, and the first one's answer is void", async () => {
    const { inner, faulty, bench } = setup({ lapseLease: 1, leaseMs: 1_000 });
    const runId = await innerRun(inner);
    const consumer = new h.HeldConsumer(bench);
    await inner.queue.send(h.wake(runId));
    const first = await consumer.nth(1);
    await bench.open.advance(1_000);
    faulty.calm();
    const second = await consumer.nth(2);
    expect(second.meta.messageId).toBe(first.meta.messageId);
    first.answer(h.ACK);
    await bench.quiet();
    second.answer(h.redeliver(0));
    const third = await consumer.nth(3);
    expect(third.meta.deliveryCount).toBeGreaterThan(second.meta.deliveryCount);
  });

  it("delayed and reordered deliveries arrive all the same", async () => {
    const { inner, bench, faulty } = setup({ delayDelivery: 0.5, reorderDelivery: 0.5 });
    const consumer = new h.HeldConsumer(bench);
    const sent: string[] = [];
    for (let i = 0; i < 12; i++) {
      const { messageId } = await inner.queue.send(h.stepMessage(await innerRun(inner)));
      sent.push(messageId);
    }
    await bench.open.advance(60_000);
    const got = consumer.all.map(({ meta }) => meta.messageId as string);
    expect([...got].sort()).toEqual([...sent].sort());
    expect(got).not.toEqual(sent);
    expect(faulty.happened.get("reorderDelivery @ deliver.step")).toBeGreaterThan(0);
    expect(faulty.happened.get("delayDelivery @ deliver.step")).toBeGreaterThan(0);
  });
});

describe("reads", () => {
  it("a short report has no gap and says hasMore", async () => {
    const { inner, world } = setup({ shortenReport: 1 });
    const runId = await innerRun(inner);
    for (let i = 0; i < 5; i++) await inner.forTenant(h.A).events.create(runId, h.attrSet());
    const result = await world.forTenant(h.A).events.create(runId, h.runStarted(), {
      inBand: true,
      expectedSeqInBand: 1,
      eventCount: 1,
    });
    expect(result.hasMore).toBe(true);
    expect(result.events.length).toBeLessThan(5);
    expect(result.events.every((event, i) => event.slot === i + 2)).toBe(true);
  });

  it("a lost snapshot is null, and a lost put is not there", async () => {
    const { inner, world } = setup({ loseSnapshot: 1 });
    const runId = await innerRun(inner);
    const snapshot = {
      slot: slotOf(1),
      digest: "0".repeat(64),
      fingerprint: "0".repeat(64),
      bytes: h.bytes("x"),
    };
    await world.forTenant(h.A).snapshots.put(runId, snapshot);
    expect(await inner.forTenant(h.A).snapshots.get(runId)).toBeNull();
    await inner.forTenant(h.A).snapshots.put(runId, snapshot);
    expect(await world.forTenant(h.A).snapshots.get(runId)).toBeNull();
  });

  it("a silent feed gives at most a prefix, no error and no heartbeat", async () => {
    const { inner, world, clock } = setup({ silenceFeed: 1 });
    const runId = await innerRun(inner);
    for (let i = 0; i < 10; i++) await inner.forTenant(h.A).events.create(runId, h.attrSet());
    const slots: number[] = [];
    const noise: unknown[] = [];
    await world
      .forTenant(h.A)
      .events.subscribe(runId, positionOf(0), (event) => slots.push(event.slot), {
        onError: (error) => noise.push(error),
        onHeartbeat: (slot) => noise.push(slot),
      });
    await clock.advance(100_000);
    expect(slots.length).toBeLessThan(11);
    expect(slots.every((slot, i) => slot === i + 1)).toBe(true);
    expect(noise).toEqual([]);
  });

  it("a cut feed says so once", async () => {
    const { inner, world, clock } = setup({ failFeed: 1 });
    const runId = await innerRun(inner);
    for (let i = 0; i < 10; i++) await inner.forTenant(h.A).events.create(runId, h.attrSet());
    const errors: Error[] = [];
    await world.forTenant(h.A).events.subscribe(runId, positionOf(0), () => undefined, {
      onError: (error) => errors.push(error),
    });
    await clock.advance(1_000);
    expect(errors.map((error) => (error as h.Coded).code)).toEqual(["WORLD_UNAVAILABLE"]);
  });
});

describe("the seed", () => {
  it("the same seed gives the same faults, another one others", async () => {
    const life = async (seed: number) => {
      const { inner, world, faulty } = setup({ loseAnswer: 0.3, loseCall: 0.3 }, undefined, seed);
      const runId = await innerRun(inner);
      const outcomes: string[] = [];
      for (let i = 0; i < 40; i++) {
        const { events } = world.forTenant(h.A);
        outcomes.push(
          await events.create(runId, h.attrSet()).then(
            () => "done",
            () => "lost",
          ),
        );
      }
      return { outcomes, happened: [...faulty.happened] };
    };
    expect(await life(3)).toEqual(await life(3));
    expect(await life(3)).not.toEqual(await life(4));
  });
});
