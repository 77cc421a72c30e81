/** Cases of messages that are sent twice under one key: W24. */
import { describe, expect, it } from "vitest";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

const HOUR_MS = 3_600_000;

export const dedupeCases: Cases = (use) => {
  describe("dedupe (W24)", () => {
    const STATES = ["waiting", "delayed", "in flight", "backing off", "redelivered later"] as const;
    it.each(STATES)("a second send under a key is dropped while the first is %s", async (state) => {
      const bench = use();
      const runId = await bench.started();
      const options = { idempotencyKey: "step:1" };
      const { queue } = bench.world;
      const delayMs = state === "delayed" ? 50_000 : 0;
      const first = await queue.send(h.stepMessage(runId), { ...options, delayMs });
      const consumer = state === "waiting" ? null : new h.HeldConsumer(bench);
      if (state !== "waiting" && state !== "delayed") {
        const delivery = await (consumer as h.HeldConsumer).nth(1);
        if (state === "backing off") delivery.reject();
        if (state === "redelivered later") delivery.answer(h.redeliver(50_000));
        await bench.quiet();
      }
      const again = await queue.send(h.stepMessage(runId), { ...options, delayMs: 1 });
      expect(again).toEqual({ messageId: first.messageId, deduplicated: true });
      const before = (await consumer?.count()) ?? 0;
      await bench.open.advance(900);
      // The first message's own schedule stands: nothing came earlier than it would have.
      expect((await consumer?.count()) ?? 0).toBe(before);
      const all = consumer ?? new h.HeldConsumer(bench);
      await bench.open.advance(60_000);
      await bench.quiet();
      expect(new Set(all.all.map(({ meta }) => meta.messageId))).toEqual(
        new Set([first.messageId]),
      );
    });

    it("a re-send does not reset the attempts of a message that backs off", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      const options = { idempotencyKey: "step:1" };
      await queue.send(h.stepMessage(runId), options);
      (await consumer.nth(1)).reject();
      await bench.quiet();
      await queue.send(h.stepMessage(runId), options);
      await bench.open.advance(HOUR_MS);
      expect((await consumer.nth(2)).meta).toMatchObject({ deliveryCount: 2, attempt: 2 });
    });

    it("a key is free once its message is acked", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      const options = { idempotencyKey: "step:1" };
      const first = await queue.send(h.stepMessage(runId), options);
      (await consumer.nth(1)).answer(h.ACK);
      await bench.quiet();
      const second = await queue.send(h.stepMessage(runId), options);
      expect(second.deduplicated).toBe(false);
      expect(second.messageId).not.toBe(first.messageId);
    });

    it("a message that is held behind the run gate keeps its key", async () => {
      const bench = use();
      const { runId, consumer, queue } = await h.stepConsumer(bench);
      await queue.send(h.wake(runId));
      const holder = await consumer.nth(1);
      const options = { idempotencyKey: "wait:1" };
      const timer = await queue.send(h.wake(runId, { reason: "timer" }), options);
      expect(await queue.send(h.wake(runId, { reason: "timer" }), options)).toEqual({
        messageId: timer.messageId,
        deduplicated: true,
      });
      holder.answer(h.ACK);
      (await consumer.nth(2)).answer(h.ACK);
      await bench.quiet();
      expect((await queue.send(h.wake(runId), options)).deduplicated).toBe(false);
    });

    it("a keyed message older than 24 hours still holds its key", async () => {
      const bench = use();
      const runId = await bench.started();
      const options = { idempotencyKey: "step:1", delayMs: 72 * HOUR_MS };
      await bench.world.queue.send(h.stepMessage(runId), options);
      await bench.open.advance(50 * HOUR_MS);
      expect((await bench.world.queue.send(h.stepMessage(runId), options)).deduplicated).toBe(true);
    });

    it("messages without a key are never dropped", async () => {
      const bench = use();
      const runId = await bench.started();
      const results = await bench.world.queue.sendBatch([
        { message: h.wake(runId) },
        { message: h.wake(runId) },
      ]);
      expect(results.map((result) => result.deduplicated)).toEqual([false, false]);
    });
  });
};
