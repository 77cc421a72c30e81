/**
 * A wait's state, folded from its events and from requests to wake.
 *
 * Owns the transitions of `wait_*` events, what `wake_requested` means for a wait, and which waits
 * are due. Pure.
 *
 * E13  Only the orchestrator completes a wait; a second `wait_completed` is inert.
 * E14  A `wake_requested` names waits, or else means those open below its slot; a wait that is not
 *      open there is not touched, so a late request never ends a later sleep.
 */
import type { RunEventOf } from "./events.ts";
import type { EntityId } from "./ids.ts";
import type { Slot } from "./slots.ts";

export interface WaitState {
  readonly waitId: EntityId;
  /** Its deadline, epoch ms. */
  readonly resumeAt: number;
  /** The message whose delivery wrote it; waits of one message form a chain. */
  readonly chain: string;
  readonly createdSlot: Slot;
  /** Somebody asked for it to be completed now. */
  readonly isWoken: boolean;
  readonly completedSlot: Slot | null;
}

/** The chain of waits whose creation names no message: none that a delivery could own. */
const NO_CHAIN = "";

export function waitOf(event: RunEventOf<"wait_created">): WaitState {
  return {
    waitId: event.correlationId as EntityId,
    resumeAt: event.eventData.resumeAt,
    chain: event.eventData.creatorMessageId ?? NO_CHAIN,
    createdSlot: event.slot,
    isWoken: false,
    completedSlot: null,
  };
}

/** Whether a request to wake is about this wait (E14). */
export function isAskedToWake(wait: WaitState, event: RunEventOf<"wake_requested">): boolean {
  if (wait.completedSlot !== null) return false;
  const { waitIds } = event.eventData;
  return waitIds === undefined || waitIds.includes(wait.waitId);
}

export function isOpen(wait: WaitState): boolean {
  return wait.completedSlot === null;
}

/**
 * Open waits that are to be completed now: by their deadlines, so that of several which one late
 * look finds due the shorter sleep still ends first; then those that were woken before theirs.
 */
export function dueWaits(waits: Iterable<WaitState>, nowMs: number): readonly WaitState[] {
  const endedMs = (wait: WaitState) => Math.min(wait.resumeAt, nowMs);
  return [...waits]
    .filter((wait) => isOpen(wait) && (wait.isWoken || wait.resumeAt <= nowMs))
    .sort((a, b) => endedMs(a) - endedMs(b) || a.createdSlot - b.createdSlot);
}

/** The earliest deadline of an open wait, epoch ms, or null if none is open. */
export function nextDueMs(waits: Iterable<WaitState>): number | null {
  let earliest: number | null = null;
  for (const wait of waits) {
    if (isOpen(wait) && (earliest === null || wait.resumeAt < earliest)) earliest = wait.resumeAt;
  }
  return earliest;
}
