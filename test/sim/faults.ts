/**
 * Faults: what may go wrong at one call, how likely, and how often it did.
 *
 * A fault is drawn at each call that a process makes over the border of the engine. The number of
 * faults of one schedule is bounded, so that in the end everything can come right.
 */
import type { Draws } from "./draws.ts";

export type FaultKind =
  /** The call fails and nothing was done. */
  | "refused"
  /** It was done, and the caller is told that it failed. */
  | "answer lost"
  /** The process dies before the call is done. */
  | "crash before"
  /** The process dies after it was done, without hearing of it. */
  | "crash after"
  /** The process stands still for longer than its leases; others get its deliveries meanwhile. */
  | "stall"
  /** The World asks for less load; nothing was done. */
  | "throttled"
  /** The answer to a write reports less than landed below it, and says so. */
  | "short report"
  /** A stored snapshot is gone. */
  | "snapshot lost"
  /** Where a run's snapshot stood there is one of another run. */
  | "snapshot swapped"
  /** A heap is gone with its thread. */
  | "heap lost"
  /** A live feed ends without a word. */
  | "feed silent"
  /** A live feed ends with an error. */
  | "feed failed"
  /** A live feed leaves out some events. */
  | "feed drops"
  /** A live feed gives events more than once, and late. */
  | "feed repeats"
  /** A live feed pushes no more, and its heartbeats go on. */
  | "feed stuck"
  /** A subscription is never answered. */
  | "feed hangs"
  /** A delivery's answer does not arrive: the message comes again. */
  | "ack lost"
  /** A body is cut short by what is not its own doing. */
  | "interrupted";

const WRITES = ["events.create", "events.createBatch"];
const ANYWHERE: readonly FaultKind[] = [
  "refused",
  "answer lost",
  "crash before",
  "crash after",
  "stall",
];

const FEED_FAULTS: readonly FaultKind[] = [
  "feed silent",
  "feed failed",
  "feed drops",
  "feed repeats",
  "feed stuck",
  "feed hangs",
];

/** Which faults can be met at a call site. */
export function faultsAt(site: string): readonly FaultKind[] {
  if (site === "delivery") return ["ack lost", "crash before", "crash after"];
  if (site === "body") return ["interrupted", "crash before"];
  if (site.startsWith("sandbox.")) return ["heap lost"];
  if (site === "events.subscribe") return ["refused", ...FEED_FAULTS];
  if (site === "snapshots.get") return [...ANYWHERE, "snapshot lost", "snapshot swapped"];
  if (WRITES.includes(site)) return [...ANYWHERE, "throttled", "short report"];
  return ANYWHERE;
}

/** The call that a fault would meet. */
export interface CallAbout {
  readonly site: string;
  /** The process that makes it. */
  readonly owner: string;
  readonly args: readonly unknown[];
}

export interface Faults {
  /** The fault of this call, or null. */
  draw(call: CallAbout): FaultKind | null;
  /** `fault at site`, and how often. */
  readonly met: ReadonlyMap<string, number>;
  readonly count: number;
}

export interface FaultProfile {
  /** Of one call. */
  readonly probability: number;
  /** In one schedule; below the delivery cap, so that no message is given up for faults alone. */
  readonly max: number;
}

export function faultProfile(draws: Draws): FaultProfile {
  return { probability: draws.pick([0, 0.01, 0.02, 0.04, 0.04, 0.08, 0.15]), max: 30 };
}

export function faultsFrom(draws: Draws, { probability, max }: FaultProfile): Faults {
  const met = new Map<string, number>();
  let count = 0;
  return {
    met,
    get count() {
      return count;
    },
    draw: ({ site }) => {
      const isDrawn = draws.chance(probability);
      const kind = draws.pick(faultsAt(site));
      if (!isDrawn || count >= max) return null;
      count++;
      const key = `${kind} at ${site}`;
      met.set(key, (met.get(key) ?? 0) + 1);
      return kind;
    },
  };
}
