/**
 * A run's own state, folded from its log.
 *
 * Owns the transitions of `run_*` events. Pure.
 *
 * E10  A run's status follows its first terminal event by position; a later one is inert.
 */
import { assert } from "./assert.ts";
import { BatonError } from "./errors.ts";
import { RUN_TERMINAL_TYPES } from "./events.ts";
import type { EventType, RunEvent } from "./events.ts";
import type { Slot } from "./slots.ts";

/** The entry of a run's execution context that `RunBirth.webhookBaseUrl` is. */
export const WEBHOOK_BASE_URL = "webhookBaseUrl";

/** What `run_created` says, and what every heap of the run is opened with. */
export interface RunBirth {
  readonly workflowName: string;
  readonly deploymentId: string;
  readonly seed: Uint8Array;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly specVersion: number;
  /** Where addresses of the run's webhooks begin; null if they have none. */
  readonly webhookBaseUrl: string | null;
}

export type RunTerminal = "run_completed" | "run_failed" | "run_cancelled";

export type RunState =
  | { readonly kind: "absent" }
  | { readonly kind: "created"; readonly birth: RunBirth }
  | { readonly kind: "started"; readonly birth: RunBirth; readonly startedAt: number }
  | {
      readonly kind: "over";
      readonly birth: RunBirth;
      readonly startedAt: number | null;
      readonly by: RunTerminal;
      readonly slot: Slot;
    };

export const RUN_ABSENT: RunState = { kind: "absent" };

/** The state after `event`; the same state if the event changes nothing of the run's own. */
export function runAfter(state: RunState, event: RunEvent): RunState {
  if (event.eventType === "run_created") {
    if (state.kind !== "absent") throw corrupted(event, "a run is created once");
    const { workflowName, deploymentId, seed, executionContext } = event.eventData;
    const { createdAt, specVersion } = event;
    const webhookBaseUrl = executionContext?.[WEBHOOK_BASE_URL] ?? null;
    const birth = { workflowName, deploymentId, seed, createdAt, specVersion, webhookBaseUrl };
    return { kind: "created", birth };
  }
  if (state.kind === "absent") throw corrupted(event, "a log begins with `run_created`");
  if (state.kind === "over") return state;
  if (event.eventType === "run_started") {
    if (state.kind === "started") return state;
    return { kind: "started", birth: state.birth, startedAt: event.createdAt };
  }
  if (!isRunTerminal(event.eventType)) return state;
  const startedAt = state.kind === "started" ? state.startedAt : null;
  return { kind: "over", birth: state.birth, startedAt, by: event.eventType, slot: event.slot };
}

export function isRunTerminal(eventType: EventType): eventType is RunTerminal {
  return RUN_TERMINAL_TYPES.has(eventType);
}

/** An event that no writer of ours makes there. */
export function corrupted(event: RunEvent, rule: string): BatonError {
  return new BatonError("CORRUPTED_EVENT_LOG", `the log of a run is broken: ${rule}`, {
    field: event.eventType,
    used: event.slot,
  });
}

/** How the run was created; only of a run that was. */
export function birthOf(state: RunState): RunBirth {
  assert(state.kind !== "absent", "a run that is driven was created");
  return state.birth;
}
