/**
 * Reads of a log's tail: page by page, under a deadline, checked against the digest chain.
 *
 * E9  What is read joins a log only where the World's digest below it is the log's own: a heap or a
 *     fold is of this very history, not of one with as many events.
 */
import { BatonError } from "./errors.ts";
import type { RunEvent } from "./events.ts";
import type { RunId } from "./ids.ts";
import {
  FIRST_PAGE_EVENTS,
  PAGE_BYTES_MAX,
  PAGE_EVENTS_MAX,
  PAGE_GROWTH_MAX,
  READ_ATTEMPTS_MAX,
} from "./limits.ts";
import type { RunLog } from "./log.ts";
import type { Clock } from "./ports/host.ts";
import type { EventPage, Events, ListParams, LogCounts } from "./ports/world.ts";
import { SLOT_NONE, nextSlot } from "./slots.ts";

export interface TailReader {
  readonly events: Events;
  readonly runId: RunId;
  readonly clock: Clock;
  /** 0: no deadline. */
  readonly readTimeoutMs: number;
}

export type TailRead =
  | {
      readonly kind: "read";
      /** Of this page, read before its listing. */
      readonly counts: LogCounts;
      /** There is more above: read again before anything is decided. */
      readonly hasMore: boolean;
    }
  /** The World's log is another one than this log is of. */
  | { readonly kind: "rewritten" };

/** How many events the next page asks for: as many as keep a page within its bytes. */
export class Pacing {
  #limit = FIRST_PAGE_EVENTS;

  get limit(): number {
    return this.#limit;
  }

  note(events: readonly RunEvent[]): void {
    if (events.length === 0) return;
    const bytesEach = events.reduce((sum, event) => sum + payloadBytes(event), 0) / events.length;
    const fitting = Math.floor(PAGE_BYTES_MAX / Math.max(1, bytesEach));
    this.#limit = Math.min(Math.max(1, fitting), this.#limit * PAGE_GROWTH_MAX, PAGE_EVENTS_MAX);
  }
}

/**
 * Reads one page above the log's top slot into it. A long log is taken page by page, so that no
 * more of it is held than the guest has yet to consume.
 */
export async function readOn(reader: TailReader, log: RunLog, pacing: Pacing): Promise<TailRead> {
  const from = log.topSlot;
  const page = await pageAfter(reader, { afterSlot: from, limit: pacing.limit });
  if (from !== SLOT_NONE && page.digestBefore !== log.digest) return { kind: "rewritten" };
  const counts = countsOf(page);
  for (const event of page.events) {
    if (event.slot !== nextSlot(log.topSlot)) throw gapAbove(log);
    log.append(event);
  }
  pacing.note(page.events);
  if (page.hasMore && page.events.length === 0) throw gapAbove(log);
  if (!page.hasMore && log.topSlot < counts.seq) {
    // A position that was handed out and neither committed nor sealed yet.
    throw new BatonError("WORLD_UNAVAILABLE", "the log does not reach as far as its count", {
      field: "seq",
      used: log.topSlot,
      allowed: counts.seq,
    });
  }
  return { kind: "read", counts, hasMore: page.hasMore };
}

function payloadBytes(event: RunEvent): number {
  let bytes = 0;
  for (const value of Object.values(event.eventData)) {
    if (value instanceof Uint8Array) bytes += value.length;
  }
  return bytes;
}

/** One page; a read of a tail that takes too long is abandoned and sent again. */
export async function pageAfter(reader: TailReader, params: ListParams): Promise<EventPage> {
  const isFullLoad = (params.afterSlot ?? SLOT_NONE) === SLOT_NONE;
  if (isFullLoad || reader.readTimeoutMs === 0) return reader.events.list(reader.runId, params);
  let timeoutMs = reader.readTimeoutMs;
  for (let attempt = 1; attempt <= READ_ATTEMPTS_MAX; attempt++) {
    const page = await readWithin(reader, params, timeoutMs);
    if (page !== null) return page;
    timeoutMs *= 2;
  }
  throw new BatonError("WORLD_UNAVAILABLE", "a read of the log's tail was not answered in time", {
    field: "readTimeoutMs",
    allowed: reader.readTimeoutMs,
  });
}

/** One try; null if it was abandoned. */
export async function readWithin(
  reader: TailReader,
  params: ListParams,
  timeoutMs: number,
): Promise<EventPage | null> {
  const abandon = new AbortController();
  let cancel = (): void => undefined;
  const late = new Promise<null>((resolve) => {
    cancel = reader.clock.setTimer(timeoutMs, () => resolve(null));
  });
  const reading = reader.events.list(reader.runId, { ...params, signal: abandon.signal });
  try {
    const page = await Promise.race([reading, late]);
    if (page !== null) return page;
    // Whatever the abandoned read still answers is of no use, its failure included.
    reading.catch(() => undefined);
    abandon.abort();
    return null;
  } finally {
    cancel();
  }
}

function countsOf(page: EventPage): LogCounts {
  const counts = page.snapshot as LogCounts | undefined;
  if (counts !== undefined) return counts;
  throw new BatonError("SNAPSHOT_MISSING", "a page of a log came without its counts", {
    field: "snapshot",
  });
}

function gapAbove(log: RunLog): BatonError {
  return new BatonError("CORRUPTED_EVENT_LOG", "the log of a run has a gap", {
    field: "slot",
    used: log.topSlot + 1,
  });
}
