/**
 * How events fold into a run's row, and what a run and an item of a write start as. Pure.
 *
 * Owns no rule about who may write; `append.ts` does.
 */
import type { NewEvent, NewEventOf } from "../engine/events.ts";
import type { EntityId, RunId, TenantId } from "../engine/ids.ts";
import type { AppendItem } from "./append.ts";
import { statusAfter } from "./append.ts";
import { EMPTY_DIGEST, encodeBody, plainDataOf } from "./event-record.ts";
import type { HookRecord, RunRecord, TokenRecord } from "./tables.ts";

/** How an event changes the fields of its run's row. */
export function runChange(run: RunRecord, item: AppendItem, at: number): Partial<RunRecord> {
  if (item.eventType === "attr_set") return { attributes: withChanges(run, item) };
  const status = statusAfter(run.status, item.eventType);
  if (status === null) return {};
  if (status === "running") return { status, startedAt: run.startedAt ?? at };
  return { status, completedAt: at };
}

function withChanges(run: RunRecord, item: AppendItem): RunRecord["attributes"] {
  const attributes = new Map(Object.entries(run.attributes));
  const changes = item.plain["changes"] as NewEventOf<"attr_set">["eventData"]["changes"];
  for (const { key, value } of changes) {
    if (value === null) attributes.delete(key);
    else attributes.set(key, value);
  }
  return Object.fromEntries(attributes);
}

export function newRun(tenantId: TenantId, runId: RunId, item: AppendItem, now: number): RunRecord {
  return {
    key: 0,
    tenantId,
    runId,
    specVersion: item.specVersion,
    status: "pending",
    workflowName: item.plain["workflowName"] as string,
    deploymentId: item.plain["deploymentId"] as string,
    attributes: (item.plain["attributes"] ?? {}) as RunRecord["attributes"],
    createdAt: now,
    startedAt: null,
    completedAt: null,
    seq: 0,
    seqInBand: 0,
    bytes: 0,
    digest: EMPTY_DIGEST,
    parked: null,
  };
}

export function itemOf(event: NewEvent): AppendItem {
  const plain = plainDataOf(event);
  return {
    eventType: event.eventType,
    correlationId: event.correlationId,
    specVersion: event.specVersion,
    occurredAt: event.occurredAt ?? null,
    plain,
    body: encodeBody(event, plain),
  };
}

/** What stands in the log instead of a hook whose token is taken. */
export function conflictItem(item: AppendItem, conflictingRunId: RunId): AppendItem {
  const conflict = itemOf({
    eventType: "hook_conflict",
    eventData: { tokenHash: item.plain["tokenHash"] as string, conflictingRunId },
    correlationId: item.correlationId as EntityId,
    specVersion: item.specVersion,
  });
  return { ...conflict, occurredAt: item.occurredAt };
}

export function tokenOf(
  run: RunRecord,
  hook: HookRecord,
  reservedUntil: number | null,
): TokenRecord {
  const { tenantId, runId } = run;
  return { tenantId, tokenHash: hook.body.tokenHash, runId, hookId: hook.id, reservedUntil };
}
