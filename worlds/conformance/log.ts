/** Cases of the log: W1, W4, W5, W7, W8, W29, and the order of events. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { NewEvent } from "../../engine/events.ts";
import { EMPTY_LOG_DIGEST } from "../../engine/events.ts";
import { eventIdOf, slotOf } from "../../engine/slots.ts";
import { encodeBody, plainDataOf } from "../event-record.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

export const logCases: Cases = (use) => {
  describe("events (W1, W4)", () => {
    it("an event comes back from list, get and create as the same value", async () => {
      const bench = use();
      const runId = await bench.started();
      const { event } = await bench.inBand(runId, h.stepCreated());
      expect((await bench.log(runId))[1]).toEqual(event);
      expect(await bench.store().events.get(runId, slotOf(2))).toEqual(event);
      expect(event.eventId).toBe(eventIdOf(slotOf(2)));
      expect(event.runId).toBe(runId);
    });

    it("every byte value of a payload comes back", async () => {
      const bench = use();
      const runId = await bench.started();
      const all = Uint8Array.from({ length: 256 }, (_, i) => i);
      await bench.inBand(runId, h.stepCreated(h.newId("step"), { input: all }));
      expect((await bench.log(runId))[1]?.eventData).toMatchObject({ input: all });
    });

    it("a payload that is a view on a larger buffer is stored without the rest", async () => {
      const bench = use();
      const runId = await bench.started();
      const pool = new Uint8Array(8192).fill(7);
      await bench.inBand(runId, h.stepCreated(h.newId("step"), { input: pool.subarray(10, 13) }));
      const stored = (await bench.log(runId))[1]?.eventData as { input: Uint8Array };
      expect(stored.input.length).toBe(3);
      expect(stored.input.buffer.byteLength).toBe(3);
    });

    it("what a caller changes afterwards changes nothing that is stored", async () => {
      const bench = use();
      const runId = await bench.started();
      const input = h.bytes("[1]");
      await bench.inBand(runId, h.stepCreated(h.newId("step"), { input }));
      input.fill(0);
      const [, first] = await bench.log(runId);
      const read = first?.eventData as { input: Uint8Array };
      read.input.fill(9);
      expect((await bench.log(runId))[1]?.eventData).toMatchObject({ input: h.bytes("[1]") });
    });

    it("each digest is the hash of the one before and of the event", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runStarted());
      await bench.store().events.create(runId, h.attrSet());
      let digest = Buffer.from(EMPTY_LOG_DIGEST, "hex");
      for (const event of await bench.log(runId)) {
        const place = Buffer.alloc(16);
        place.writeBigUInt64BE(BigInt(event.slot), 0);
        place.writeDoubleBE(event.createdAt, 8);
        digest = createHash("sha256")
          .update(digest)
          .update(runId)
          .update(place)
          .update(encodeBody(event, plainDataOf(event)))
          .digest();
        expect(event.digest).toBe(digest.toString("hex"));
      }
    });

    it("equal logs have equal digests, in whatever order an event's fields were written", async () => {
      const bench = use();
      const runId = h.newRunId();
      const orders = [
        { tenantId: h.A, attributes: { plan: "pro", region: "eu" } },
        { tenantId: h.B, attributes: { region: "eu", plan: "pro" } },
      ];
      for (const { tenantId, attributes } of orders) {
        await bench.store(tenantId).events.create(runId, h.runCreated({ attributes }));
      }
      expect(await bench.log(runId, h.B)).toEqual(await bench.log(runId, h.A));
    });

    it("a page begins with the digest of the log below it", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.filled(bench, runId, 3);
      const log = await bench.log(runId);
      const { events } = bench.store();
      expect((await events.list(runId)).digestBefore).toBe(EMPTY_LOG_DIGEST);
      expect((await events.list(runId, { afterSlot: slotOf(2) })).digestBefore).toBe(
        log[1]?.digest,
      );
      expect((await events.list(runId, { afterSlot: slotOf(9) })).digestBefore).toBeNull();
    });

    it("a slot that the log does not hold is null", async () => {
      const bench = use();
      const runId = await bench.started();
      expect(await bench.store().events.get(runId, slotOf(2))).toBeNull();
      expect(await bench.store().events.get(h.newRunId(), slotOf(1))).toBeNull();
    });

    it("concurrent out-of-band writers get dense slots, each one its own", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.filled(bench, runId, 200);
      const slots = (await bench.log(runId)).map((event) => event.slot);
      expect(slots).toEqual(Array.from({ length: 201 }, (_, i) => i + 1));
    });

    it("a run is created once", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.started(h.A, runId), "ENTITY_CONFLICT");
      expect((await bench.log(runId)).length).toBe(1);
    });

    it("a log begins with run_created and nothing else", async () => {
      const bench = use();
      const runId = h.newRunId();
      await h.refusal(bench.store().events.create(runId, h.attrSet()), "RUN_NOT_FOUND");
      await h.refusal(bench.store().events.list(runId), "RUN_NOT_FOUND");
      expect(await bench.store().runs.get(runId)).toBeNull();
    });

    it("another spec version is refused for writing, by the event and by the run", async () => {
      const bench = use();
      const runId = h.newRunId();
      const { events } = bench.store();
      await h.refusal(
        events.create(runId, { ...h.runCreated(), specVersion: 10 }),
        "RUN_NOT_SUPPORTED",
      );
      expect(await bench.store().runs.get(runId)).toBeNull();
      await bench.started(h.A, runId);
      await h.refusal(
        events.create(runId, { ...h.attrSet(), specVersion: 8 }),
        "RUN_NOT_SUPPORTED",
      );
      expect((await bench.log(runId)).length).toBe(1);
    });
  });

  describe("the skipped-slot report (W5)", () => {
    it("holds what landed between the decision and the write, in order", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.filled(bench, runId, 3);
      const result = await bench.inBand(runId, h.runStarted(), { eventCount: 2 });
      expect(result.events.map((event) => event.slot)).toEqual([3, 4]);
      expect([result.event.slot, result.hasMore, result.allocated]).toEqual([5, false, 1]);
      expect(result.events).toEqual((await bench.log(runId)).slice(2, 4));
    });

    it("is empty when nothing landed, and for out-of-band writes", async () => {
      const bench = use();
      const runId = await bench.started();
      const inBand = await bench.inBand(runId, h.runStarted());
      expect([inBand.events, inBand.hasMore]).toEqual([[], false]);
      const outOfBand = await bench.store().events.create(runId, h.attrSet(), { eventCount: 0 });
      expect([outOfBand.events, outOfBand.hasMore]).toEqual([[], false]);
    });

    it("that is too long says hasMore, and what it holds has no gap", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.filled(bench, runId, 1_500);
      const { events, hasMore } = await bench.inBand(runId, h.runStarted(), { eventCount: 1 });
      expect(hasMore || events.length === 1_500).toBe(true);
      expect(events.every((event, i) => event.slot === i + 2)).toBe(true);
    });

    it("of large events is bounded in bytes", async () => {
      const bench = use();
      const runId = await bench.started();
      const big = new Uint8Array(400_000);
      for (let i = 0; i < 4; i++) {
        const step = h.newId("step");
        await bench.store().events.create(runId, h.stepCreated(step, { input: big }));
      }
      const { events, hasMore } = await bench.inBand(runId, h.runStarted(), { eventCount: 1 });
      expect(hasMore).toBe(true);
      expect(events.length).toBeLessThan(4);
    });
  });

  describe("a run that is over (W7, W8)", () => {
    const REFUSED: readonly [string, () => NewEvent][] = [
      ["run_started", h.runStarted],
      ["step_created", () => h.stepCreated()],
      ["step_started", () => h.stepStarted(h.newId("step"))],
      ["wait_created", () => h.waitCreated()],
      ["wake_requested", () => h.event({ type: "wake_requested" })],
      [
        "step_retrying",
        () =>
          h.event(
            { type: "step_retrying", id: h.newId("step") },
            { stepName: "charge", attempt: 1, error: h.bytes("[]"), retryAfter: 1 },
          ),
      ],
    ];
    it.each(REFUSED)("%s is refused with RunExpiredError and writes nothing", async (_, make) => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runCompleted());
      const error = await h.refusal(bench.inBand(runId, make()), "RUN_EXPIRED");
      expect(error.name).toBe("RunExpiredError");
      await h.refusal(bench.store().events.create(runId, make()), "RUN_EXPIRED");
      expect(await bench.counts(runId)).toEqual({ seq: 2, seqInBand: 2 });
    });

    it("outcomes of steps and waits are still taken", async () => {
      const bench = use();
      const runId = await bench.started();
      const [stepId, waitId] = [h.newId("step"), h.newId("wait")];
      await bench.inBand(runId, h.stepCreated(stepId));
      await bench.inBand(runId, h.waitCreated(waitId));
      await bench.store().events.create(runId, h.runCancelled());
      await bench.store().events.create(runId, h.stepCompleted(stepId));
      await bench.inBand(runId, h.waitCompleted(waitId));
      expect(await bench.counts(runId)).toEqual({ seq: 6, seqInBand: 4 });
    });

    it("the first terminal event by slot gives the status; a later one is inert", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.store().events.create(runId, h.runCancelled());
      const over = await bench.store().runs.get(runId);
      await bench.open.advance(50);
      await bench.inBand(runId, h.runCompleted());
      const run = await bench.store().runs.get(runId);
      expect([run?.status, run?.completedAt]).toEqual(["cancelled", over?.completedAt]);
      expect(run?.counts).toEqual({ seq: 3, seqInBand: 2 });
    });

    it.each([
      ["run_completed", h.runCompleted, "completed"],
      ["run_cancelled", h.runCancelled, "cancelled"],
      [
        "run_failed",
        () => h.event({ type: "run_failed" }, { error: h.bytes("[]"), errorCode: "USER_ERROR" }),
        "failed",
      ],
    ] as const)("%s makes the run over, with its status", async (_, make, status) => {
      const bench = use();
      const runId = await bench.started();
      expect((await bench.store().runs.get(runId))?.status).toBe("pending");
      await bench.inBand(runId, h.runStarted());
      expect((await bench.store().runs.get(runId))?.status).toBe("running");
      await bench.inBand(runId, make());
      expect(await bench.store().runs.get(runId)).toMatchObject({
        status,
        startedAt: bench.open.now(),
        completedAt: bench.open.now(),
      });
    });
  });

  describe("who may write what", () => {
    it("a wait is completed in-band only", async () => {
      const bench = use();
      const runId = await bench.started();
      const waitId = h.newId("wait");
      await bench.inBand(runId, h.waitCreated(waitId));
      const error = await h.refusal(
        bench.store().events.create(runId, h.waitCompleted(waitId)),
        "WAIT_COMPLETION_IN_BAND_ONLY",
      );
      expect(error.status).toBe(409);
      expect((await bench.store().waits.get(runId, waitId))?.status).toBe("waiting");
      await bench.inBand(runId, h.waitCompleted(waitId));
      expect((await bench.store().waits.get(runId, waitId))?.status).toBe("completed");
    });

    it("nobody but the World writes hook_conflict", async () => {
      const bench = use();
      const runId = await bench.started();
      const forged = h.event(
        { type: "hook_conflict", id: h.newId("hook") },
        { tokenHash: h.hashOf("t"), conflictingRunId: runId },
      );
      await h.refusal(bench.inBand(runId, forged), "INVALID_ARGUMENT");
    });
  });

  describe("repeated requests (W29)", () => {
    it("the same resumeId converges on the first event", async () => {
      const bench = use();
      const runId = await bench.started();
      const { events } = bench.store();
      const first = await events.create(runId, h.attrSet("a", "1"), { resumeId: "r1" });
      await events.create(runId, h.attrSet("b", "1"));
      const again = await events.create(runId, h.attrSet("a", "1"), { resumeId: "r1" });
      expect(again).toMatchObject({ event: first.event, allocated: 0 });
      expect(await bench.counts(runId)).toEqual({ seq: 3, seqInBand: 1 });
    });

    it("a start that is repeated under its resumeId converges", async () => {
      const bench = use();
      const runId = h.newRunId();
      const { events } = bench.store();
      const first = await events.create(runId, h.runCreated(), { resumeId: "s1" });
      const again = await events.create(runId, h.runCreated(), { resumeId: "s1" });
      expect(again).toMatchObject({ event: first.event, allocated: 0 });
    });

    it("the message of a repeated request is not sent again", async () => {
      const bench = use();
      const runId = await bench.started();
      const send = { message: h.wake(runId) };
      const { events } = bench.store();
      await events.create(runId, h.attrSet(), { resumeId: "r1", send });
      await events.create(runId, h.attrSet(), { resumeId: "r1", send });
      const consumer = new h.HeldConsumer(bench);
      (await consumer.nth(1)).answer(h.ACK);
      expect(await consumer.count()).toBe(1);
    });

    it("another resumeId, or the same one in another run, is another request", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const { events } = bench.store();
      await events.create(one, h.attrSet(), { resumeId: "r1" });
      await events.create(one, h.attrSet(), { resumeId: "r2" });
      await events.create(two, h.attrSet(), { resumeId: "r1" });
      expect([(await bench.counts(one)).seq, (await bench.counts(two)).seq]).toEqual([3, 2]);
    });

    it("the fence comes before convergence", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.attrSet(), { resumeId: "r1" });
      await h.refusal(
        bench.inBand(runId, h.attrSet(), { resumeId: "r1", expectedSeqInBand: 1 }),
        "IN_BAND_SUPERSEDED",
      );
    });
  });
};
