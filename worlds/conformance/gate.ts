/** Cases of the run gate and of coalescing: W20 to W23. */
import { describe, expect, it } from "vitest";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

export const gateCases: Cases = (use) => {
  describe("one delivery per run (W20)", () => {
    it("a second message of a run is not delivered beside the first", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      await consumer.nth(1);
      await bench.world.queue.send(h.wake(runId));
      expect(await consumer.count()).toBe(1);
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
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      await consumer.nth(1);
      await bench.world.queue.send(h.stepMessage(runId));
      expect((await consumer.nth(2)).message.kind).toBe("step");
    });
  });

  describe("coalescing (W21, W22)", () => {
    it("messages that came meanwhile are one re-run: the next count, the same attempt and invocation", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      const first = await consumer.nth(1);
      for (let i = 0; i < 5; i++) await bench.world.queue.send(h.wake(runId));
      await bench.open.advance(7);
      first.answer(h.ACK);
      const again = await consumer.nth(2);
      expect(again.meta).toEqual({ ...first.meta, deliveryCount: 2 });
      again.answer(h.ACK);
      expect(await consumer.count()).toBe(2);
    });
  });
};
