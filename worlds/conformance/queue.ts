/** Cases of the queue: W25 to W28. */
import { describe, expect, it } from "vitest";
import type { MessageId } from "../../engine/ids.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

const HOUR_MS = 3_600_000;

export const queueCases: Cases = (use) => {
  describe("deliveries (W25, W26)", () => {
    it("a message arrives as it was sent, once, and an ack ends it", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      const message = h.stepMessage(runId, { stepInput: h.bytes("[1]"), stepResent: true });
      const { messageId, deduplicated } = await queue.send(message);
      const delivery = await consumer.nth(1);
      expect(deduplicated).toBe(false);
      expect(delivery.message).toEqual(message);
      expect(delivery.meta).toEqual({
        messageId,
        deliveryCount: 1,
        attempt: 1,
        invocationStartedAt: bench.open.now(),
        recovery: false,
        timers: [],
      });
      delivery.answer(h.ACK);
      await bench.open.advance(10 * HOUR_MS);
      expect(await consumer.count()).toBe(1);
    });

    it("a start message carries its run's input, byte for byte", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      const input = Uint8Array.from({ length: 256 }, (_, i) => i);
      const runInput = {
        workflowName: "orders",
        deploymentId: "d".repeat(64),
        input,
        seed: h.bytes("seed"),
        createdAt: 5,
      };
      await queue.send(h.wake(runId, { reason: "start", runInput }));
      expect((await consumer.nth(1)).message).toMatchObject({ runInput });
    });

    it("what a handler does to its message does not reach the next delivery", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.stepMessage(runId, { stepInput: h.bytes("[1]") }));
      const first = await consumer.nth(1);
      (first.message as { stepInput: Uint8Array }).stepInput.fill(0);
      (first.message as { stepName: string }).stepName = "changed";
      first.answer(h.redeliver(0));
      const second = await consumer.nth(2);
      expect(second.message).toMatchObject({ stepInput: h.bytes("[1]"), stepName: "charge" });
    });

    it("a message without a consumer waits for one", async () => {
      const bench = use();
      const runId = await bench.started();
      const { messageId } = await bench.world.queue.send(h.wake(runId));
      await bench.open.advance(HOUR_MS);
      const consumer = new h.HeldConsumer(bench);
      expect((await consumer.nth(1)).meta).toMatchObject({ messageId, deliveryCount: 1 });
    });

    it("a batch is answered message by message, in its order", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      const options = { idempotencyKey: "k" };
      const results = await queue.sendBatch([
        { message: h.stepMessage(runId), options },
        { message: h.stepMessage(runId) },
        { message: h.stepMessage(runId), options },
      ]);
      expect(results.map((result) => result.deduplicated)).toEqual([false, false, true]);
      expect(results[2]?.messageId).toBe(results[0]?.messageId);
      await consumer.nth(2);
      expect(await consumer.count()).toBe(2);
    });

    it("no more deliveries are in flight than the consumer asked for, of each kind", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench, { orchestratorsMax: 1, stepsMax: 2 });
      for (let i = 0; i < 4; i++) await bench.world.queue.send(h.stepMessage(runId));
      await bench.world.queue.send(h.wake(runId));
      await bench.world.queue.send(h.wake(await bench.started()));
      expect(await consumer.count()).toBe(3);
      consumer.all.find(({ message }) => message.kind === "step")?.answer(h.ACK);
      await consumer.nth(4);
      expect(await consumer.count()).toBe(4);
    });
  });

  describe("delays", () => {
    it("a delayed message comes when its time has come, and not before", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.wake(runId), { delayMs: 5_000 });
      await bench.open.advance(4_999);
      expect(await consumer.count()).toBe(0);
      await bench.open.advance(1);
      expect((await consumer.nth(1)).meta.invocationStartedAt).toBe(bench.open.now());
    });

    it("the shorter of two delays comes first, whichever was sent first", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      const late = await queue.send(h.stepMessage(runId), { delayMs: 9_000 });
      const soon = await queue.send(h.stepMessage(runId), { delayMs: 3_000 });
      await bench.open.advance(10_000);
      await consumer.nth(2);
      expect(consumer.all.map(({ meta }) => meta.messageId)).toEqual([
        soon.messageId,
        late.messageId,
      ]);
    });

    it("a delay of 400 days is kept", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.wake(runId), { delayMs: 400 * 24 * HOUR_MS });
      await bench.open.advance(400 * 24 * HOUR_MS - 1);
      expect(await consumer.count()).toBe(0);
      await bench.open.advance(1);
      await consumer.nth(1);
    });

    it("messages due at one time come in the order they were sent", async () => {
      const bench = use();
      const runId = await bench.started();
      const sent: MessageId[] = [];
      for (let i = 0; i < 20; i++) {
        const { messageId } = await bench.world.queue.send(h.stepMessage(runId));
        sent.push(messageId);
      }
      const consumer = new h.HeldConsumer(bench, { stepsMax: 20 });
      await consumer.nth(20);
      expect(consumer.all.map(({ meta }) => meta.messageId)).toEqual(sent);
    });
  });

  describe("redelivery (W25, W26)", () => {
    it("the same message comes after the time asked for, counted", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.stepMessage(runId));
      const first = await consumer.nth(1);
      first.answer(h.redeliver(2_000));
      await bench.open.advance(1_999);
      expect(await consumer.count()).toBe(1);
      await bench.open.advance(1);
      expect((await consumer.nth(2)).meta).toMatchObject({
        messageId: first.meta.messageId,
        deliveryCount: 2,
        attempt: 2,
      });
    });

    it("one that is nobody's failure counts as a delivery and not as an attempt", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.wake(runId));
      (await consumer.nth(1)).answer(h.redeliver(100, false));
      await bench.open.advance(100);
      expect((await consumer.nth(2)).meta).toMatchObject({ deliveryCount: 2, attempt: 1 });
    });

    it("deliveryCount and attempt over a mixed life", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.wake(runId));
      (await consumer.nth(1)).answer(h.HANDOFF);
      (await consumer.nth(2)).answer(h.redeliver(0));
      (await consumer.nth(3)).reject();
      await bench.open.advance(HOUR_MS);
      (await consumer.nth(4)).answer(h.redeliver(0, false));
      const counts = [];
      await consumer.nth(5);
      for (const { meta } of consumer.all) counts.push([meta.deliveryCount, meta.attempt]);
      expect(counts).toEqual([
        [1, 1],
        [2, 1],
        [3, 2],
        [4, 3],
        [5, 3],
      ]);
    });

    it.each([Number.NaN, Number.POSITIVE_INFINITY, -1])(
      "a redelivery after %s ms is late and counted, never a loop",
      async (afterMs) => {
        const bench = use();
        const { runId, consumer, queue } = await h.stepConsumer(bench);
        await queue.send(h.stepMessage(runId));
        (await consumer.nth(1)).answer(h.redeliver(afterMs, false));
        await bench.open.advance(60_000);
        expect(await consumer.count()).toBe(1);
        await bench.open.advance(HOUR_MS);
        expect((await consumer.nth(2)).meta.attempt).toBe(2);
      },
    );

    it("a retry of 30 days is one redelivery, however long", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.stepMessage(runId), { idempotencyKey: "step:1" });
      (await consumer.nth(1)).answer(h.redeliver(30 * 24 * HOUR_MS));
      await bench.open.advance(30 * 24 * HOUR_MS - 1);
      expect(await consumer.count()).toBe(1);
      await bench.open.advance(1);
      expect((await consumer.nth(2)).meta.deliveryCount).toBe(2);
    });

    it("a rejection backs off, longer each time, and spans hours before 48 attempts", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.stepMessage(runId));
      const startedAt = bench.open.now();
      const gaps: number[] = [];
      for (let n = 1; n <= 48; n++) {
        const before = bench.open.now();
        const delivery = await consumer.nth(n);
        expect(delivery.meta.attempt).toBe(n);
        delivery.reject();
        while ((await consumer.count()) === n) await bench.open.advance(1_000);
        gaps.push(bench.open.now() - before);
      }
      expect(gaps[0]).toBeGreaterThan(0);
      expect(gaps.every((gap, i) => i === 0 || gap >= (gaps[i - 1] ?? 0))).toBe(true);
      expect(bench.open.now() - startedAt).toBeGreaterThan(HOUR_MS);
    });
  });

  describe("whose turn it is (W27)", () => {
    it("a tenant with thousands of messages does not keep another from its turn", async () => {
      const bench = use();
      const flood = await bench.started(h.A);
      const other = await bench.started(h.B);
      for (let i = 0; i < 4; i++) {
        await bench.world.queue.sendBatch(
          Array.from({ length: 500 }, () => ({ message: h.stepMessage(flood) })),
        );
      }
      await bench.world.queue.send(h.stepMessage(other, { tenantId: h.B }));
      const consumer = new h.HeldConsumer(bench, { stepsMax: 2 });
      await consumer.nth(2);
      expect(consumer.all.map(({ message }) => message.tenantId).sort()).toEqual([h.A, h.B]);
    });

    it("a tenant's share of the deliveries is bounded where one is set", async () => {
      const bench = use();
      const [a, b] = [await bench.started(h.A), await bench.started(h.B)];
      const consumer = new h.HeldConsumer(bench, { stepsMax: 10, perTenantMax: 3 });
      for (let i = 0; i < 8; i++) await bench.world.queue.send(h.stepMessage(a));
      expect(await consumer.count()).toBe(3);
      await bench.world.queue.send(h.stepMessage(b, { tenantId: h.B }));
      expect((await consumer.nth(4)).message.tenantId).toBe(h.B);
      consumer.all[0]?.answer(h.ACK);
      expect((await consumer.nth(5)).message.tenantId).toBe(h.A);
      expect(await consumer.count()).toBe(5);
    });
  });

  describe("how much of the places is one tenant's (W27)", () => {
    it("a tenant has no more deliveries than its own limit, and others are not held by it", async () => {
      const bench = use();
      const [a, b] = [await bench.started(h.A), await bench.started(h.B)];
      const consumer = new h.HeldConsumer(bench, { stepsMax: 10 });
      consumer.limitTenant(h.A, { orchestratorsMax: null, stepsMax: 2 });
      await bench.quiet();
      for (let i = 0; i < 5; i++) await bench.world.queue.send(h.stepMessage(a));
      expect(await consumer.count()).toBe(2);
      for (let i = 0; i < 3; i++) {
        await bench.world.queue.send(h.stepMessage(b, { tenantId: h.B }));
      }
      expect(await consumer.count()).toBe(5);
      consumer.all[0]?.answer(h.ACK);
      expect(await consumer.count()).toBe(6);
      consumer.limitTenant(h.A, { orchestratorsMax: null, stepsMax: null });
      await bench.world.queue.send(h.stepMessage(a));
      expect(await consumer.count()).toBe(9);
    });

    it("the last places are left for others where the consumer asks so", async () => {
      const bench = use();
      const [a, b] = [await bench.started(h.A), await bench.started(h.B)];
      const consumer = new h.HeldConsumer(bench, { stepsMax: 10, timesFreeMax: 4 });
      for (let i = 0; i < 20; i++) await bench.world.queue.send(h.stepMessage(a));
      // At eight, two are free: eight is not less than four times two.
      expect(await consumer.count()).toBe(8);
      for (let i = 0; i < 20; i++) {
        await bench.world.queue.send(h.stepMessage(b, { tenantId: h.B }));
      }
      expect(await consumer.count()).toBe(10);
      expect(consumer.all.filter(({ message }) => message.tenantId === h.B).length).toBe(2);
    });
  });

  describe("both or neither (W28)", () => {
    it("a start's event and message are both there", async () => {
      const bench = use();
      const runId = h.newRunId();
      const send = { message: h.wake(runId, { reason: "start" }) };
      await bench.store().events.create(runId, h.runCreated(), { send });
      const consumer = new h.HeldConsumer(bench);
      expect((await consumer.nth(1)).message).toMatchObject({ runId, reason: "start" });
      expect((await bench.log(runId)).length).toBe(1);
    });

    it.each(["a refused event", "a malformed message", "a superseded write"])(
      "of %s neither is left",
      async (kind) => {
        const bench = use();
        const runId = await bench.started();
        const message = h.wake(runId);
        const create = {
          "a refused event": async () =>
            bench
              .store()
              .events.create(runId, h.hookReceived(h.newId("hook")), { send: { message } }),
          "a malformed message": async () =>
            bench.store().events.create(runId, h.attrSet(), {
              send: { message: { ...message, reason: "whim" } as never },
            }),
          "a superseded write": async () =>
            bench.inBand(runId, h.runStarted(), { expectedSeqInBand: 5, send: { message } }),
        }[kind];
        await expect(create?.()).rejects.toThrow();
        expect((await bench.counts(runId)).seq).toBe(1);
        expect(await new h.HeldConsumer(bench).count()).toBe(0);
      },
    );

    it("a keyed message that is already alive does not keep the event out", async () => {
      const bench = use();
      const runId = await bench.started();
      const send = { message: h.wake(runId), options: { idempotencyKey: "k", delayMs: 5_000 } };
      await bench.store().events.create(runId, h.attrSet(), { send });
      await bench.store().events.create(runId, h.attrSet(), { send });
      expect((await bench.counts(runId)).seq).toBe(3);
      const consumer = new h.HeldConsumer(bench);
      await bench.open.advance(5_000);
      (await consumer.nth(1)).answer(h.ACK);
      expect(await consumer.count()).toBe(1);
    });
  });

  describe("after the World is closed", () => {
    it("every call is refused, and no handler is called", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId), { delayMs: 1_000 });
      await bench.world.close();
      await h.refusal(bench.world.queue.send(h.wake(runId)), "CLOSED");
      await h.refusal(bench.store().runs.get(runId), "CLOSED");
      expect(consumer.all.length).toBe(0);
    });
  });
};
