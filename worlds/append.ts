/**
 * The rules of an append, as pure decisions: given the run, what is known of the hook and its
 * token, and the write, accept it, refuse it, or say that the log holds it already.
 *
 * Owns the fence, the checks against a run that is over, batch order, and the life of hook tokens.
 * Allocates and stores nothing. Every World decides here.
 *
 * W2  The fence is decided before anything else a write does; a refusal writes and allocates
 *     nothing.
 * W3  An in-band write moves `seq` and `seqInBand` by what it allocates; an out-of-band write moves
 *     `seq` alone, and the fence never refuses it.
 * W7  A run that is over refuses what would start something new and keeps taking outcomes.
 * W9  Of the items of one entity in a batch, none commits behind a refused one.
 */
import { BatonError } from "../engine/errors.ts";
import type { EventType } from "../engine/events.ts";
import { REFUSED_ON_TERMINAL_RUN, RUN_TERMINAL_TYPES, SPEC_VERSION } from "../engine/events.ts";
import type { EntityId, RunId } from "../engine/ids.ts";
import type { RunStatus } from "../engine/ports/world.ts";
import type { Slot } from "../engine/slots.ts";
import type { PlainData } from "./event-record.ts";
import type { HookRecord, RunRecord, TokenRecord } from "./tables.ts";

/** What one event of a write says, without its payloads. */
export interface AppendItem {
  readonly eventType: EventType;
  readonly correlationId: EntityId | null;
  readonly specVersion: number;
  readonly occurredAt: number | null;
  readonly plain: PlainData;
  /** All of the event, as it is stored. */
  readonly body: Uint8Array;
}

export interface Fence {
  readonly inBand: boolean;
  readonly expectedSeqInBand: number | null;
  readonly eventCount: number | null;
}

/** What the log and the rows say about the item's entity. */
export interface Surroundings {
  /** The hook that the item names, if the run ever had it. */
  readonly hook: HookRecord | null;
  /** Who holds the token that a `hook_created` asks for. */
  readonly token: TokenRecord | null;
  /** The slot at which the same resume or request already stands. */
  readonly resumedAt: Slot | null;
  readonly now: number;
}

export type Verdict =
  | { readonly kind: "append" }
  /** The log holds it already; nothing is written. */
  | { readonly kind: "converge"; readonly slot: Slot }
  /** The token is taken: this stands in the log instead. */
  | { readonly kind: "conflict"; readonly conflictingRunId: RunId }
  /** Taken by force: the victim's hook is disposed first. */
  | { readonly kind: "claim"; readonly victim: TokenRecord }
  | { readonly kind: "refuse"; readonly error: BatonError };

