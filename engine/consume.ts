/**
 * Consume after commit: what the guest is told, and in which order.
 *
 * Owns the translation of committed events into what a heap is fed, and the rule by which the
 * answer to a write joins the log. Pure.
 *
 * E4  The guest is told of an event only once it has a position and nothing below it is missing.
 * E5  Inert events, requests to wake, retries and starts are consumed without the guest: they
 *     resume nothing.
 */
import type { EventType, PlacedEvent, RunEvent } from "./events.ts";
import type { LoggedEvent, RunLog } from "./log.ts";
import type { GuestEvent } from "./ports/sandbox.ts";
import { nextSlot } from "./slots.ts";
import type { Slot } from "./slots.ts";
import { createsStep, isStepEvent } from "./steps.ts";

/** Types that no guest has a use for. */
const NOT_FOR_GUESTS: ReadonlySet<EventType> = new Set<EventType>([
  "noop",
  "wake_requested",
  "step_retrying",
  "run_completed",
  "run_failed",
  "run_cancelled",
]);

export interface Feed {
  readonly events: readonly GuestEvent[];
  /** With these events fed, everything up to here is consumed. */
  readonly upTo: Slot;
}

/** The next events for the guest, at most `max` of the log's; null if it has consumed them all. */
export function nextFeed(log: RunLog, max: number): Feed | null {
  const taken = log.unconsumed.slice(0, max);
  const last = taken.at(-1);
  if (last === undefined) return null;
  return { events: taken.flatMap((logged) => guestEventsOf(logged)), upTo: last.event.slot };
}

function guestEventsOf({ event, isInert }: LoggedEvent): GuestEvent[] {
  if (isInert || NOT_FOR_GUESTS.has(event.eventType)) return [];
  if (event.eventType === "step_started" && !createsStep(event)) return [];
  if (event.eventType === "attr_set" && event.eventData.writer.kind !== "workflow") return [];
  return [guestEventOf(event)];
}

/** What a heap is told of an event that it is to be told of. */
export function guestEventOf(event: PlacedEvent): GuestEvent {
  return {
    slot: event.slot,
    eventType: event.eventType,
    correlationId: event.correlationId,
    createdAt: event.createdAt,
    payload: payloadFor(event),
    asked: askedBy(event),
    conflictingRunId: event.eventType === "hook_conflict" ? event.eventData.conflictingRunId : null,
  };
}

function payloadFor(event: PlacedEvent): Uint8Array | null {
  switch (event.eventType) {
    case "run_created":
      return event.eventData.input;
    case "step_completed":
      return event.eventData.result;
    case "step_failed":
      return event.eventData.error;
    case "hook_received":
      return event.eventData.payload;
    default:
      return null;
  }
}

/** On a creation: what the log says was asked for, which the guest compares. */
function askedBy(event: PlacedEvent): GuestEvent["asked"] {
  if (isStepEvent(event)) {
    return createsStep(event) ? { stepName: event.eventData.stepName } : null;
  }
  return event.eventType === "wait_created" ? { resumeAt: event.eventData.resumeAt } : null;
}

export interface WriteAnswer {
  /** What the write itself committed. */
  readonly own: readonly RunEvent[];
  /** What the World says lies below it. */
  readonly report: readonly RunEvent[];
  readonly hasMore: boolean;
}

/**
 * How an answer joins a log whose top slot is `topSlot`: the events to append, in slot order, and
 * whether something below them is still unread. Nothing is appended above a hole.
 */
export function eventsToMerge(
  topSlot: Slot,
  answer: WriteAnswer,
): { readonly events: readonly RunEvent[]; readonly isBehind: boolean } {
  const all = [...answer.report, ...answer.own].sort((a, b) => a.slot - b.slot);
  const events: RunEvent[] = [];
  let top = topSlot;
  for (const event of all) {
    if (event.slot <= top) continue;
    if (event.slot !== nextSlot(top)) return { events, isBehind: true };
    events.push(event);
    top = event.slot;
  }
  // What is dense is right even of an incomplete report; the rest is read before it is consumed.
  return { events, isBehind: answer.hasMore };
}
