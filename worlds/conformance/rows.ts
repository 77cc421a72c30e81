/** Cases of rows, listings and removal: W10 to W12. */
import { describe, expect, it } from "vitest";
import type { RunId } from "../../engine/ids.ts";
import type { Page, PageParams, RunFilter } from "../../engine/ports/world.ts";
import { slotOf } from "../../engine/slots.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

async function all<T>(list: (params: PageParams) => Promise<Page<T>>, limit: number): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await list({ limit, ...(cursor === null ? {} : { cursor }) });
    found.push(...page.data);
    cursor = page.cursor;
  } while (cursor !== null);
  return found;
}

export const rowCases: Cases = (use) => {
  describe("how many runs are open", () => {
    it("those that are not over are counted, of the tenant alone, and no further than asked", async () => {
      const bench = use();
      const over = await bench.started();
      for (let i = 0; i < 3; i++) await bench.started();
      await bench.started(h.B);
      await bench.store().events.create(over, h.runCancelled());
      const { runs } = bench.store();
      expect(await runs.countOpen(100)).toBe(3);
      expect(await runs.countOpen(2)).toBe(2);
      expect(await bench.store(h.B).runs.countOpen(100)).toBe(1);
    });
  });

  describe("rows of steps and waits (W10)", () => {
    it("a step's row follows its events, and nothing after its end", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepId = h.newId("step");
      const row = async () => bench.store().steps.get(runId, stepId);
      const { events } = bench.store();
      await bench.inBand(runId, h.stepCreated(stepId));
      expect(await row()).toMatchObject({ stepId, status: "pending", attempt: 0, inline: false });
      await events.create(runId, h.stepStarted(stepId, 1));
      expect(await row()).toMatchObject({ status: "running", attempt: 1 });
      const retry = { stepName: "charge", attempt: 1, error: h.bytes("[]"), retryAfter: 77 };
      await events.create(runId, h.event({ type: "step_retrying", id: stepId }, retry));
      expect(await row()).toMatchObject({ status: "retrying", retryAfter: 77 });
      await events.create(runId, h.stepStarted(stepId, 2));
      await events.create(runId, h.stepCompleted(stepId));
      const ended = await row();
      expect(ended).toMatchObject({ status: "completed", attempt: 2, retryAfter: null });
      await bench.open.advance(5);
      await events.create(runId, h.stepStarted(stepId, 3));
      const failed = { stepName: "charge", error: h.bytes("[]") };
      await events.create(runId, h.event({ type: "step_failed", id: stepId }, failed));
      expect(await row()).toEqual(ended);
    });

    it("an inline step is created by its first start", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepId = h.newId("step");
      const first = h.stepStarted(stepId, 1, { inline: true, input: h.bytes("[]") });
      await bench.inBand(runId, first);
      expect(await bench.store().steps.get(runId, stepId)).toMatchObject({
        inline: true,
        status: "running",
        stepName: "charge",
      });
    });

    it("a second creation of a step is taken and changes nothing", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepId = h.newId("step");
      await bench.inBand(runId, h.stepCreated(stepId));
      const before = await bench.store().steps.get(runId, stepId);
      await bench.open.advance(5);
      await bench.inBand(runId, h.stepCreated(stepId));
      expect(await bench.store().steps.get(runId, stepId)).toEqual(before);
      expect((await bench.counts(runId)).seq).toBe(3);
    });

    it("a wait's row carries its deadline and its end", async () => {
      const bench = use();
      const runId = await bench.started();
      const waitId = h.newId("wait");
      await bench.inBand(runId, h.waitCreated(waitId, 1_900_000_000_000));
      expect(await bench.store().waits.get(runId, waitId)).toEqual({
        waitId,
        status: "waiting",
        resumeAt: 1_900_000_000_000,
        createdAt: bench.open.now(),
        completedAt: null,
      });
    });

    it("what is open is read without the log, in the order of creation", async () => {
      const bench = use();
      const runId = await bench.started();
      const steps = [h.newId("step"), h.newId("step"), h.newId("step")];
      for (const id of steps) await bench.inBand(runId, h.stepCreated(id));
      const waitId = h.newId("wait");
      await bench.inBand(runId, h.waitCreated(waitId));
      const hookId = h.newId("hook");
      await bench.inBand(runId, h.hookCreated(hookId, "t"));
      await bench.store().events.create(runId, h.stepCompleted(steps[1] as (typeof steps)[0]));
      const open = await bench.store().openEntities(runId);
      expect(open.steps.map((row) => row.stepId)).toEqual([steps[0], steps[2]]);
      expect(open.waits.map((row) => row.waitId)).toEqual([waitId]);
      expect(open.hooks.map((row) => row.hookId)).toEqual([hookId]);
    });

    it("an id of another kind, or of another run, is no row", async () => {
      const bench = use();
      const [runId, other] = [await bench.started(), await bench.started()];
      const stepId = h.newId("step");
      await bench.inBand(runId, h.stepCreated(stepId));
      expect(await bench.store().steps.get(other, stepId)).toBeNull();
      expect(await bench.store().waits.get(runId, stepId)).toBeNull();
      expect(await bench.store().steps.get(h.newRunId(), stepId)).toBeNull();
    });

    it.each([1, 2, 7])("25 steps in pages of %i are all there, in order, once", async (limit) => {
      const bench = use();
      const runId = await bench.started();
      const ids = Array.from({ length: 25 }, () => h.newId("step"));
      await bench.store().events.createBatch(
        runId,
        ids.map((id) => h.stepCreated(id)),
        {},
      );
      const rows = await all(async (params) => bench.store().steps.list(runId, params), limit);
      expect(rows.map((row) => row.stepId)).toEqual(ids);
    });
  });

  describe("runs (W11)", () => {
    it("a run's row holds what run_created said", async () => {
      const bench = use();
      const runId = h.newRunId();
      await bench
        .store()
        .events.create(runId, h.runCreated({ attributes: { region: "eu", plan: "pro" } }));
      expect(await bench.store().runs.get(runId)).toEqual({
        runId,
        specVersion: 9,
        status: "pending",
        workflowName: "orders",
        deploymentId: "d".repeat(64),
        attributes: { region: "eu", plan: "pro" },
        createdAt: bench.open.now(),
        startedAt: null,
        completedAt: null,
        counts: { seq: 1, seqInBand: 1 },
        parked: null,
      });
    });

    it("attributes are set, replaced and removed, in the order of slots", async () => {
      const bench = use();
      const runId = await bench.started();
      const { events } = bench.store();
      await events.create(runId, h.attrSet("a", "1"));
      await events.create(runId, h.attrSet("b", "2"));
      await events.create(runId, h.attrSet("a", "3"));
      await events.create(runId, h.attrSet("b", null));
      expect((await bench.store().runs.get(runId))?.attributes).toEqual({ a: "3" });
    });

    it("an attribute called __proto__ is an attribute like any other", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.store().events.create(runId, h.attrSet("__proto__", "x"));
      await bench.store().events.create(runId, h.attrSet("constructor", "y"));
      const attributes = (await bench.store().runs.get(runId))?.attributes ?? {};
      expect(Object.entries(attributes)).toEqual([
        ["__proto__", "x"],
        ["constructor", "y"],
      ]);
      expect(Object.getPrototypeOf(attributes)).toBe(Object.prototype);
    });

    it.each([1, 3, 100])("runs in pages of %i come newest first, each once", async (limit) => {
      const bench = use();
      const made: RunId[] = [];
      for (let i = 0; i < 10; i++) {
        made.push(await bench.started());
        if (i % 3 === 0) await bench.open.advance(1);
      }
      const rows = await all(async (params) => bench.store().runs.list(params), limit);
      expect(new Set(rows.map((row) => row.runId))).toEqual(new Set(made));
      const times = rows.map((row) => row.createdAt);
      expect(times).toEqual([...times].sort((a, b) => b - a));
      expect(rows.length).toBe(10);
    });

    it.each<[string, RunFilter, number]>([
      ["status", { status: "completed" }, 1],
      ["workflowName", { workflowName: "refunds" }, 1],
      ["parked", { parked: true }, 1],
      ["not parked", { parked: false }, 3],
      ["createdFrom", { createdFrom: 1_800_000_000_010 }, 2],
      ["createdBefore", { createdBefore: 1_800_000_000_010 }, 2],
      ["several", { status: "completed", workflowName: "refunds" }, 0],
    ])("runs are filtered by %s", async (_, filter, count) => {
      const bench = use();
      const done = await bench.started();
      await bench.inBand(done, h.runCompleted());
      await bench.store().events.create(h.newRunId(), h.runCreated({ workflowName: "refunds" }));
      await bench.open.advance(10);
      const parked = await bench.started();
      await bench.store().runs.park(parked, { code: "MASTER_KEY", message: "gone", since: 5 });
      await bench.started();
      expect((await bench.store().runs.list(filter)).data.length).toBe(count);
    });

    it("a run is parked beside its log, and unparked once", async () => {
      const bench = use();
      const runId = await bench.started();
      const reason = { code: "BUNDLE_NOT_FOUND", message: "no bundle", since: 5 };
      await bench.store().runs.park(runId, reason);
      expect((await bench.store().runs.get(runId))?.parked).toEqual(reason);
      expect((await bench.counts(runId)).seq).toBe(1);
      expect(await bench.store().runs.unpark(runId)).toBe(true);
      expect(await bench.store().runs.unpark(runId)).toBe(false);
      await h.refusal(bench.store().runs.park(h.newRunId(), reason), "RUN_NOT_FOUND");
    });
  });

  describe("removal (W12)", () => {
    it("finished runs are purged whole, by age and up to a limit; open ones stay", async () => {
      const bench = use();
      const store = bench.store();
      const open = await bench.started();
      const old = [await bench.started(), await bench.started()] as const;
      for (const runId of old) {
        await bench.inBand(runId, h.stepCreated());
        await bench.inBand(runId, h.runCompleted());
        await store.blobs.put(runId, "input", h.bytes("x"));
        await store.streams.write(runId, "out", [h.bytes("x")]);
        await store.snapshots.put(runId, {
          slot: slotOf(1),
          digest: "0".repeat(64),
          fingerprint: "f".repeat(64),
          bytes: h.bytes("x"),
        });
      }
      await bench.open.advance(1_000);
      const recent = await bench.started();
      await bench.inBand(recent, h.runCompleted());
      const before = bench.open.now();
      expect(await store.runs.purgeFinished(before, 1)).toBe(1);
      expect(await store.runs.purgeFinished(before, 10)).toBe(1);
      expect(await store.runs.purgeFinished(before, 10)).toBe(0);
      for (const runId of old) {
        expect(await store.runs.get(runId)).toBeNull();
        await h.refusal(store.events.list(runId), "RUN_NOT_FOUND");
        expect(await store.blobs.get(runId, "input")).toBeNull();
        expect(await store.streams.getInfo(runId, "out")).toBeNull();
        expect(await store.snapshots.get(runId)).toBeNull();
        expect((await store.steps.list(runId)).data).toEqual([]);
      }
      expect((await store.runs.list()).data.map((row) => row.runId).sort()).toEqual(
        [open, recent].sort(),
      );
    });

    it("a purged run's messages are gone, also while one is being delivered", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      const delivery = await consumer.nth(1);
      await bench.world.queue.send(h.wake(runId), { delayMs: 5_000 });
      await bench.inBand(runId, h.runCompleted());
      await bench.open.advance(1);
      await bench.store().runs.purgeFinished(bench.open.now(), 10);
      delivery.answer(h.redeliver(0));
      await bench.open.advance(10_000);
      expect(await consumer.count()).toBe(1);
    });

    it("a run id that was purged can be used again, and sees nothing of the old run", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runCompleted());
      await bench.open.advance(1);
      await bench.store().runs.purgeFinished(bench.open.now(), 10);
      await bench.started(h.A, runId);
      expect((await bench.log(runId)).length).toBe(1);
    });
  });
};
