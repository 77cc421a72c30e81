/** Cases of what outlives a process: W32, W33. Only for Worlds that store. */
import { describe, expect, it } from "vitest";
import { slotOf } from "../../engine/slots.ts";
import type { Cases } from "./cases.ts";
import type { Bench } from "./harness.ts";
import * as h from "./harness.ts";

async function reopened(bench: Bench): Promise<void> {
  const { crash } = bench.open;
  if (crash === undefined) throw new Error("these cases are for Worlds that store");
  bench.world = await crash();
}

export const durableCases: Cases = (use) => {
  describe("what was answered is there afterwards (W32)", () => {
    it("logs, counts, digests and rows", async () => {
      const bench = use();
      const runId = await bench.started();
      const [stepId, hookId] = [h.newId("step"), h.newId("hook")];
      await bench.inBand(runId, h.stepCreated(stepId));
      await bench.inBand(runId, h.hookCreated(hookId, "t"));
      await bench.store().events.create(runId, h.attrSet("a", "1"));
      await bench.store().runs.park(runId, { code: "X", message: "y", since: 1 });
      const before = {
        log: await bench.log(runId),
        run: await bench.store().runs.get(runId),
        open: await bench.store().openEntities(runId),
      };
      await reopened(bench);
      expect({
        log: await bench.log(runId),
        run: await bench.store().runs.get(runId),
        open: await bench.store().openEntities(runId),
      }).toEqual(before);
      expect((await bench.store().hooks.getByToken(h.hashOf("t")))?.hookId).toBe(hookId);
      const { event } = await bench.inBand(runId, h.runStarted());
      expect(event.slot).toBe(5);
    });

    it("everything beside the log", async () => {
      const bench = use();
      const runId = await bench.started();
      const store = bench.store();
      await store.snapshots.put(runId, {
        slot: slotOf(1),
        digest: "1".repeat(64),
        fingerprint: "f".repeat(64),
        bytes: h.bytes("s"),
      });
      await store.blobs.put(runId, "k", h.bytes("b"));
      await store.streams.write(runId, "out", [h.bytes("c")]);
      await store.streams.close(runId, "out");
      await bench.world.tenants.put(h.A, "{}", 0);
      await reopened(bench);
      expect((await bench.store().snapshots.get(runId))?.bytes).toEqual(h.bytes("s"));
      expect(await bench.store().blobs.get(runId, "k")).toEqual(h.bytes("b"));
      expect(await bench.store().streams.getInfo(runId, "out")).toEqual({
        tailIndex: 0,
        bytes: h.bytes("c").length,
        done: true,
      });
      expect((await bench.world.tenants.get(h.A))?.revision).toBe(1);
    });

    it("a repeated request converges over the crash", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.store().events.create(runId, h.attrSet(), { resumeId: "r1" });
      await reopened(bench);
      const again = await bench.store().events.create(runId, h.attrSet(), { resumeId: "r1" });
      expect([again.allocated, again.event.slot]).toEqual([0, 2]);
    });
  });

  describe("the queue of a dead process (W33)", () => {
    it("what was in flight is due at once, counted, an attempt more", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepMessage = h.stepMessage(runId);
      const first = new h.HeldConsumer(bench);
      await bench.world.queue.send(stepMessage);
      const { messageId } = (await first.nth(1)).meta;
      await reopened(bench);
      const second = new h.HeldConsumer(bench);
      const delivery = await second.nth(1);
      expect(delivery.message).toEqual(stepMessage);
      expect(delivery.meta).toMatchObject({ messageId, deliveryCount: 2, attempt: 2 });
    });

    it("a holder and the newest message held behind it both come back, never as a first delivery", async () => {
      const bench = use();
      const runId = await bench.started();
      const first = new h.HeldConsumer(bench);
      const holder = await bench.world.queue.send(h.wake(runId));
      await first.nth(1);
      await bench.world.queue.send(h.wake(runId));
      const newest = await bench.world.queue.send(h.wake(runId));
      await bench.quiet();
      await reopened(bench);
      const second = new h.HeldConsumer(bench);
      const again = await second.nth(1);
      expect([holder.messageId, newest.messageId]).toContain(again.meta.messageId);
      expect(again.meta.deliveryCount).toBeGreaterThan(1);
      again.answer(h.redeliver(60_000));
      const other = await second.nth(2);
      expect(other.meta.deliveryCount).toBeGreaterThan(1);
      expect(new Set([again.meta.messageId, other.meta.messageId])).toEqual(
        new Set([holder.messageId, newest.messageId]),
      );
    });

    it("the count of a holder that was re-run does not go back", async () => {
      const bench = use();
      const runId = await bench.started();
      const first = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      const delivery = await first.nth(1);
      await bench.world.queue.send(h.wake(runId));
      delivery.answer(h.ACK);
      expect((await first.nth(2)).meta.deliveryCount).toBe(2);
      await reopened(bench);
      const second = new h.HeldConsumer(bench);
      await second.nth(1);
      const holder = second.all.find(({ meta }) => meta.messageId === delivery.meta.messageId);
      expect(holder?.meta).toMatchObject({ deliveryCount: 3, attempt: 2 });
    });

    it("delays, back-off and keys are as they were", async () => {
      const bench = use();
      const runId = await bench.started();
      const options = { idempotencyKey: "k", delayMs: 60_000 };
      const sent = await bench.world.queue.send(h.stepMessage(runId), options);
      await reopened(bench);
      const again = await bench.world.queue.send(h.stepMessage(runId), options);
      expect(again).toEqual({ messageId: sent.messageId, deduplicated: true });
      const consumer = new h.HeldConsumer(bench);
      await bench.open.advance(59_999);
      expect(await consumer.count()).toBe(0);
      await bench.open.advance(1);
      expect((await consumer.nth(1)).meta.deliveryCount).toBe(1);
    });

    it("what fell due while nobody was there comes at once", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.world.queue.send(h.wake(runId), { delayMs: 1_000 });
      await bench.open.advance(5_000);
      await reopened(bench);
      await new h.HeldConsumer(bench).nth(1);
    });

    it("an event and its message are both there", async () => {
      const bench = use();
      const runId = h.newRunId();
      const send = { message: h.wake(runId, { reason: "start" }) };
      await bench.store().events.create(runId, h.runCreated(), { send });
      await reopened(bench);
      expect((await bench.log(runId)).length).toBe(1);
      expect((await new h.HeldConsumer(bench).nth(1)).message.runId).toBe(runId);
    });

    it("an acked message does not come back", async () => {
      const bench = use();
      const runId = await bench.started();
      const first = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      (await first.nth(1)).answer(h.ACK);
      await bench.quiet();
      await reopened(bench);
      const second = new h.HeldConsumer(bench);
      await bench.open.advance(600_000);
      expect(await second.count()).toBe(0);
    });
  });
};
