/**
 * Stage 8: how a delivery ends, and what it leaves behind.
 *
 * Owns the answer to the queue for each ending, and that before any answer what is owed is out.
 *
 * E60  A message is acknowledged only when nothing is owed: every write committed, every message
 *      and timer sent, or the run over.
 * E61  A heap outlives its delivery only if the delivery ended cleanly at the end of its log.
 */
import { assert, assertNever } from "./assert.ts";
import { armOwned } from "./arming.ts";
import { runHandle } from "./client.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { ACK, nowMs } from "./delivery-state.ts";
import { dropHeap } from "./guest-pass.ts";
import { commitSettled } from "./inline-steps.ts";
import { FENCE_REDELIVERY_MS, SET_ASIDE_REDELIVERY_MS } from "./limits.ts";
import { snapshotStoreOf } from "./loading.ts";
import { resend, sendOwed } from "./owing.ts";
import type { DeliveryResult } from "./ports/queue.ts";
import { deleteSnapshot, isSnapshotDue, saveSnapshot } from "./snapshots.ts";
import { nextDueMs } from "./waits.ts";

/** Null: no answer yet, the run is to be read and driven from its log. */
export async function finish(state: DeliveryState, ending: Ending): Promise<DeliveryResult | null> {
  switch (ending.kind) {
    case "suspended":
      await armOwned(state);
      await keepHeap(state);
      state.engine.memory.positions.record(state.run, {
        slot: state.log.topSlot,
        nextDueMs: nextDueMs(state.log.waits.values()),
      });
      return ACK;
    case "over":
      return finishRun(state);
    case "handoff":
      await sendOwed(state);
      await armOwned(state);
      await keepHeap(state);
      return { kind: "handoff" };
    case "start refused":
      dropHeap(state);
      await state.bodies.settleAll();
      return null;
    case "superseded":
      return standDown(state);
    case "unknown":
      dropHeap(state);
      await state.bodies.settleAll();
      // What may or may not be in the log is for the redelivery to read.
      throw ending.error;
    case "parked":
      return park(state, ending);
    case "deferred":
      dropHeap(state);
      await state.bodies.settleAll();
      await sendOwed(state);
      await armOwned(state);
      return { kind: "redeliver", afterMs: ending.afterMs, counted: ending.counted };
    default:
      return assertNever(ending);
  }
}

/** A cancellation may have come first, and then the end that was written is inert. */
async function tellLifecycle({ engine, run, wroteEnding, logger }: DeliveryState): Promise<void> {
  const { lifecycle } = engine.memory;
  if (!wroteEnding || !lifecycle.isHeard) return;
  try {
    const handle = runHandle(engine, run.tenantId, run.runId);
    const outcome = await handle.outcome();
    const { workflowName } = await handle.row();
    if (outcome !== null) lifecycle.dispatch({ run, workflowName, outcome });
  } catch (error) {
    logger.warn({ error: String(error) }, "a run's end was not told to lifecycle hooks");
  }
}

/** Bodies that still run are told, waited for and recorded; their outcomes are inert. */
async function finishRun(state: DeliveryState): Promise<DeliveryResult> {
  state.engine.memory.endings.announce(state.run);
  await tellLifecycle(state);
  dropHeap(state);
  state.bodies.abort();
  await state.bodies.settleAll();
  if (state.writer.stop === null) await commitSettled(state);
  await sendOwed(state);
  await deleteSnapshot(snapshotStoreOf(state), state.logger);
  return ACK;
}

/**
 * Refused by the fence. That does not prove that another delivery is at work, so the message is not
 * done: its redelivery counts, and sends again what a dead one may have owed.
 */
async function standDown(state: DeliveryState): Promise<DeliveryResult> {
  dropHeap(state);
  await state.bodies.settleAll();
  await sendOwed(state);
  await resend(state);
  await armOwned(state);
  state.logger.warn({ code: "IN_BAND_SUPERSEDED" }, "refused by the fence; standing down");
  return { kind: "redeliver", afterMs: FENCE_REDELIVERY_MS, counted: true };
}

async function park(
  state: DeliveryState,
  { code, message, isSpent }: Extract<Ending, { kind: "parked" }>,
): Promise<DeliveryResult> {
  dropHeap(state);
  await state.bodies.settleAll();
  await sendOwed(state);
  await armOwned(state);
  await state.store.runs.park(state.run.runId, { code, message, since: nowMs(state) });
  state.logger.error({ code, reason: message }, "a run is parked");
  if (isSpent === true) return ACK;
  return { kind: "redeliver", afterMs: SET_ASIDE_REDELIVERY_MS, counted: false };
}

/** Keeps the heap for the next delivery, and a snapshot of it if a replay would cost more. */
async function keepHeap(state: DeliveryState): Promise<void> {
  const { heap, log, report } = state;
  const { settings } = state.engine.parts;
  const isAtEnd = log.consumedSlot === log.topSlot && !state.writer.isBehind;
  if (heap === null || report === null || !isAtEnd || log.isOver || settings.isCold) {
    dropHeap(state);
    return;
  }
  if (isSnapshotDue(log.topSlot, state.snapshotSlot)) {
    const toSave = { heap, log, bytesMax: state.limits.snapshotBytesMax };
    const saved = await saveSnapshot(snapshotStoreOf(state), toSave).catch((error: unknown) => {
      state.logger.warn({ error: String(error) }, "a snapshot was not saved");
      return null;
    });
    state.snapshotSlot = saved ?? state.snapshotSlot;
  }
  assert(heap.consumedSlot <= log.topSlot, "no heap is kept that was told what is not committed");
  const { snapshotSlot } = state;
  const { heapBytes } = report.usage;
  const live = { heap, log, snapshotSlot, heapBytes };
  state.engine.memory.liveHeaps.put(state.run, live, state.limits.liveHeapBytesMax);
  state.heap = null;
}
