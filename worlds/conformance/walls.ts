/** Cases of the walls between tenants: W31, through every method. */
import { describe, expect, it } from "vitest";
import { bundleHashOf } from "../../engine/ids.ts";
import type { OrchestratorMessage } from "../../engine/ports/queue.ts";
import { SLOT_NONE, slotOf } from "../../engine/slots.ts";
import type { Cases } from "./cases.ts";
import type { Bench } from "./harness.ts";
import * as h from "./harness.ts";

const HASH = bundleHashOf("e".repeat(64));

/** A tenant with one of everything. */
async function furnished(bench: Bench) {
  const store = bench.store(h.A);
  const runId = await bench.started();
  const [stepId, waitId, hookId] = [h.newId("step"), h.newId("wait"), h.newId("hook")];
  await bench.inBand(runId, h.stepCreated(stepId));
  await bench.inBand(runId, h.waitCreated(waitId));
  await bench.inBand(runId, h.hookCreated(hookId, "secret"));
  await store.snapshots.put(runId, {
    slot: slotOf(1),
    digest: "1".repeat(64),
    fingerprint: "f".repeat(64),
    bytes: h.bytes("s"),
  });
  await store.blobs.put(runId, "k", h.bytes("b"));
  await store.streams.write(runId, "out", [h.bytes("c")]);
  await store.bundles.put({
    hash: HASH,
    workflowCode: "a",
    stepCode: "b",
    manifest: "{}",
    guestLibrary: "c",
    createdAt: 1,
  });
  await store.bundles.setAlias("live", HASH);
  return { runId, stepId, waitId, hookId };
}

