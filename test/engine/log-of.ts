/** Logs written by hand: each line one event, at the next slot. */
import type { EventDataOf, EventType, RunEvent } from "../../engine/events.ts";
import { entityIdOf, runIdOf, tenantIdOf } from "../../engine/ids.ts";
import type { EntityId, RunRef } from "../../engine/ids.ts";
import { RunLog } from "../../engine/log.ts";
import { eventIdOf, slotOf } from "../../engine/slots.ts";

export const T0 = 1_700_000_000_000;
export const RUN: RunRef = {
  tenantId: tenantIdOf("acme"),
  runId: runIdOf(`wrun_${"0".repeat(25)}1`),
};

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const textOf = (payload: Uint8Array): string => new TextDecoder().decode(payload);

/** An entity's id from a small number. */
export function idOf(kind: "step" | "wait" | "hook" | "attr", n: number): EntityId {
  return entityIdOf(`${kind}_${String(n).padStart(26, "0")}`);
}

export interface Line {
  readonly type: EventType;
  readonly id?: EntityId | null;
  readonly data?: Record<string, unknown>;
  readonly at?: number;
}

export function eventAt(slot: number, line: Line): RunEvent {
  const at = slotOf(slot);
  return {
    runId: RUN.runId,
    slot: at,
    eventId: eventIdOf(at),
    eventType: line.type,
    eventData: line.data ?? {},
    correlationId: line.id ?? null,
    createdAt: line.at ?? T0 + slot,
    specVersion: 9,
    digest: slot.toString(16).padStart(64, "0"),
  } as unknown as RunEvent;
}

export const created = (data: Partial<EventDataOf<"run_created">> = {}): Line => ({
  type: "run_created",
  data: {
    deploymentId: "b".repeat(64),
    workflowName: "main",
    input: bytes("input"),
    seed: new Uint8Array(32),
    ...data,
  },
});
export const started = (): Line => ({ type: "run_started" });

export const stepCreated = (n: number, data: Record<string, unknown> = {}): Line => ({
  type: "step_created",
  id: idOf("step", n),
  data: { stepName: "work", input: bytes("in"), inline: false, creatorMessageId: "m1", ...data },
});
export const inlineStarted = (n: number): Line => ({
  type: "step_started",
  id: idOf("step", n),
  data: { stepName: "work", attempt: 1, input: bytes("in"), inline: true },
});
export const stepStarted = (n: number, attempt = 1): Line => ({
  type: "step_started",
  id: idOf("step", n),
  data: { stepName: "work", attempt },
});
export const stepRetrying = (n: number, data: Record<string, unknown> = {}): Line => ({
  type: "step_retrying",
  id: idOf("step", n),
  data: { stepName: "work", attempt: 1, error: bytes("no"), retryAfter: T0 + 60_000, ...data },
});
export const stepCompleted = (n: number): Line => ({
  type: "step_completed",
  id: idOf("step", n),
  data: { stepName: "work", result: bytes(`result ${n}`) },
});
export const stepFailed = (n: number): Line => ({
  type: "step_failed",
  id: idOf("step", n),
  data: { stepName: "work", error: bytes(`error ${n}`) },
});
export const waitCreated = (n: number, resumeAt: number, chain = "m1"): Line => ({
  type: "wait_created",
  id: idOf("wait", n),
  data: { resumeAt, creatorMessageId: chain },
});
export const waitCompleted = (n: number): Line => ({ type: "wait_completed", id: idOf("wait", n) });
export const wakeRequested = (...waits: number[]): Line => ({
  type: "wake_requested",
  data: waits.length === 0 ? {} : { waitIds: waits.map((n) => idOf("wait", n)) },
});
export const hookCreated = (n: number, data: Record<string, unknown> = {}): Line => ({
  type: "hook_created",
  id: idOf("hook", n),
  data: { token: bytes("token"), tokenHash: "a".repeat(64), ...data },
});
export const hookReceived = (n: number): Line => ({
  type: "hook_received",
  id: idOf("hook", n),
  data: { payload: bytes("payload") },
});
export const hookConflict = (n: number): Line => ({
  type: "hook_conflict",
  id: idOf("hook", n),
  data: { tokenHash: "a".repeat(64), conflictingRunId: "wrun_other" },
});
export const hookDisposed = (n: number): Line => ({ type: "hook_disposed", id: idOf("hook", n) });
export const attrSet = (n: number | null, kind: "workflow" | "client" = "workflow"): Line => ({
  type: "attr_set",
  id: n === null ? null : idOf("attr", n),
  data: { changes: [{ key: "k", value: "v" }], writer: { kind } },
});

/** A log of these lines, from slot 1. */
export function logOf(...lines: readonly Line[]): RunLog {
  const log = new RunLog();
  grow(log, ...lines);
  return log;
}

export function grow(log: RunLog, ...lines: readonly Line[]): void {
  for (const line of lines) log.append(eventAt(log.topSlot + 1, line));
}
