/** Cases of the in-band fence: W2 to W6, and the counts. */
import { describe, expect, it } from "vitest";
import { IN_BAND_SEQ_AT_RUN_CREATION } from "../../engine/events.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

export const fenceCases: Cases = (use) => {
  describe("the in-band fence (W2, W3)", () => {
    it("the World declares the fence", async () => {
      const bench = use();
      expect(bench.world.capabilities.inBandFence).toBe(true);
    });

    it("a new run holds slot 1 alone, counted as in-band", async () => {
      const bench = use();
      const runId = await bench.started();
      expect((await bench.log(runId)).map((event) => event.slot)).toEqual([1]);
      const seqInBand = IN_BAND_SEQ_AT_RUN_CREATION;
      expect(await bench.counts(runId)).toEqual({ seq: 1, seqInBand });
    });

    it("writes at the present count are accepted and move both counts", async () => {
      const bench = use();
      const runId = await bench.started();
      const { events } = bench.store();
      const first = await events.create(runId, h.runStarted(), {
        inBand: true,
        expectedSeqInBand: 1,
        eventCount: 1,
      });
      const second = await events.create(runId, h.waitCreated(), {
        inBand: true,
        expectedSeqInBand: 2,
        eventCount: 2,
      });
      expect([first.allocated, second.allocated]).toEqual([1, 1]);
      expect(await bench.counts(runId)).toEqual({ seq: 3, seqInBand: 3 });
      expect((await bench.log(runId)).map((event) => event.slot)).toEqual([1, 2, 3]);
    });

    it("a stale count is refused with 412 and leaves log, counts and entities as they were", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runStarted());
      const before = await bench.log(runId);
      const waitId = h.newId("wait");
      const error = await h.refusal(
        bench.inBand(runId, h.waitCreated(waitId), { expectedSeqInBand: 1 }),
        "IN_BAND_SUPERSEDED",
      );
      expect([error.name, error.status]).toEqual(["InBandSupersededError", 412]);
      expect(await bench.log(runId)).toEqual(before);
      expect(await bench.counts(runId)).toEqual({ seq: 2, seqInBand: 2 });
      expect(await bench.store().waits.get(runId, waitId)).toBeNull();
      const accepted = await bench.inBand(runId, h.waitCreated(waitId));
      expect(accepted.event.slot).toBe(3);
    });

    it("a count that is too high is refused as well", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(
        bench.inBand(runId, h.runStarted(), { expectedSeqInBand: 2 }),
        "IN_BAND_SUPERSEDED",
      );
    });

    it("out-of-band writes move only seq, and the old in-band count stays good", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.store().events.create(runId, h.attrSet(), { inBand: false });
      await bench.store().events.create(runId, h.attrSet());
      expect(await bench.counts(runId)).toEqual({ seq: 3, seqInBand: 1 });
      const { event } = await bench.inBand(runId, h.runStarted(), { expectedSeqInBand: 1 });
      expect(event.slot).toBe(4);
      expect(await bench.counts(runId)).toEqual({ seq: 4, seqInBand: 2 });
    });

    it("of 1,000 concurrent in-band writers at one count exactly one wins", async () => {
      const bench = use();
      const runId = await bench.started();
      const { events } = bench.store();
      const answers = await Promise.allSettled(
        Array.from({ length: 1_000 }, async () =>
          events.create(runId, h.waitCreated(), {
            inBand: true,
            expectedSeqInBand: 1,
            eventCount: 1,
          }),
        ),
      );
      const refused = answers.filter((answer) => answer.status === "rejected");
      expect(refused.length).toBe(999);
      expect(new Set(refused.map((answer) => answer.reason.code))).toEqual(
        new Set(["IN_BAND_SUPERSEDED"]),
      );
      expect(await bench.counts(runId)).toEqual({ seq: 2, seqInBand: 2 });
      expect((await bench.log(runId)).map((event) => event.slot)).toEqual([1, 2]);
    });

    it("an in-band write without a count is a 400 and writes nothing", async () => {
      const bench = use();
      const runId = await bench.started();
      const error = await h.refusal(
        bench.store().events.create(runId, h.runStarted(), { inBand: true }),
        "IN_BAND_COUNT_MISSING",
      );
      expect([error.name, error.status]).toEqual(["WorkflowWorldError", 400]);
      expect((await bench.log(runId)).length).toBe(1);
    });

    it("the bookkeeping of steps comes back as it was written", async () => {
      const bench = use();
      const runId = await bench.started();
      const stepId = h.newId("step");
      await bench.inBand(
        runId,
        h.stepCreated(stepId, { creatorMessageId: "msg_1", inline: false }),
      );
      await bench
        .store()
        .events.create(runId, h.stepStarted(stepId, 1, { startReason: "message" }));
      const [, created, started] = await bench.log(runId);
      expect(created?.eventData).toEqual({
        stepName: "charge",
        input: h.bytes("[1]"),
        inline: false,
        creatorMessageId: "msg_1",
      });
      expect(started?.eventData).toEqual({
        stepName: "charge",
        attempt: 1,
        startReason: "message",
      });
    });

    it("the fence is decided before anything else: a stale writer hears 412, not 409", async () => {
      const bench = use();
      const runId = await bench.started();
      const hookId = h.newId("hook");
      await bench.inBand(runId, h.hookCreated(hookId, "taken"));
      await h.refusal(
        bench.inBand(runId, h.hookCreated(hookId, "another"), { expectedSeqInBand: 1 }),
        "IN_BAND_SUPERSEDED",
      );
      await bench.inBand(runId, h.runCompleted());
      await h.refusal(
        bench.inBand(runId, h.stepCreated(), { expectedSeqInBand: 1 }),
        "IN_BAND_SUPERSEDED",
      );
    });

    it("a decision against events that do not exist is refused", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.inBand(runId, h.runStarted(), { eventCount: 9 }), "INVALID_ARGUMENT");
      expect(await bench.counts(runId)).toEqual({ seq: 1, seqInBand: 1 });
    });
  });

  describe("event time (W6)", () => {
    it("an in-band event is stored under its occurredAt", async () => {
      const bench = use();
      const runId = await bench.started();
      const at = bench.open.now() - 12_345;
      const { event } = await bench.inBand(runId, h.event({ type: "run_started" }, {}, at));
      expect(event.createdAt).toBe(at);
      expect((await bench.log(runId))[1]?.createdAt).toBe(at);
    });

    it("a run is created under the occurredAt that its message says", async () => {
      const bench = use();
      const at = bench.open.now() - 12_345;
      const runId = h.newRunId();
      const { event } = await bench
        .store()
        .events.create(runId, { ...h.runCreated(), occurredAt: at });
      expect(event.createdAt).toBe(at);
      expect((await bench.store().runs.get(runId))?.createdAt).toBe(at);
    });

    it("an out-of-band event is stored under the World's own time", async () => {
      const bench = use();
      const runId = await bench.started();
      const { event } = await bench.store().events.create(runId, h.attrSet("stage", "one", 5));
      expect(event.createdAt).toBe(bench.open.now());
    });
  });
};
