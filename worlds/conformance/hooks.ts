/** Cases of hooks and their tokens: W30. */
import { describe, expect, it } from "vitest";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

export const hookCases: Cases = (use) => {
  describe("hook tokens (W30)", () => {
    it("an open hook is found by its token's hash, with its token and metadata", async () => {
      const bench = use();
      const runId = await bench.started();
      const hookId = h.newId("hook");
      await bench.inBand(
        runId,
        h.hookCreated(hookId, "t1", { metadata: h.bytes("meta"), isWebhook: true }),
      );
      const row = await bench.store().hooks.getByToken(h.hashOf("t1"));
      expect(row).toEqual({
        hookId,
        runId,
        tokenHash: h.hashOf("t1"),
        token: h.bytes("t1"),
        metadata: h.bytes("meta"),
        isWebhook: true,
        isSystem: false,
        status: "open",
        createdAt: bench.open.now(),
        tokenRetentionUntil: null,
        claimedFrom: null,
      });
      expect(await bench.store().hooks.get(runId, hookId)).toEqual(row);
      expect((await bench.store().hooks.list(runId)).data).toEqual([row]);
    });

    it("a token that another run holds gives hook_conflict in the creator's log", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const hookId = h.newId("hook");
      await bench.inBand(one, h.hookCreated(h.newId("hook"), "t1"));
      const { event, allocated } = await bench.inBand(two, h.hookCreated(hookId, "t1"));
      expect(event).toMatchObject({
        eventType: "hook_conflict",
        correlationId: hookId,
        eventData: { tokenHash: h.hashOf("t1"), conflictingRunId: one },
      });
      expect(allocated).toBe(1);
      expect((await bench.log(two))[1]).toEqual(event);
      expect(await bench.store().hooks.get(two, hookId)).toBeNull();
      expect((await bench.store().hooks.list(two)).data).toEqual([]);
      expect((await bench.store().openEntities(two)).hooks).toEqual([]);
      expect((await bench.store().hooks.getByToken(h.hashOf("t1")))?.runId).toBe(one);
    });

    it("two hooks of one run cannot hold one token either", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.hookCreated(h.newId("hook"), "t1"));
      const { event } = await bench.inBand(runId, h.hookCreated(h.newId("hook"), "t1"));
      expect(event).toMatchObject({ eventType: "hook_conflict" });
    });

    it("the same hook again converges on its creation and allocates nothing", async () => {
      const bench = use();
      const runId = await bench.started();
      const hookId = h.newId("hook");
      const first = await bench.inBand(runId, h.hookCreated(hookId, "t1"));
      const again = await bench.inBand(runId, h.hookCreated(hookId, "t1"));
      expect(again).toMatchObject({ event: first.event, allocated: 0 });
      expect(await bench.counts(runId)).toEqual({ seq: 2, seqInBand: 2 });
    });

    it("the same conflicted hook again converges on its conflict", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      await bench.inBand(one, h.hookCreated(h.newId("hook"), "t1"));
      const hookId = h.newId("hook");
      const first = await bench.inBand(two, h.hookCreated(hookId, "t1"));
      const again = await bench.inBand(two, h.hookCreated(hookId, "t1"));
      expect(again).toMatchObject({ event: first.event, allocated: 0 });
    });

    it("a hook keeps its token: the same id with another one is a conflict of the caller's", async () => {
      const bench = use();
      const runId = await bench.started();
      const hookId = h.newId("hook");
      await bench.inBand(runId, h.hookCreated(hookId, "t1"));
      await h.refusal(bench.inBand(runId, h.hookCreated(hookId, "t2")), "ENTITY_CONFLICT");
      expect(await bench.store().hooks.getByToken(h.hashOf("t2"))).toBeNull();
    });

    it("of many runs that claim one token at once, one gets it", async () => {
      const bench = use();
      const runs = await Promise.all(Array.from({ length: 20 }, async () => bench.started()));
      const results = await Promise.all(
        runs.map(async (runId) => bench.inBand(runId, h.hookCreated(h.newId("hook"), "t1"))),
      );
      const types = results.map(({ event }) => event.eventType);
      expect(types.filter((type) => type === "hook_created").length).toBe(1);
      expect(types.filter((type) => type === "hook_conflict").length).toBe(19);
    });

    it("a disposed hook's token is free at once", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const hookId = h.newId("hook");
      await bench.inBand(one, h.hookCreated(hookId, "t1"));
      await bench.inBand(one, h.hookDisposed(hookId));
      expect(await bench.store().hooks.getByToken(h.hashOf("t1"))).toBeNull();
      expect((await bench.store().hooks.get(one, hookId))?.status).toBe("disposed");
      const { event } = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(event.eventType).toBe("hook_created");
    });

    it("a second disposal of the old hook does not free the token of the new one", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const hookId = h.newId("hook");
      await bench.inBand(one, h.hookCreated(hookId, "t1"));
      await bench.inBand(one, h.hookDisposed(hookId));
      await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      await bench.inBand(one, h.hookDisposed(hookId));
      expect((await bench.store().hooks.getByToken(h.hashOf("t1")))?.runId).toBe(two);
    });

    it("a run's end closes its hooks and frees their tokens", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const hookId = h.newId("hook");
      await bench.inBand(one, h.hookCreated(hookId, "t1"));
      await bench.store().events.create(one, h.runCancelled());
      expect(await bench.store().hooks.getByToken(h.hashOf("t1"))).toBeNull();
      expect((await bench.store().hooks.get(one, hookId))?.status).toBe("disposed");
      expect((await bench.store().openEntities(one)).hooks).toEqual([]);
      const { event } = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(event.eventType).toBe("hook_created");
    });

    it("a hook that is created after the run's end takes no token", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      await bench.inBand(one, h.runCompleted());
      await bench.inBand(one, h.hookCreated(h.newId("hook"), "t1"));
      expect(await bench.store().hooks.getByToken(h.hashOf("t1"))).toBeNull();
      const { event } = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(event.eventType).toBe("hook_created");
    });
  });

  describe("payloads of hooks", () => {
    it("a payload for an open hook is taken out-of-band, with the wake it implies", async () => {
      const bench = use();
      const runId = await bench.started();
      const hookId = h.newId("hook");
      await bench.inBand(runId, h.hookCreated(hookId, "t1"));
      const consumer = new h.HeldConsumer(bench);
      const send = { message: h.wake(runId) };
      await bench.store().events.create(runId, h.hookReceived(hookId), { send, resumeId: "r1" });
      expect((await consumer.nth(1)).message.runId).toBe(runId);
      expect(await bench.counts(runId)).toEqual({ seq: 3, seqInBand: 2 });
    });

    it.each(["never created", "disposed", "conflicted", "over"])(
      "a payload for a hook that is %s is refused, and wakes nobody",
      async (state) => {
        const bench = use();
        const [runId, other] = [await bench.started(), await bench.started()];
        const hookId = h.newId("hook");
        if (state === "conflicted") {
          await bench.inBand(other, h.hookCreated(h.newId("hook"), "t1"));
        }
        if (state !== "never created") await bench.inBand(runId, h.hookCreated(hookId, "t1"));
        if (state === "disposed") await bench.inBand(runId, h.hookDisposed(hookId));
        if (state === "over") await bench.inBand(runId, h.runCompleted());
        const { seq } = await bench.counts(runId);
        const send = { message: h.wake(runId) };
        await h.refusal(
          bench.store().events.create(runId, h.hookReceived(hookId), { send }),
          state === "over" ? "RUN_EXPIRED" : "HOOK_NOT_FOUND",
        );
        expect((await bench.counts(runId)).seq).toBe(seq);
        expect(await new h.HeldConsumer(bench).count()).toBe(0);
      },
    );

    it("a hook that was never created cannot be disposed", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.inBand(runId, h.hookDisposed(h.newId("hook"))), "ENTITY_CONFLICT");
    });
  });

  describe("force-claim (W30)", () => {
    it("takes the token, disposes the victim's hook in its log, and wakes the victim", async () => {
      const bench = use();
      const [victim, claimer] = [await bench.started(), await bench.started()];
      const [old, fresh] = [h.newId("hook"), h.newId("hook")];
      await bench.inBand(victim, h.hookCreated(old, "t1"));
      const { event, allocated } = await bench.inBand(
        claimer,
        h.hookCreated(fresh, "t1", { force: true }),
      );
      expect([event.eventType, allocated]).toEqual(["hook_created", 1]);
      const row = await bench.store().hooks.getByToken(h.hashOf("t1"));
      expect(row).toMatchObject({ runId: claimer, hookId: fresh, claimedFrom: victim });
      expect((await bench.log(victim)).at(-1)).toMatchObject({
        eventType: "hook_disposed",
        correlationId: old,
        eventData: { forceClaimedBy: claimer },
      });
      expect(await bench.counts(victim)).toEqual({ seq: 3, seqInBand: 2 });
      const consumer = new h.HeldConsumer(bench);
      expect((await consumer.nth(1)).message).toMatchObject({ runId: victim, reason: "wake" });
      expect(await consumer.count()).toBe(1);
    });

    it("a payload for the victim's old hook says who has the token now", async () => {
      const bench = use();
      const [victim, claimer] = [await bench.started(), await bench.started()];
      const old = h.newId("hook");
      await bench.inBand(victim, h.hookCreated(old, "t1"));
      await bench.inBand(claimer, h.hookCreated(h.newId("hook"), "t1", { force: true }));
      const error = await h.refusal(
        bench.store().events.create(victim, h.hookReceived(old)),
        "HOOK_NOT_FOUND",
      );
      expect(error.details["forceClaimedBy"]).toBe(claimer);
    });

    it("the victim's own orchestrator is not superseded by it", async () => {
      const bench = use();
      const [victim, claimer] = [await bench.started(), await bench.started()];
      await bench.inBand(victim, h.hookCreated(h.newId("hook"), "t1"));
      const { seqInBand } = await bench.counts(victim);
      await bench.inBand(claimer, h.hookCreated(h.newId("hook"), "t1", { force: true }));
      const result = await bench.inBand(victim, h.waitCreated(), {
        expectedSeqInBand: seqInBand,
        eventCount: 2,
      });
      expect(result.events.map((event) => event.eventType)).toEqual(["hook_disposed"]);
    });

    it("of a free token it is an ordinary creation", async () => {
      const bench = use();
      const runId = await bench.started();
      const hookId = h.newId("hook");
      await bench.inBand(runId, h.hookCreated(hookId, "t1", { force: true }));
      expect((await bench.store().hooks.get(runId, hookId))?.claimedFrom).toBeNull();
    });
  });

  describe("retention (W30)", () => {
    it("a retained token stays taken past the run's end, until its time", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const until = bench.open.now() + 60_000;
      const retained = { tokenRetentionUntil: until };
      await bench.inBand(one, h.hookCreated(h.newId("hook"), "t1", retained));
      await bench.inBand(one, h.runCompleted());
      expect(await bench.store().hooks.getByToken(h.hashOf("t1"))).toBeNull();
      const early = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(early.event).toMatchObject({
        eventType: "hook_conflict",
        eventData: { conflictingRunId: one },
      });
      await bench.open.advance(60_000);
      const late = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(late.event.eventType).toBe("hook_created");
    });

    it("a disposal releases a retained token early", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const hookId = h.newId("hook");
      const retained = { tokenRetentionUntil: bench.open.now() + 60_000 };
      await bench.inBand(one, h.hookCreated(hookId, "t1", retained));
      await bench.inBand(one, h.hookDisposed(hookId));
      const { event } = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(event.eventType).toBe("hook_created");
    });

    it("force takes a retained token of a run that is over, and writes nothing into it", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const retained = { tokenRetentionUntil: bench.open.now() + 60_000 };
      await bench.inBand(one, h.hookCreated(h.newId("hook"), "t1", retained));
      await bench.inBand(one, h.runCompleted());
      const { event } = await bench.inBand(
        two,
        h.hookCreated(h.newId("hook"), "t1", { force: true }),
      );
      expect(event.eventType).toBe("hook_created");
      expect((await bench.counts(one)).seq).toBe(3);
      expect(await new h.HeldConsumer(bench).count()).toBe(0);
    });

    it("a token stays reserved when its run was purged before its time", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const retained = { tokenRetentionUntil: bench.open.now() + 60_000 };
      await bench.inBand(one, h.hookCreated(h.newId("hook"), "t1", retained));
      await bench.inBand(one, h.runCompleted());
      await bench.open.advance(1);
      await bench.store().runs.purgeFinished(bench.open.now(), 10);
      const { event } = await bench.inBand(two, h.hookCreated(h.newId("hook"), "t1"));
      expect(event.eventType).toBe("hook_conflict");
    });
  });
};
