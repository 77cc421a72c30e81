/** Cases of reading a log page by page: W11. */
import { describe, expect, it } from "vitest";
import { positionOf, slotOf } from "../../engine/slots.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

export const pagingCases: Cases = (use) => {
  describe("paging (W11)", () => {
    it.each([1, 2, 999, 1_000, 1_001, 10_001])("a log of %i events reads whole", async (count) => {
      const bench = use();
      const runId = await bench.started();
      await h.filled(bench, runId, count - 1);
      const log = await bench.log(runId);
      expect(log.length).toBe(count);
      expect(log.every((event, i) => event.slot === i + 1)).toBe(true);
      expect(await bench.counts(runId)).toEqual({ seq: count, seqInBand: 1 });
    });

    it.each([
      { limit: 1, pages: 5 },
      { limit: 2, pages: 3 },
      { limit: 5, pages: 1 },
      { limit: 6, pages: 1 },
    ])("5 events in pages of $limit are $pages pages", async ({ limit, pages }) => {
      const bench = use();
      const runId = await bench.started();
      await h.filled(bench, runId, 4);
      let seen = 0;
      let afterSlot = positionOf(0);
      for (let hasMore = true; hasMore; seen++) {
        const page = await bench.store().events.list(runId, { afterSlot, limit });
        expect(page.snapshot).toEqual({ seq: 5, seqInBand: 1 });
        afterSlot = page.events.at(-1)?.slot ?? afterSlot;
        hasMore = page.hasMore;
      }
      expect([seen, afterSlot]).toEqual([pages, 5]);
    });

    it("a log of large events reads whole, in pages that are bounded in bytes", async () => {
      const bench = use();
      const runId = await bench.started();
      const big = new Uint8Array(500_000);
      for (let i = 0; i < 24; i++) {
        const write = h.stepCreated(h.newId("step"), { input: big });
        await bench.store().events.create(runId, write);
      }
      const first = await bench.store().events.list(runId);
      expect(first.hasMore).toBe(true);
      expect(first.events.length).toBeGreaterThan(1);
      expect((await bench.log(runId)).map((event) => event.slot)).toEqual(
        Array.from({ length: 25 }, (_, i) => i + 1),
      );
    });

    it("a list above the top is empty and still carries the counts", async () => {
      const bench = use();
      const runId = await bench.started();
      const page = await bench.store().events.list(runId, { afterSlot: slotOf(1) });
      expect(page).toMatchObject({
        events: [],
        hasMore: false,
        snapshot: { seq: 1, seqInBand: 1 },
      });
    });

    it("an aborted list is rejected", async () => {
      const bench = use();
      const runId = await bench.started();
      const signal = AbortSignal.abort(new Error("given up"));
      await expect(bench.store().events.list(runId, { signal })).rejects.toThrow("given up");
    });

    it("the events of one entity are read without the others", async () => {
      const bench = use();
      const runId = await bench.started();
      const [one, other] = [h.newId("step"), h.newId("step")];
      await bench.inBand(runId, h.stepCreated(one));
      await bench.inBand(runId, h.stepCreated(other));
      await bench.store().events.create(runId, h.stepStarted(one));
      await bench.store().events.create(runId, h.stepStarted(other));
      const { events } = await bench.store().events.list(runId, { correlationId: one });
      expect(events.map((event) => event.slot)).toEqual([2, 4]);
      const rest = await bench
        .store()
        .events.list(runId, { correlationId: one, afterSlot: slotOf(2), limit: 1 });
      expect(rest).toMatchObject({ hasMore: false });
      expect(rest.events.map((event) => event.slot)).toEqual([4]);
    });
  });
};
