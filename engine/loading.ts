/**
 * Stages 1 and 2: a run's log and the heap that goes with it, from the cheapest source that fits.
 *
 * Owns the order of the sources: the live heap, the newest snapshot, the whole log. Each fits only
 * where the World's digest says that it is of this very log (E9); anything else goes cold.
 */
import type { Arrival } from "./delivery-state.ts";
import { RunLog } from "./log.ts";
import type { Heap, HeapImage } from "./ports/sandbox.ts";
import { readTail } from "./reads.ts";
import type { TailReader } from "./reads.ts";
import { assert } from "./assert.ts";
import { restoreSnapshot } from "./snapshots.ts";
import type { SnapshotStore } from "./snapshots.ts";
import { InBandWriter } from "./writer.ts";

export interface LoadedRun {
  readonly log: RunLog;
  /** Its count is that of the first page of this load. */
  readonly writer: InBandWriter;
  readonly heap: Heap | null;
  readonly image: HeapImage | null;
  readonly snapshotSlot: number;
}

export function tailReaderOf(arrival: Arrival): TailReader {
  const { clock, settings } = arrival.engine.parts;
  return {
    events: arrival.store.events,
    runId: arrival.run.runId,
    clock,
    readTimeoutMs: settings.readTimeoutMs,
  };
}

export function snapshotStoreOf(arrival: Arrival): SnapshotStore {
  return {
    run: arrival.run,
    tenants: arrival.engine.parts.tenants,
    snapshots: arrival.store.snapshots,
  };
}

export async function loadRun(arrival: Arrival): Promise<LoadedRun> {
  return (await loadLive(arrival)) ?? (await loadStored(arrival));
}

/** What the World alone gives: after a heap was lost. */
export async function loadStored(arrival: Arrival): Promise<LoadedRun> {
  return (await loadSnapshot(arrival)) ?? (await loadCold(arrival));
}

async function loadLive(arrival: Arrival): Promise<LoadedRun | null> {
  const live = arrival.engine.memory.liveHeaps.take(arrival.run);
  if (live === null) return null;
  try {
    const read = await readTail(tailReaderOf(arrival), live.log);
    if (read.kind === "read") {
      const writer = writerOf(arrival, live.log, read.counts.seqInBand);
      const { log, heap, snapshotSlot } = live;
      return { log, writer, heap, image: null, snapshotSlot };
    }
  } catch (error) {
    live.heap.close();
    throw error;
  }
  arrival.logger.warn({ slot: live.log.topSlot }, "a live heap is of another log; going cold");
  live.heap.close();
  return null;
}

async function loadSnapshot(arrival: Arrival): Promise<LoadedRun | null> {
  if (arrival.engine.parts.settings.isCold) return null;
  const restored = await restoreSnapshot(snapshotStoreOf(arrival)).catch((error: unknown) => {
    arrival.logger.warn({ error: String(error) }, "a snapshot could not be read; going cold");
    return null;
  });
  if (restored === null) return null;
  const log = RunLog.restore(restored.folded);
  const read = await readTail(tailReaderOf(arrival), log);
  if (read.kind === "rewritten") {
    arrival.logger.warn({ slot: restored.image.slot }, "a snapshot is of another log; going cold");
    return null;
  }
  const writer = writerOf(arrival, log, read.counts.seqInBand);
  const { image } = restored;
  return { log, writer, heap: null, image, snapshotSlot: image.slot };
}

/** The whole log, for a heap that starts from its bundle's image. */
export async function loadCold(arrival: Arrival): Promise<LoadedRun> {
  const log = new RunLog();
  const read = await readTail(tailReaderOf(arrival), log);
  assert(read.kind === "read", "a log read from its first slot is the World's own");
  const writer = writerOf(arrival, log, read.counts.seqInBand);
  return { log, writer, heap: null, image: null, snapshotSlot: 0 };
}

function writerOf(arrival: Arrival, log: RunLog, seqInBand: number): InBandWriter {
  const { events } = arrival.store;
  return new InBandWriter({ events, runId: arrival.run.runId, log, seqInBand });
}
