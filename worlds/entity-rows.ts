/**
 * How events fold into the rows of steps, waits and hooks. Pure.
 *
 * Owns what `steps.get`, `waits.list`, `openEntities` and the like answer. The rows are a view for
 * readers: no append is refused because of a step or a wait row.
 *
 * W10  An entity's first terminal event settles its row; later events of it change nothing.
 */
import type { EntityId, RunId } from "../engine/ids.ts";
import { entityKindOf } from "../engine/ids.ts";
import type { StepRow } from "../engine/ports/world.ts";
import type { Slot } from "../engine/slots.ts";
import type { AppendItem } from "./append.ts";
import type { EntityRecord, HookRecord, StepRecord, WaitRecord } from "./tables.ts";

export interface Placed {
  readonly slot: Slot;
  readonly createdAt: number;
}

/** The row after the event, or null if the event changes none. */
export function foldedEntity(
  record: EntityRecord | null,
  item: AppendItem,
  at: Placed,
): EntityRecord | null {
  const id = item.correlationId;
  if (id === null) return null;
  const kind = entityKindOf(id);
  if (kind === "step" && (record === null || record.kind === "step")) {
    return foldedStep(record, id, item, at);
  }
  if (kind === "wait" && (record === null || record.kind === "wait")) {
    return foldedWait(record, id, item, at);
  }
  if (kind === "hook" && record?.kind === "hook") return foldedHook(record, item);
  return null;
}

function foldedStep(
  record: StepRecord | null,
  id: EntityId,
  item: AppendItem,
  at: Placed,
): StepRecord | null {
  if (record !== null && !record.isOpen) return null;
  const before = record ?? newStep(id, item, at);
  const change = stepChange(before.body, item, at);
  if (change === null) return null;
  const body = { ...before.body, ...change };
  return { ...before, isOpen: body.completedAt === null, body };
}

function newStep(id: EntityId, item: AppendItem, at: Placed): StepRecord {
  const body: StepRecord["body"] = {
    stepName: textOf(item.plain["stepName"]),
    status: "pending",
    inline: item.plain["inline"] === true,
    attempt: 0,
    createdAt: at.createdAt,
    startedAt: null,
    completedAt: null,
    retryAfter: null,
  };
  return { kind: "step", id, slot: at.slot, isOpen: true, body };
}

function stepChange(
  before: StepRecord["body"],
  { eventType, plain }: AppendItem,
  at: Placed,
): Partial<Omit<StepRow, "stepId">> | null {
  switch (eventType) {
    case "step_created":
      return {};
    case "step_started":
      return {
        status: "running",
        attempt: Math.max(before.attempt, numberOf(plain["attempt"])),
        startedAt: before.startedAt ?? at.createdAt,
        retryAfter: null,
      };
    case "step_retrying":
      return {
        status: "retrying",
        attempt: Math.max(before.attempt, numberOf(plain["attempt"])),
        retryAfter: numberOf(plain["retryAfter"]),
      };
    case "step_completed":
      return { status: "completed", completedAt: at.createdAt, retryAfter: null };
    case "step_failed":
      return { status: "failed", completedAt: at.createdAt, retryAfter: null };
    default:
      return null;
  }
}

function foldedWait(
  record: WaitRecord | null,
  id: EntityId,
  { eventType, plain }: AppendItem,
  at: Placed,
): WaitRecord | null {
  if (eventType === "wait_created" && record === null) {
    const resumeAt = numberOf(plain["resumeAt"]);
    const body: WaitRecord["body"] = {
      status: "waiting",
      resumeAt,
      createdAt: at.createdAt,
      completedAt: null,
    };
    return { kind: "wait", id, slot: at.slot, isOpen: true, body };
  }
  if (eventType !== "wait_completed" || record === null || !record.isOpen) return null;
  const body = { ...record.body, status: "completed" as const, completedAt: at.createdAt };
  return { ...record, isOpen: false, body };
}

function foldedHook(record: HookRecord, { eventType, plain }: AppendItem): HookRecord | null {
  if (eventType !== "hook_disposed" || !record.isOpen) return null;
  return closedHook(record, (plain["forceClaimedBy"] ?? null) as RunId | null);
}

export function closedHook(record: HookRecord, forceClaimedBy: RunId | null): HookRecord {
  return { ...record, isOpen: false, body: { ...record.body, status: "disposed", forceClaimedBy } };
}

/** The row of a hook whose creation stands in the log, as itself or as a conflict. */
export function newHook(
  item: AppendItem,
  at: Placed,
  status: HookRecord["body"]["status"],
  claimedFrom: RunId | null,
): HookRecord {
  const { plain } = item;
  return {
    kind: "hook",
    id: item.correlationId as EntityId,
    slot: at.slot,
    isOpen: status === "open",
    body: {
      tokenHash: textOf(plain["tokenHash"]),
      isWebhook: plain["isWebhook"] === true,
      isSystem: plain["isSystem"] === true,
      status,
      createdAt: at.createdAt,
      tokenRetentionUntil: (plain["tokenRetentionUntil"] ?? null) as number | null,
      claimedFrom,
      forceClaimedBy: null,
    },
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
