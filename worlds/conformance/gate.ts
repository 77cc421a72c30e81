/** Cases of the run gate and of coalescing: W20 to W23. */
import { describe, expect, it } from "vitest";
import { RERUNS_MAX } from "../run-gate.ts";
import type { Cases } from "./cases.ts";
import type { Bench } from "./harness.ts";
import * as h from "./harness.ts";

/** A run with a delivery in flight. */
async function held(bench: Bench, message = {}) {
  const runId = await bench.started();
  const consumer = new h.HeldConsumer(bench);
  await bench.world.queue.send(h.wake(runId, message));
  const first = await consumer.nth(1);
  return { runId, consumer, first };
}

const hop = (resumeAtMs: number) => ({
  reason: "timer" as const,
  waitContinuation: { correlationId: h.newId("wait"), attempt: 1, resumeAtMs, hopAtMs: 1 },
});
const lastHop = () => ({
  reason: "timer" as const,
  waitContinuation: { correlationId: h.newId("wait"), attempt: 1 },
});

export const gateCases: Cases = (use) => {
  describe("one delivery per run (W20)", () => {
    it("a second message of a run is not delivered beside the first", async () => {
      const bench = use();
      const { runId, consumer } = await held(bench);
      await bench.world.queue.send(h.wake(runId));
      expect(await consumer.count()).toBe(1);
    });

    it("not even to another consumer", async () => {
      const bench = use();
      const { runId, consumer } = await held(bench);
      const other = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      expect([await consumer.count(), await other.count()]).toEqual([1, 0]);
    });

    it("two runs are delivered beside each other", async () => {
      const bench = use();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(await bench.started()));
      await bench.world.queue.send(h.wake(await bench.started()));
      await consumer.nth(2);
      expect(await consumer.count()).toBe(2);
    });

    it("a step message is never held behind its run's orchestrator", async () => {
      const bench = use();
      const { runId, consumer } = await held(bench);
      await bench.world.queue.send(h.stepMessage(runId));
      await bench.world.queue.send(h.stepMessage(runId));
      expect((await consumer.nth(3)).message.kind).toBe("step");
      consumer.all[0]?.answer(h.ACK);
      expect(await consumer.count()).toBe(3);
    });

    it("an intermediate timer hop is delivered beside the holder, as itself", async () => {
      const bench = use();
      const { runId, consumer } = await held(bench);
      const message = h.wake(runId, hop(1_900_000_000_000));
      await bench.world.queue.send(message);
      expect((await consumer.nth(2)).message).toEqual(message);
      expect((await consumer.nth(2)).meta.deliveryCount).toBe(1);
    });

    it("two intermediate hops of a run are delivered beside each other", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId, hop(1_900_000_000_000)));
      await bench.world.queue.send(h.wake(runId, hop(1_900_000_000_001)));
      await bench.world.queue.send(h.wake(runId));
      await consumer.nth(3);
      expect(await consumer.count()).toBe(3);
    });

    it("the last hop of a timer is held like a wake", async () => {
      const bench = use();
      const { runId, consumer } = await held(bench);
      await bench.world.queue.send(h.wake(runId, lastHop()));
      expect(await consumer.count()).toBe(1);
    });

    it("a delivery that waits out its redelivery is not in flight", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      first.answer(h.redeliver(60_000));
      await bench.quiet();
      const { messageId } = await bench.world.queue.send(h.wake(runId));
      expect((await consumer.nth(2)).meta).toMatchObject({ messageId, deliveryCount: 1 });
    });

    it("a redelivery that falls due meanwhile is noted on the holder", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      first.answer(h.redeliver(1_000));
      await bench.quiet();
      await bench.world.queue.send(h.wake(runId));
      const second = await consumer.nth(2);
      await bench.open.advance(2_000);
      expect(await consumer.count()).toBe(2);
      second.answer(h.ACK);
      const rerun = await consumer.nth(3);
      expect(rerun.meta).toMatchObject({ messageId: second.meta.messageId, deliveryCount: 2 });
      rerun.answer(h.ACK);
      await bench.open.advance(600_000);
      expect(await consumer.count()).toBe(3);
    });
  });

  describe("coalescing (W21, W22)", () => {
    it("messages that came meanwhile are one re-run: next count, same attempt and invocation", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      for (let i = 0; i < 5; i++) await bench.world.queue.send(h.wake(runId));
      await bench.open.advance(7);
      first.answer(h.ACK);
      const again = await consumer.nth(2);
      expect(again.meta).toEqual({ ...first.meta, deliveryCount: 2 });
      expect(again.message).toEqual(first.message);
      again.answer(h.ACK);
      await bench.open.advance(600_000);
      expect(await consumer.count()).toBe(2);
    });

    it("a message that comes during a re-run needs one more", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.ACK);
      const second = await consumer.nth(2);
      await bench.world.queue.send(h.wake(runId));
      second.answer(h.ACK);
      const third = await consumer.nth(3);
      expect(third.meta).toEqual({ ...first.meta, deliveryCount: 3 });
      third.answer(h.ACK);
      expect(await consumer.count()).toBe(3);
    });

    it("a delayed message that falls due meanwhile is noted as well", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      await bench.world.queue.send(h.wake(runId, lastHop()), { delayMs: 500 });
      await bench.open.advance(1_000);
      expect(await consumer.count()).toBe(1);
      first.answer(h.ACK);
      (await consumer.nth(2)).answer(h.ACK);
      await bench.open.advance(10_000);
      expect(await consumer.count()).toBe(2);
    });

    it("a message is noted even when the consumer has no place left", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench, { orchestratorsMax: 1 });
      await bench.world.queue.send(h.wake(runId));
      const first = await consumer.nth(1);
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.ACK);
      expect((await consumer.nth(2)).meta).toMatchObject({
        messageId: first.meta.messageId,
        deliveryCount: 2,
        attempt: 1,
      });
    });

    it("flags are OR-ed into the re-run, and not lost to later messages", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      expect(first.meta.recovery).toBe(false);
      await bench.world.queue.send(h.wake(runId, { recovery: true, reason: "recovery" }));
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.ACK);
      const second = await consumer.nth(2);
      expect(second.meta.recovery).toBe(true);
      await bench.world.queue.send(h.wake(runId));
      second.answer(h.ACK);
      const third = await consumer.nth(3);
      expect(third.meta.recovery).toBe(false);
      third.answer(h.ACK);
      expect(await consumer.count()).toBe(3);
    });

    it("timers are told to the re-run that covers them, and not lost to later messages", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      expect(first.meta.timers).toEqual([]);
      const timers = [lastHop(), lastHop()];
      for (const timer of timers) await bench.world.queue.send(h.wake(runId, timer));
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.ACK);
      const second = await consumer.nth(2);
      expect(second.meta.timers).toEqual(timers.map(({ waitContinuation }) => waitContinuation));
      await bench.world.queue.send(h.wake(runId));
      second.answer(h.ACK);
      const third = await consumer.nth(3);
      expect(third.meta.timers).toEqual([]);
      third.answer(h.ACK);
      await bench.open.advance(600_000);
      expect(await consumer.count()).toBe(3);
    });

    it("timers outlive a holder that leaves, each as its own message", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      const timer = lastHop();
      await bench.world.queue.send(h.wake(runId, timer));
      await bench.world.queue.send(h.wake(runId));
      first.reject();
      const next = await consumer.nth(2);
      const told = [next.message, ...next.meta.timers];
      expect(JSON.stringify(told)).toContain(timer.waitContinuation.correlationId);
    });

    it("a holder's own flag stays on all its re-runs", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench, { recovery: true });
      expect(first.meta.recovery).toBe(true);
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.ACK);
      expect((await consumer.nth(2)).meta.recovery).toBe(true);
    });

    it("a flag that a handoff took over is still there in the new invocation", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      await bench.world.queue.send(h.wake(runId, { recovery: true }));
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.HANDOFF);
      expect((await consumer.nth(2)).meta.recovery).toBe(true);
    });

    it("after the last re-run the holder is handed off: at once, a new invocation, the same attempt", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      for (let n = 1; n <= RERUNS_MAX; n++) {
        await bench.world.queue.send(h.wake(runId));
        (await consumer.nth(n)).answer(h.ACK);
        expect((await consumer.nth(n + 1)).meta).toEqual({ ...first.meta, deliveryCount: n + 1 });
      }
      await bench.open.advance(10);
      await bench.world.queue.send(h.wake(runId));
      (await consumer.nth(RERUNS_MAX + 1)).answer(h.ACK);
      const fresh = await consumer.nth(RERUNS_MAX + 2);
      expect(fresh.meta).toMatchObject({
        messageId: first.meta.messageId,
        attempt: 1,
        deliveryCount: RERUNS_MAX + 2,
        invocationStartedAt: first.meta.invocationStartedAt + 10,
      });
      fresh.answer(h.ACK);
      await bench.open.advance(600_000);
      expect(await consumer.count()).toBe(RERUNS_MAX + 2);
    });
  });

  describe("handoffs (W22)", () => {
    it("the same message again at once: a new invocation, and not an attempt", async () => {
      const bench = use();
      const { consumer, first } = await held(bench);
      await bench.open.advance(25);
      first.answer(h.HANDOFF);
      expect((await consumer.nth(2)).meta).toEqual({
        ...first.meta,
        deliveryCount: 2,
        invocationStartedAt: first.meta.invocationStartedAt + 25,
      });
    });

    it("a handoff goes ahead of what waits, and covers it", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      await bench.world.queue.send(h.wake(runId));
      first.answer(h.HANDOFF);
      const second = await consumer.nth(2);
      expect(second.meta.messageId).toBe(first.meta.messageId);
      second.answer(h.ACK);
      await bench.open.advance(600_000);
      expect(await consumer.count()).toBe(2);
    });

    it("100 handoffs are still the first attempt", async () => {
      const bench = use();
      const { consumer } = await held(bench);
      for (let n = 1; n <= 100; n++) (await consumer.nth(n)).answer(h.HANDOFF);
      expect((await consumer.nth(101)).meta).toMatchObject({ attempt: 1, deliveryCount: 101 });
    });

    it("a step message is handed off as well", async () => {
      const bench = use();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.stepMessage(await bench.started()));
      const first = await consumer.nth(1);
      first.answer(h.HANDOFF);
      expect((await consumer.nth(2)).meta).toEqual({ ...first.meta, deliveryCount: 2 });
    });
  });

  describe("a holder that leaves (W23)", () => {
    it("what waited on a holder that asks for a redelivery is delivered now, as a first delivery", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      const { messageId } = await bench.world.queue.send(h.wake(runId));
      first.answer(h.redeliver(60_000));
      const next = await consumer.nth(2);
      expect(next.meta).toMatchObject({ messageId, deliveryCount: 1, attempt: 1 });
      next.answer(h.ACK);
      await bench.open.advance(60_000);
      expect((await consumer.nth(3)).meta.messageId).toBe(first.meta.messageId);
    });

    it("what waited on a holder that rejects is delivered now", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      const { messageId } = await bench.world.queue.send(h.wake(runId));
      first.reject();
      expect((await consumer.nth(2)).meta).toMatchObject({ messageId, deliveryCount: 1 });
    });

    it("a re-run that rejects covers nothing: the newest message is delivered itself", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      const { messageId } = await bench.world.queue.send(h.wake(runId));
      first.answer(h.ACK);
      (await consumer.nth(2)).reject();
      expect((await consumer.nth(3)).meta).toMatchObject({ messageId, deliveryCount: 1 });
    });

    it("flagged messages outlive a holder that leaves", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      await bench.world.queue.send(h.wake(runId, { recovery: true }));
      await bench.world.queue.send(h.wake(runId));
      first.reject();
      const next = await consumer.nth(2);
      expect(next.meta.recovery).toBe(true);
      next.answer(h.ACK);
      (await consumer.nth(3)).answer(h.ACK);
      expect(await consumer.count()).toBe(3);
    });
  });

  describe("stopping a consumer", () => {
    it("stop waits for what is in flight and takes nothing new", async () => {
      const bench = use();
      const { consumer, first } = await held(bench);
      let isStopped = false;
      const stopping = consumer.stop().then(() => {
        isStopped = true;
      });
      await bench.world.queue.send(h.wake(await bench.started()));
      await bench.quiet();
      expect([isStopped, consumer.all.length]).toEqual([false, 1]);
      first.answer(h.ACK);
      await stopping;
      expect(consumer.all.length).toBe(1);
    });

    it("what waited on a stopped consumer's delivery goes to another", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      const { messageId } = await bench.world.queue.send(h.wake(runId));
      const stopping = consumer.stop();
      await bench.quiet();
      first.answer(h.ACK);
      await stopping;
      const other = new h.HeldConsumer(bench);
      expect((await other.nth(1)).meta).toMatchObject({ messageId, deliveryCount: 1 });
    });

    it("a handoff of a stopped consumer goes to another, ahead of the rest", async () => {
      const bench = use();
      const { runId, consumer, first } = await held(bench);
      await bench.world.queue.send(h.wake(runId));
      const stopping = consumer.stop();
      await bench.quiet();
      first.answer(h.HANDOFF);
      await stopping;
      const other = new h.HeldConsumer(bench);
      expect((await other.nth(1)).meta).toMatchObject({
        messageId: first.meta.messageId,
        deliveryCount: 2,
        attempt: 1,
      });
    });
  });
};
