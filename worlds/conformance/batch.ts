/** Cases of batches: W9. */
import { describe, expect, it } from "vitest";
import type { NewEvent } from "../../engine/events.ts";
import type { RunId } from "../../engine/ids.ts";
import type { CreateParams } from "../../engine/ports/world.ts";
import type { Cases } from "./cases.ts";
import type { Bench } from "./harness.ts";
import * as h from "./harness.ts";

async function batch(
  bench: Bench,
  runId: RunId,
  events: readonly NewEvent[],
  params: CreateParams = {},
) {
  const { seq, seqInBand } = await bench.counts(runId);
  return bench.store().events.createBatch(runId, events, {
    inBand: true,
    expectedSeqInBand: seqInBand,
    eventCount: seq,
    ...params,
  });
}

export const batchCases: Cases = (use) => {
  describe("batches (W9)", () => {
    it("the events land in the order of the request, at consecutive slots", async () => {
      const bench = use();
      const runId = await bench.started();
      const ids = [h.newId("step"), h.newId("wait"), h.newId("step")] as const;
      const result = await batch(bench, runId, [
        h.stepStarted(ids[0], 1, { input: h.bytes("[]"), inline: true }),
        h.waitCreated(ids[1]),
        h.stepCreated(ids[2]),
      ]);
      expect(result).toMatchObject({ allocated: 3, events: [], hasMore: false });
      const log = await bench.log(runId);
      expect(log.slice(1).map((event) => event.correlationId)).toEqual([...ids]);
      expect(result.results.map((r) => r.kind === "committed" && r.event)).toEqual(log.slice(1));
      expect(await bench.counts(runId)).toEqual({ seq: 4, seqInBand: 4 });
    });

    it("one count fences the whole block: a stale one writes nothing", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runStarted());
      await h.refusal(
        batch(bench, runId, [h.waitCreated(), h.waitCreated()], { expectedSeqInBand: 1 }),
        "IN_BAND_SUPERSEDED",
      );
      expect(await bench.counts(runId)).toEqual({ seq: 2, seqInBand: 2 });
    });

    it("an in-band batch without a count is a 400", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(
        bench.store().events.createBatch(runId, [h.waitCreated()], { inBand: true }),
        "IN_BAND_COUNT_MISSING",
      );
    });

    it("an out-of-band batch moves only seq", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepId = h.newId("step");
      await bench
        .store()
        .events.createBatch(runId, [h.stepStarted(stepId), h.stepCompleted(stepId)], {});
      expect(await bench.counts(runId)).toEqual({ seq: 3, seqInBand: 1 });
    });

    it("reports what landed below the block", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.store().events.create(runId, h.attrSet());
      const result = await batch(bench, runId, [h.waitCreated(), h.waitCreated()], {
        eventCount: 1,
      });
      expect(result.events.map((event) => event.slot)).toEqual([2]);
      expect((await bench.log(runId)).length).toBe(4);
    });

    it("a refused item takes its entity's later items with it, and no one else's", async () => {
      const bench = use();
      const runId = await bench.started();
      const [one, other] = [h.newId("step"), h.newId("step")];
      await bench.inBand(runId, h.runCompleted());
      const { results, allocated } = await batch(bench, runId, [
        h.stepCreated(one),
        h.stepCompleted(other),
        h.stepCompleted(one),
      ]);
      expect(
        results.map((r) => (r.kind === "refused" ? (r.error as h.Coded).code : r.kind)),
      ).toEqual(["RUN_EXPIRED", "committed", "BATCH_EARLIER_ITEM_FAILED"]);
      expect(allocated).toBe(1);
      const log = await bench.log(runId);
      expect(log.slice(2).map((event) => event.correlationId)).toEqual([other]);
      expect(await bench.counts(runId)).toEqual({ seq: 3, seqInBand: 3 });
    });

    it("of a batch that is refused item by item nothing is left", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runCompleted());
      const { results, allocated } = await batch(bench, runId, [h.waitCreated(), h.stepCreated()]);
      expect([results.map((r) => r.kind), allocated]).toEqual([["refused", "refused"], 0]);
      expect(await bench.counts(runId)).toEqual({ seq: 2, seqInBand: 2 });
    });

    it("an out-of-band wait_completed in a batch is refused alone", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepId = h.newId("step");
      const { results } = await bench
        .store()
        .events.createBatch(runId, [h.waitCompleted(h.newId("wait")), h.stepCompleted(stepId)], {});
      expect(results.map((r) => r.kind)).toEqual(["refused", "committed"]);
    });

    it("each item is stored under its own occurredAt", async () => {
      const bench = use();
      const runId = await bench.started();
      const at = bench.open.now() - 1_000;
      const stepId = h.newId("step");
      const items = [h.stepStarted(stepId), h.stepCompleted(stepId)].map((event, i) => ({
        ...event,
        occurredAt: at + i,
      })) as NewEvent[];
      await batch(bench, runId, items);
      expect((await bench.log(runId)).slice(1).map((event) => event.createdAt)).toEqual([
        at,
        at + 1,
      ]);
    });

    it.each([
      ["run_completed", () => h.runCompleted()],
      ["hook_created", () => h.hookCreated(h.newId("hook"), "t")],
      ["attr_set", () => h.attrSet()],
      ["run_created", () => h.runCreated()],
    ] as const)("%s refuses the whole batch", async (_, make) => {
      const bench = use();
      const runId = await bench.started();
      const error = await h.refusal(
        batch(bench, runId, [h.waitCreated(), make()]),
        "BATCH_REFUSED",
      );
      expect(error.status).toBe(400);
      expect((await bench.counts(runId)).seq).toBe(1);
    });

    it("64 events are taken, 65 and none are not", async () => {
      const bench = use();
      const runId = await bench.started();
      const many = (count: number) => Array.from({ length: count }, () => h.waitCreated());
      await h.refusal(batch(bench, runId, many(65)), "BATCH_REFUSED");
      await h.refusal(batch(bench, runId, []), "BATCH_REFUSED");
      expect((await batch(bench, runId, many(64))).allocated).toBe(64);
    });

    it("512 KiB with the allowance are taken, a byte more is not", async () => {
      const bench = use();
      const runId = await bench.started();
      const half = (bytes: number) =>
        h.stepCreated(h.newId("step"), { input: new Uint8Array(bytes) });
      const fitting = 256 * 1024 - 1024;
      await h.refusal(batch(bench, runId, [half(fitting), half(fitting + 1)]), "BATCH_REFUSED");
      expect((await batch(bench, runId, [half(fitting), half(fitting)])).allocated).toBe(2);
    });

    it("a single event over the batch's bytes goes alone", async () => {
      const bench = use();
      const runId = await bench.started();
      const big = h.stepCreated(h.newId("step"), { input: new Uint8Array(512 * 1024) });
      expect((await batch(bench, runId, [big])).allocated).toBe(1);
    });

    it("a message or a resumeId does not go with a batch", async () => {
      const bench = use();
      const runId = await bench.started();
      const send = { message: h.wake(runId) };
      await h.refusal(batch(bench, runId, [h.waitCreated()], { send }), "INVALID_ARGUMENT");
      await h.refusal(
        batch(bench, runId, [h.waitCreated()], { resumeId: "r" }),
        "INVALID_ARGUMENT",
      );
      expect((await bench.counts(runId)).seq).toBe(1);
    });
  });
};
