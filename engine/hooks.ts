/**
 * A hook's state, folded from its events.
 *
 * Owns the transitions of `hook_*` events. Pure.
 *
 * E15  A hook that met a conflict or was disposed is closed; any later event of it is inert.
 */
import { assertNever } from "./assert.ts";
import type { RunEventOf } from "./events.ts";
import type { EntityId } from "./ids.ts";
import type { Slot } from "./slots.ts";

export type HookEvent = {
  [T in "hook_created" | "hook_received" | "hook_conflict" | "hook_disposed"]: RunEventOf<T>;
}["hook_created" | "hook_received" | "hook_conflict" | "hook_disposed"];

export interface HookState {
  readonly hookId: EntityId;
  readonly tokenHash: string;
  /** The token stays taken after the run's end unless the hook is disposed of. */
  readonly isRetained: boolean;
  readonly createdSlot: Slot;
  /** When a payload last came, epoch ms. */
  readonly receivedAt: number | null;
  readonly closedSlot: Slot | null;
}

/** The state after `event`; null if the event is inert. */
export function hookAfter(state: HookState | null, event: HookEvent): HookState | null {
  switch (event.eventType) {
    case "hook_created":
      return state === null ? newHook(event) : null;
    case "hook_conflict":
      // The World answers a creation with a conflict in its place, so there may be no hook yet.
      if (state === null) return { ...conflicted(event), closedSlot: event.slot };
      return state.closedSlot === null ? { ...state, closedSlot: event.slot } : null;
    case "hook_received":
      if (state === null || state.closedSlot !== null) return null;
      return { ...state, receivedAt: event.createdAt };
    case "hook_disposed":
      if (state === null || state.closedSlot !== null) return null;
      return { ...state, closedSlot: event.slot };
    default:
      return assertNever(event);
  }
}

function newHook(event: RunEventOf<"hook_created">): HookState {
  return {
    hookId: event.correlationId as EntityId,
    tokenHash: event.eventData.tokenHash,
    isRetained: event.eventData.tokenRetentionUntil !== undefined,
    createdSlot: event.slot,
    receivedAt: null,
    closedSlot: null,
  };
}

function conflicted(event: RunEventOf<"hook_conflict">): HookState {
  return {
    hookId: event.correlationId as EntityId,
    tokenHash: event.eventData.tokenHash,
    isRetained: false,
    createdSlot: event.slot,
    receivedAt: null,
    closedSlot: null,
  };
}
