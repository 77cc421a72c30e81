/**
 * What the queue's ledger keeps of a message, a delivery in flight and a consumer, and the small
 * rules of how one follows from the other. Pure.
 */
import type { RunRef } from "../engine/ids.ts";
import type { ConsumeOptions, DeliveryResult } from "../engine/ports/queue.ts";
import type { GateMessage } from "./run-gate.ts";
import type { MessageKind, MessageRow } from "./tables.ts";

/** Back-off after a rejection: doubles from the first, so that 48 attempts span hours. */
const BACKOFF_FIRST_MS = 1_000;
const BACKOFF_MAX_MS = 300_000;
/** What a delay that is no number becomes: long and counted, so never a loop. */
export const BAD_DELAY_MS = 900_000;

/** How a handler ended: what it answered, or that it rejected. */
export type Outcome = DeliveryResult | { readonly kind: "rejected" };

export interface ConsumerState {
  readonly consumerId: number;
  readonly options: ConsumeOptions;
  readonly isStopping: boolean;
  readonly inFlight: Readonly<Record<MessageKind, number>>;
}

export interface InFlight extends RunRef {
  readonly consumerId: number;
  readonly kind: MessageKind;
  readonly isGated: boolean;
  readonly deliveryCount: number;
  readonly invocationStartedAt: number;
}

export function freePlaces(
  { isStopping, options, inFlight }: ConsumerState,
  kind: MessageKind,
): number {
  if (isStopping) return 0;
  return (kind === "step" ? options.stepsMax : options.orchestratorsMax) - inFlight[kind];
}

/** Whether a tenant that holds so many deliveries of a kind may take one of the places that are free. */
export function hasShare(
  { perTenantMax, timesFreeMax }: ConsumeOptions,
  { held, free, ownMax }: { readonly held: number; readonly free: number; readonly ownMax: number },
): boolean {
  if (held >= ownMax || held >= (perTenantMax ?? Number.POSITIVE_INFINITY)) return false;
  return timesFreeMax === undefined || held < timesFreeMax * free;
}

export function flightOf(
  consumer: ConsumerState,
  { message, ...row }: MessageRow,
  isGated: boolean,
  now: number,
): InFlight {
  return {
    tenantId: message.tenantId,
    runId: message.runId,
    consumerId: consumer.consumerId,
    kind: message.kind,
    isGated,
    deliveryCount: row.deliveryCount,
    invocationStartedAt: now,
  };
}

export function claimed(row: MessageRow): MessageRow {
  return { ...row, isClaimed: true, deliveryCount: row.deliveryCount + 1 };
}

export function uncountedOnce(row: MessageRow): MessageRow {
  return { ...row, uncounted: row.uncounted + 1 };
}

export function gateMessage({ messageId, message }: MessageRow): GateMessage {
  const { recovery, waitContinuation } = message.kind === "orchestrator" ? message : {};
  return { messageId, recovery: recovery === true, timer: waitContinuation ?? null };
}

export function gateKey({ tenantId, runId }: RunRef): string {
  return `${tenantId}/${runId}`;
}

export function answerOf(outcome: Outcome): "ack" | "handoff" | "leave" {
  return outcome.kind === "ack" || outcome.kind === "handoff" ? outcome.kind : "leave";
}

export function backoffMs(row: MessageRow): number {
  const failures = Math.max(1, row.deliveryCount - row.uncounted);
  return Math.min(BACKOFF_FIRST_MS * 2 ** Math.min(failures - 1, 20), BACKOFF_MAX_MS);
}