export function isTerminal(status: RunStatus): boolean {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** Whether a write of this writer may go on at all. Null: it may. */
export function fenceRefusal(
  run: Pick<RunRecord, "seq" | "seqInBand">,
  fence: Fence,
): BatonError | null {
  if (!fence.inBand) return null;
  if (fence.expectedSeqInBand === null) {
    return new BatonError(
      "IN_BAND_COUNT_MISSING",
      "an in-band write carries the in-band count that it was decided from",
      { field: "expectedSeqInBand" },
    );
  }
  if (fence.expectedSeqInBand !== run.seqInBand) {
    return new BatonError("IN_BAND_SUPERSEDED", "another in-band writer has written since", {
      field: "expectedSeqInBand",
      used: fence.expectedSeqInBand,
      allowed: run.seqInBand,
    });
  }
  if (fence.eventCount !== null && fence.eventCount > run.seq) {
    return new BatonError("INVALID_ARGUMENT", "a decision is made against events that exist", {
      field: "eventCount",
      used: fence.eventCount,
      allowed: run.seq,
    });
  }
  return null;
}

/** Reads of a run that another version made stay possible; writes do not. */
export function versionRefusal(specVersion: number): BatonError | null {
  if (specVersion === SPEC_VERSION) return null;
  return new BatonError("RUN_NOT_SUPPORTED", "this build writes runs of its own version only", {
    field: "specVersion",
    used: specVersion,
    allowed: SPEC_VERSION,
  });
}

/** What becomes of one event of a write that passed the fence. */
export function verdictOn(
  run: RunRecord,
  item: AppendItem,
  fence: Fence,
  around: Surroundings,
): Verdict {
  if (around.resumedAt !== null) return { kind: "converge", slot: around.resumedAt };
  if (item.eventType === "run_created") {
    return refuse("ENTITY_CONFLICT", "a run is created once", { field: "runId" });
  }
  if (isTerminal(run.status) && REFUSED_ON_TERMINAL_RUN.has(item.eventType)) {
    return refuse("RUN_EXPIRED", "the run is over", { field: "eventType", used: item.eventType });
  }
  switch (item.eventType) {
    case "wait_completed":
      if (fence.inBand) return { kind: "append" };
      return refuse("WAIT_COMPLETION_IN_BAND_ONLY", "only the orchestrator completes a wait", {
        field: "inBand",
      });
    case "hook_created":
      return verdictOnCreation(run, item, around);
    case "hook_received":
      return verdictOnPayload(around.hook);
    case "hook_disposed":
      if (around.hook !== null) return { kind: "append" };
      return refuse("ENTITY_CONFLICT", "a hook is disposed after it was created", {
        field: "correlationId",
      });
    case "hook_conflict":
      return refuse("INVALID_ARGUMENT", "only a World writes hook_conflict", {
        field: "eventType",
      });
    default:
      return { kind: "append" };
  }
}

function verdictOnCreation(run: RunRecord, item: AppendItem, around: Surroundings): Verdict {
  const { hook, token } = around;
  if (hook !== null) {
    if (hook.body.tokenHash === item.plain["tokenHash"]) {
      return { kind: "converge", slot: hook.slot };
    }
    return refuse("ENTITY_CONFLICT", "a hook keeps the token it was created with", {
      field: "tokenHash",
    });
  }
  // On a run that is over the event is inert: it must not take a token that nobody would release.
  if (isTerminal(run.status) || token === null || isFree(token, around.now)) {
    return { kind: "append" };
  }
  if (item.plain["force"] === true && token.runId !== run.runId) {
    return { kind: "claim", victim: token };
  }
  return { kind: "conflict", conflictingRunId: token.runId };
}

function verdictOnPayload(hook: HookRecord | null): Verdict {
  if (hook?.body.status === "open") return { kind: "append" };
  const forceClaimedBy = hook?.body.forceClaimedBy ?? null;
  return refuse("HOOK_NOT_FOUND", "the run has no open hook of this id", {
    field: "correlationId",
    ...(forceClaimedBy === null ? {} : { forceClaimedBy }),
  });
}

/** A token whose hook is closed stays taken only for as long as was asked. */
function isFree(token: TokenRecord, now: number): boolean {
  return token.reservedUntil !== null && token.reservedUntil <= now;
}

/** What an item of a batch gets when an earlier one of its entity was refused. */
export function earlierItemRefusal(correlationId: EntityId): BatonError {
  return new BatonError(
    "BATCH_EARLIER_ITEM_FAILED",
    "an earlier item of this entity was refused in the same batch",
    { field: "correlationId", used: correlationId },
  );
}

/** The status that an event gives a run; null: it stays as it is. The first terminal event counts. */
export function statusAfter(status: RunStatus, eventType: EventType): RunStatus | null {
  if (isTerminal(status)) return null;
  if (eventType === "run_started") return "running";
  if (!RUN_TERMINAL_TYPES.has(eventType)) return null;
  return eventType.slice("run_".length) as RunStatus;
}

function refuse(
  code: ConstructorParameters<typeof BatonError>[0],
  message: string,
  details: ConstructorParameters<typeof BatonError>[2],
): Verdict {
  return { kind: "refuse", error: new BatonError(code, message, details) };
}