export const wallCases: Cases = (use) => {
  describe("walls between tenants (W31)", () => {
    it("no read of B sees anything of A", async () => {
      const bench = use();
      const { runId, stepId, waitId, hookId } = await furnished(bench);
      const b = bench.store(h.B);
      await h.refusal(b.events.list(runId), "RUN_NOT_FOUND");
      expect(await b.events.get(runId, slotOf(1))).toBeNull();
      expect(await b.runs.get(runId)).toBeNull();
      expect((await b.runs.list()).data).toEqual([]);
      expect(await b.steps.get(runId, stepId)).toBeNull();
      expect((await b.steps.list(runId)).data).toEqual([]);
      expect(await b.waits.get(runId, waitId)).toBeNull();
      expect((await b.waits.list(runId)).data).toEqual([]);
      expect(await b.hooks.get(runId, hookId)).toBeNull();
      expect(await b.hooks.getByToken(h.hashOf("secret"))).toBeNull();
      expect((await b.hooks.list(runId)).data).toEqual([]);
      expect(await b.openEntities(runId)).toEqual({ steps: [], waits: [], hooks: [] });
      expect(await b.snapshots.get(runId)).toBeNull();
      expect(await b.blobs.get(runId, "k")).toBeNull();
      expect(await b.streams.getInfo(runId, "out")).toBeNull();
      expect((await b.streams.getChunks(runId, "out", { startIndex: 0 })).chunks).toEqual([]);
      expect(await b.streams.list(runId)).toEqual([]);
      expect(await b.bundles.get(HASH)).toBeNull();
      expect((await b.bundles.list()).data).toEqual([]);
      expect(await b.bundles.getAlias("live")).toBeNull();
      expect(await b.bundles.listAliases()).toEqual([]);
      await h.refusal(
        b.events.subscribe(runId, SLOT_NONE, () => undefined, { onError: () => undefined }),
        "RUN_NOT_FOUND",
      );
    });

    it("no write of B changes anything of A", async () => {
      const bench = use();
      const { runId, hookId } = await furnished(bench);
      const [a, b] = [bench.store(h.A), bench.store(h.B)];
      const before = await bench.log(runId);
      await h.refusal(b.events.create(runId, h.attrSet()), "RUN_NOT_FOUND");
      await h.refusal(b.events.create(runId, h.hookReceived(hookId)), "RUN_NOT_FOUND");
      await h.refusal(b.events.create(runId, h.runCancelled()), "RUN_NOT_FOUND");
      await h.refusal(b.events.createBatch(runId, [h.waitCreated()], {}), "RUN_NOT_FOUND");
      await h.refusal(b.runs.park(runId, { code: "X", message: "", since: 0 }), "RUN_NOT_FOUND");
      await h.refusal(b.runs.unpark(runId), "RUN_NOT_FOUND");
      await b.snapshots.put(runId, {
        slot: slotOf(9),
        digest: "9".repeat(64),
        fingerprint: "f".repeat(64),
        bytes: h.bytes("x"),
      });
      await b.snapshots.delete(runId);
      await b.blobs.put(runId, "k", h.bytes("x"));
      await b.blobs.delete(runId, "k");
      await b.streams.close(runId, "out");
      await b.bundles.setAlias("live", bundleHashOf("f".repeat(64)));
      expect(await b.bundles.delete(HASH)).toBe(false);
      expect(await b.runs.purgeFinished(8e15, 100)).toBe(0);
      expect(await bench.log(runId)).toEqual(before);
      expect((await a.runs.get(runId))?.parked).toBeNull();
      expect((await a.snapshots.get(runId))?.slot).toBe(1);
      expect(await a.blobs.get(runId, "k")).toEqual(h.bytes("b"));
      expect(await a.streams.write(runId, "out", [h.bytes("d")])).toBe(1);
      expect(await a.bundles.getAlias("live")).toBe(HASH);
    });

    it("the same run id, token, bundle and names of two tenants are two", async () => {
      const bench = use();
      const { runId } = await furnished(bench);
      const [a, b] = [bench.store(h.A), bench.store(h.B)];
      await bench.started(h.B, runId);
      const hookId = h.newId("hook");
      const { event } = await b.events.create(runId, h.hookCreated(hookId, "secret"), {
        inBand: true,
        expectedSeqInBand: 1,
        eventCount: 1,
      });
      expect(event.eventType).toBe("hook_created");
      expect((await b.hooks.getByToken(h.hashOf("secret")))?.hookId).toBe(hookId);
      expect((await a.hooks.getByToken(h.hashOf("secret")))?.hookId).not.toBe(hookId);
      expect((await bench.log(runId, h.A)).length).toBe(4);
      expect((await bench.log(runId, h.B)).length).toBe(2);
    });

    it("force cannot reach over the wall", async () => {
      const bench = use();
      const { runId } = await furnished(bench);
      const other = await bench.started(h.B);
      await bench
        .store(h.B)
        .events.create(other, h.hookCreated(h.newId("hook"), "secret", { force: true }), {
          inBand: true,
          expectedSeqInBand: 1,
          eventCount: 1,
        });
      expect((await bench.store(h.A).hooks.getByToken(h.hashOf("secret")))?.runId).toBe(runId);
      expect((await bench.log(runId)).length).toBe(4);
    });

    it.each<[string, Partial<OrchestratorMessage>]>([
      ["tenant", { tenantId: h.B }],
      ["run", { runId: h.newRunId() }],
    ])("a write's message for another %s is refused, and the event with it", async (_, other) => {
      const bench = use();
      const runId = await bench.started();
      const send = { message: h.wake(runId, other) };
      await h.refusal(
        bench.store().events.create(runId, h.attrSet(), { send }),
        "INVALID_ARGUMENT",
      );
      expect((await bench.counts(runId)).seq).toBe(1);
    });

    it("a key of one tenant, or run, drops no message of another", async () => {
      const bench = use();
      const runId = await bench.started();
      const other = await bench.started();
      const options = { idempotencyKey: "wait:1" };
      await bench.world.queue.send(h.wake(runId), options);
      const two = await bench.world.queue.send(h.wake(runId, { tenantId: h.B }), options);
      const three = await bench.world.queue.send(h.wake(other), options);
      expect([two.deduplicated, three.deduplicated]).toEqual([false, false]);
      const consumer = new h.HeldConsumer(bench);
      await consumer.nth(3);
      expect(new Set(consumer.all.map(({ message }) => message.tenantId))).toEqual(
        new Set([h.A, h.B]),
      );
    });

    it("one run id of two tenants is two runs to the run gate", async () => {
      const bench = use();
      const runId = await bench.started();
      const consumer = new h.HeldConsumer(bench);
      await bench.world.queue.send(h.wake(runId));
      await bench.world.queue.send(h.wake(runId, { tenantId: h.B }));
      await consumer.nth(2);
      expect(await consumer.count()).toBe(2);
    });

    it("a feed gives nothing of another tenant's run of the same id", async () => {
      const bench = use();
      const runId = await bench.started(h.A);
      await bench.started(h.B, runId);
      const seen: Record<string, string[]> = { [h.A]: [], [h.B]: [] };
      for (const tenantId of [h.A, h.B]) {
        await bench
          .store(tenantId)
          .events.subscribe(
            runId,
            slotOf(1),
            (event) => seen[tenantId]?.push(`${event.slot} ${event.eventType}`),
            { onError: (error) => seen[tenantId]?.push(error.message) },
          );
      }
      await bench.store(h.B).events.create(runId, h.runStarted());
      await bench.store(h.A).events.create(runId, h.attrSet());
      await bench.store(h.A).events.create(runId, h.runCancelled());
      await bench.until(() => {
        expect(seen[h.A]?.length).toBe(2);
      });
      await bench.quiet();
      expect(seen).toEqual({
        [h.A]: ["2 attr_set", "3 run_cancelled"],
        [h.B]: ["2 run_started"],
      });
    });

    it("purging a tenant takes all that is its own, and nothing of another", async () => {
      const bench = use();
      const { runId } = await furnished(bench);
      const other = await bench.started(h.B);
      await bench.world.tenants.put(h.A, "{}", 0);
      await bench.world.tenants.put(h.B, "{}", 0);
      await bench.world.queue.send(h.wake(runId));
      await bench.world.queue.send(h.wake(other, { tenantId: h.B }));
      const chunks = Array.from({ length: 300 }, () => h.bytes("x"));
      await bench.store(h.A).streams.write(runId, "long", chunks);
      await bench.world.tenants.purge(h.A);
      const a = bench.store(h.A);
      expect(await bench.world.tenants.get(h.A)).toBeNull();
      expect(await bench.world.tenants.get(h.B)).not.toBeNull();
      expect((await a.runs.list()).data).toEqual([]);
      expect(await a.hooks.getByToken(h.hashOf("secret"))).toBeNull();
      expect(await a.bundles.get(HASH)).toBeNull();
      expect(await a.blobs.get(runId, "k")).toBeNull();
      expect(await a.streams.list(runId)).toEqual([]);
      const left = await a.streams.getChunks(runId, "long", { startIndex: 0 });
      expect(left.chunks).toEqual([]);
      expect((await bench.log(other, h.B)).length).toBe(1);
      const consumer = new h.HeldConsumer(bench);
      expect((await consumer.nth(1)).message.tenantId).toBe(h.B);
      expect(await consumer.count()).toBe(1);
    });
  });
};
