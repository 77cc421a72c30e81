/**
 * Reads of a log's tail: page by page, under a deadline, checked against the digest chain.
 *
 * E9  What is read joins a log only where the World's digest below it is the log's own: a heap or a
 *     fold is of this very history, not of one with as many events.
 */
import { BatonError } from "./errors.ts";
import type { RunId } from "./ids.ts";
import { READ_ATTEMPTS_MAX } from "./limits.ts";
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
  /** The log reaches as far as the World said at the first page, whose counts these are. */
  | { readonly kind: "read"; readonly counts: LogCounts }
  /** The World's log is another one than this log is of. */
  | { readonly kind: "rewritten" };

/** Reads all above the log's top slot into it. */
export async function readTail(reader: TailReader, log: RunLog): Promise<TailRead> {
  let counts: LogCounts | null = null;
  for (;;) {
    const from = log.topSlot;
    const page = await pageAfter(reader, { afterSlot: from });
    if (from !== SLOT_NONE && page.digestBefore !== log.digest) return { kind: "rewritten" };
    counts ??= countsOf(page);
    for (const event of page.events) {
      if (event.slot !== nextSlot(log.topSlot)) throw gapAbove(log);
      log.append(event);
    }
    if (!page.hasMore) break;
    if (page.events.length === 0) throw gapAbove(log);
  }
  if (log.topSlot < counts.seq) {
    // A position that was handed out and neither committed nor sealed yet.
    throw new BatonError("WORLD_UNAVAILABLE", "the log does not reach as far as its count", {
      field: "seq",
      used: log.topSlot,
      allowed: counts.seq,
    });
  }
  return { kind: "read", counts };
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
