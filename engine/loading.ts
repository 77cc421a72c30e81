/**
 * Stages 1 and 2: a run's log and the heap that goes with it, from the cheapest source that fits.
 *
 * Owns the order of the sources: the live heap, the newest snapshot, the whole log. Each fits only
 * where the World's digest says that it is of this very log (E9); anything else goes cold.
 */
import type { Arrival, RolledBack } from "./delivery-state.ts";
import { IN_BAND_SEQ_AT_RUN_CREATION } from "./events.ts";
import { RunLog } from "./log.ts";
import type { Heap, HeapImage } from "./ports/sandbox.ts";
import { Pacing, readOn } from "./reads.ts";
import type { TailRead, TailReader } from "./reads.ts";
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
  readonly pacing: Pacing;
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
    shelf: arrival.engine.memory.snapshotShelf,
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
  const pacing = new Pacing();
  try {
    const read = await readOn(tailReaderOf(arrival), live.log, pacing);
    if (read.kind === "read") {
      const { log, heap, snapshotSlot } = live;
      const writer = writerOf(arrival, log, read);
      return { log, writer, heap, image: null, snapshotSlot, pacing };
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
  return restored === null ? null : loadFrom(arrival, restored);
}

/** The log above an image, read anew; null if the image is of another log. */
export async function loadFrom(
  arrival: Arrival,
  { image, folded }: RolledBack,
): Promise<LoadedRun | null> {
  const log = RunLog.restore(folded);
  const pacing = new Pacing();
  const read = await readOn(tailReaderOf(arrival), log, pacing);
  if (read.kind === "rewritten") {
    arrival.logger.warn({ slot: image.slot }, "a snapshot is of another log; going cold");
    return null;
  }
  const writer = writerOf(arrival, log, read);
  return { log, writer, heap: null, image, snapshotSlot: image.slot, pacing };
}

/** The log from its first slot, for a heap that starts from its bundle's image. */
export async function loadCold(arrival: Arrival): Promise<LoadedRun> {
  const log = new RunLog();
  const pacing = new Pacing();
  const read = await readOn(tailReaderOf(arrival), log, pacing);
  assert(read.kind === "read", "a log read from its first slot is the World's own");
  const writer = writerOf(arrival, log, read);
  return { log, writer, heap: null, image: null, snapshotSlot: 0, pacing };
}

/** A fresh run's log before anything is read: only its creation is known to be there. */
export function loadNothing(arrival: Arrival): LoadedRun {
  const log = new RunLog();
  const { events } = arrival.store;
  const seqInBand = IN_BAND_SEQ_AT_RUN_CREATION;
  const writer = new InBandWriter({ events, runId: arrival.run.runId, log, seqInBand });
  return { log, writer, heap: null, image: null, snapshotSlot: 0, pacing: new Pacing() };
}

/** The writer of a load: its count is that of the first page, which says how much is still to read. */
function writerOf(
  arrival: Arrival,
  log: RunLog,
  read: Extract<TailRead, { kind: "read" }>,
): InBandWriter {
  const { events } = arrival.store;
  const { seqInBand } = read.counts;
  const writer = new InBandWriter({ events, runId: arrival.run.runId, log, seqInBand });
  if (read.hasMore) writer.noteBehind();
  return writer;
}
