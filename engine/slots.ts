/**
 * Slots: 1-based, gap-free positions in one run's log. Top slot n means exactly n events.
 * Not to be mixed up with the counts `seq` and `seqInBand`, which say how many events a log holds.
 */
import { assert } from "./assert.ts";

export type Slot = number & { readonly __brand: "Slot" };

/** The position before the first event: "nothing consumed yet". Never the slot of an event. */
export const SLOT_NONE = 0 as Slot;

/** The widest slot that an event id can carry as a safe integer. */
const SLOT_MAX = Number.MAX_SAFE_INTEGER;
const EVENT_ID = /^evnt_([0-9]{26})$/;

/** A position that is known to be an event's. */
export function slotOf(value: number): Slot {
  assert(Number.isSafeInteger(value), "a slot is a safe integer");
  assert(value >= 1, "slots are counted from 1");
  assert(value <= SLOT_MAX, "a slot fits its event id");
  return value as Slot;
}

/** A position that may also be `SLOT_NONE`: what a reader has consumed so far. */
export function positionOf(value: number): Slot {
  return value === 0 ? SLOT_NONE : slotOf(value);
}

export function nextSlot(slot: Slot): Slot {
  return (slot + 1) as Slot;
}

/** `evnt_` and the slot as 26 zero-padded decimal digits, so that ids sort as slots do. */
export function eventIdOf(slot: Slot): string {
  return `evnt_${String(slot).padStart(26, "0")}`;
}

/** The slot that an event id names, or null if the text is no event id. */
export function slotOfEventId(eventId: string): Slot | null {
  const digits = EVENT_ID.exec(eventId)?.[1];
  if (digits === undefined) return null;
  const value = Number(digits);
  return Number.isSafeInteger(value) && value >= 1 ? (value as Slot) : null;
}
