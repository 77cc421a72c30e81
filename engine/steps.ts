/**
 * A step's state, folded from its events alone.
 *
 * Owns the transitions of `step_*` events, for the orchestrator's fold of a whole log and for a
 * background delivery that reads one step's events only. Pure.
 *
 * E11  An event of a step after its outcome is inert, whatever its type.
 * E12  Attempts are starts less interrupted ones; retries are counted by nothing else.
 */
import { assertNever } from "./assert.ts";
import type { EventType, PlacedEventOf } from "./events.ts";
import type { EntityId } from "./ids.ts";
import type { Slot } from "./slots.ts";

export type StepEventType =
  "step_created" | "step_started" | "step_retrying" | "step_completed" | "step_failed";
export type StepEvent = { [T in StepEventType]: PlacedEventOf<T> }[StepEventType];

/** The last event is a retry that waits. */
export interface PendingRetry {
  /** Not before this time, epoch ms. */
  readonly retryAt: number;
  /** When it was recorded, epoch ms. */
  readonly recordedAt: number;
  /** The orchestrator moved it to the step's own message, so the re-send rule covers it. */
  readonly moved: boolean;
}

export interface StepState {
  readonly stepId: EntityId;
  readonly stepName: string;
  /** Who runs its next attempt: the orchestrator in place, or the step's own message. */
  readonly mode: "inline" | "background";
  /** Where its input stands. */
  readonly createdSlot: Slot;
  readonly createdAt: number;
  readonly starts: number;
  readonly interruptions: number;
  /** Of the first attempt, epoch ms. */
  readonly startedAt: number | null;
  /** Of its last creation, start or retry, epoch ms. */
  readonly activeAt: number;
  readonly retry: PendingRetry | null;
  readonly outcome: { readonly kind: "completed" | "failed"; readonly slot: Slot } | null;
}

const STEP_EVENT_TYPES: ReadonlySet<EventType> = new Set<StepEventType>([
  "step_created",
  "step_started",
  "step_retrying",
  "step_completed",
  "step_failed",
]);

export function isStepEvent(event: { readonly eventType: EventType }): event is StepEvent {
  return STEP_EVENT_TYPES.has(event.eventType);
}

/** Whether the event is the one that brings a step into being (spec: "What each event carries"). */
export function createsStep(event: StepEvent): boolean {
  if (event.eventType === "step_created") return true;
  return event.eventType === "step_started" && event.eventData.inline === true;
}

/** The state after `event`; null if the event is inert. */
export function stepAfter(state: StepState | null, event: StepEvent): StepState | null {
  if (state === null) return createsStep(event) ? newStep(event) : null;
  if (state.outcome !== null) return null;
  switch (event.eventType) {
    case "step_created":
      return null;
    case "step_started":
      return {
        ...state,
        starts: state.starts + 1,
        startedAt: state.startedAt ?? event.createdAt,
        activeAt: event.createdAt,
        retry: null,
      };
    case "step_retrying":
      return retrying(state, event);
    case "step_completed":
      return { ...state, retry: null, outcome: { kind: "completed", slot: event.slot } };
    case "step_failed":
      return { ...state, retry: null, outcome: { kind: "failed", slot: event.slot } };
    default:
      return assertNever(event);
  }
}

function newStep(event: StepEvent): StepState {
  const isStart = event.eventType === "step_started";
  const isInline = isStart || (event.eventType === "step_created" && event.eventData.inline);
  return {
    stepId: event.correlationId as EntityId,
    stepName: event.eventData.stepName,
    mode: isInline ? "inline" : "background",
    createdSlot: event.slot,
    createdAt: event.createdAt,
    starts: isStart ? 1 : 0,
    interruptions: 0,
    startedAt: isStart ? event.createdAt : null,
    activeAt: event.createdAt,
    retry: null,
    outcome: null,
  };
}

function retrying(state: StepState, event: PlacedEventOf<"step_retrying">): StepState {
  const moved = event.eventData.creatorMessageId !== undefined;
  return {
    ...state,
    mode: moved ? "background" : state.mode,
    interruptions: state.interruptions + (event.eventData.interrupted === true ? 1 : 0),
    activeAt: event.createdAt,
    retry: { retryAt: event.eventData.retryAfter, recordedAt: event.createdAt, moved },
  };
}

/** Attempts so far that count (E12). */
export function attemptsOf(step: StepState): number {
  return Math.max(0, step.starts - step.interruptions);
}
