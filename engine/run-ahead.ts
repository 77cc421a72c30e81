/**
 * Run-ahead: what may be done on the strength of an event that has no position yet.
 *
 * Owns which boundaries are inert, which events below an uncommitted one are hazards, and what an
 * uncommitted event looks like (spec: "Run-ahead"). A boundary is where the guest stands after a
 * pass. It is inert if nobody but this delivery can append an event that changes what the guest does
 * next; then the order of an outcome and of what lands below it cannot be told apart. Pure.
 *
 * E110 Only at an inert boundary is the guest told of an outcome before it commits.
 * E111 A body starts before its start commits only at an inert boundary, and never one with
 *      `maxRetries: 0`.
 */
import { eventIdOf } from "./slots.ts";
import type { Slot } from "./slots.ts";
import type { NewEvent, PlacedEvent, RunEvent } from "./events.ts";
import type { EntityId, RunId } from "./ids.ts";
import { CLOCK_SKEW_MS } from "./limits.ts";
import type { RunLog } from "./log.ts";
import type { PassResult } from "./ports/sandbox.ts";
import { isStepEvent } from "./steps.ts";
import type { StepState } from "./steps.ts";
import { nextDueMs } from "./waits.ts";

/** Where the guest stands. */
export type Boundary = Pick<
  Extract<PassResult, { kind: "quiet" }>,
  "operations" | "awaitedHooks" | "completion"
>;

export interface Surroundings {
  readonly boundary: Boundary;
  readonly log: Pick<RunLog, "waits" | "hooks">;
  /** As they will be once what is under way has committed. */
  readonly steps: ReadonlyMap<EntityId, StepState>;
  /** Whether this delivery runs that step's body, or has its outcome at hand. */
  readonly runsHere: (stepId: EntityId) => boolean;
  /** When the invocation ends, epoch ms. */
  readonly deadlineMs: number;
}

/** Who else could move the guest from where it stands; null: the boundary is inert. */
export type Mover = "hook" | "step elsewhere" | "wait";

export function moverOf(around: Surroundings): Mover | null {
  if (sensitiveHooks(around.boundary, around.log).size > 0) return "hook";
  for (const step of around.steps.values()) {
    if (step.outcome !== null) continue;
    if (step.mode === "background" || !around.runsHere(step.stepId)) return "step elsewhere";
  }
  const due = nextDueMs(around.log.waits.values());
  return due !== null && due <= around.deadlineMs + CLOCK_SKEW_MS ? "wait" : null;
}

/**
 * Hooks whose events the code would notice: those it waits on, for a payload or for a conflict,
 * those that abort signals stand for, and those that the log holds open and the heap does not know.
 */
export function sensitiveHooks(
  boundary: Boundary,
  log: Pick<RunLog, "hooks">,
): ReadonlySet<EntityId> {
  const sensitive = new Set(boundary.awaitedHooks);
  const known = new Set<EntityId>();
  for (const operation of boundary.operations) {
    if (operation.kind !== "hook") continue;
    known.add(operation.correlationId);
    if (operation.isSystem || operation.awaitsConflict) sensitive.add(operation.correlationId);
  }
  for (const hook of log.hooks.values()) {
    if (hook.closedSlot === null && !known.has(hook.hookId)) sensitive.add(hook.hookId);
  }
  return sensitive;
}

export interface HazardContext {
  /** Hooks that were sensitive at a boundary whose outcome is not committed. */
  readonly sensitive: ReadonlySet<EntityId>;
  readonly runsHere: (stepId: EntityId) => boolean;
}

/**
 * Whether an event of another writer, which landed below an uncommitted one of ours, could have
 * changed what was decided without it; inert ones could not. The classification rules these out, so one of them means a
 * writer that it does not know (spec: "Hazards").
 */
export function isHazard(event: RunEvent, context: HazardContext): boolean {
  const id = event.correlationId;
  switch (event.eventType) {
    case "hook_received":
    case "hook_disposed":
    case "hook_conflict":
      return id !== null && context.sensitive.has(id);
    case "wait_completed":
      return true;
    default:
      return isStepEvent(event) && id !== null && !context.runsHere(id);
  }
}

/** The event as the World will give it back, if nobody else appends first. */
export function placedEvent(
  event: NewEvent,
  at: { readonly runId: RunId; readonly slot: Slot; readonly nowMs: number },
): PlacedEvent {
  const { occurredAt: createdAt = at.nowMs, ...rest } = event;
  return { ...rest, runId: at.runId, slot: at.slot, eventId: eventIdOf(at.slot), createdAt };
}
