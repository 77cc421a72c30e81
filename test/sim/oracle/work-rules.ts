/**
 * What must hold of bodies, messages and answers: nothing acknowledged is lost, nothing is done
 * twice that must not be, and nothing of one tenant is seen under another. Pure.
 */
import type { RunEvent, RunEventOf } from "../../../engine/events.ts";
import { PAYLOAD_FIELDS } from "../../../engine/events.ts";
import type { TenantId } from "../../../engine/ids.ts";
import type { BodyRecord, FinalRun, Observation } from "../observation.ts";

export function bodyBreaches(run: FinalRun, observation: Observation): string[] {
  const breaches: string[] = [];
  const bodies = observation.bodies.filter(({ ref }) => ref.runId === run.record.ref.runId);
  const starts = countOf(run.events, "step_started");
  for (const event of run.events) {
    if (event.eventType !== "step_completed") continue;
    const own = bodies.filter(({ stepId }) => stepId === event.correlationId);
    if (!own.some(({ end }) => end === "completed")) {
      breaches.push(`step_completed at slot ${event.slot}, and no body of it came to its end`);
    }
  }
  for (const stepId of new Set(bodies.map((body) => body.stepId))) {
    const own = bodies.filter((body) => body.stepId === stepId);
    if (own[0]?.stepName === "once" && own.length > 1) {
      breaches.push(`${stepId} allows one attempt, and ${own.length} bodies of it began`);
    }
    // In place a body may begin ahead of its start, unless it may begin only once.
    const behindStarts =
      own[0]?.stepName === "once" ? own : own.filter((body) => isBackground(body, observation));
    if (behindStarts.length > (starts.get(stepId) ?? 0)) {
      breaches.push(
        `${behindStarts.length} bodies of ${stepId} began for ${starts.get(stepId) ?? 0} starts`,
      );
    }
  }
  return breaches;
}

/** Whether it began while its process held the step's own message. */
function isBackground(body: BodyRecord, { deliveries }: Observation): boolean {
  return deliveries.some(
    ({ message, owner, startedAtMs, answeredAtMs }) =>
      message.kind === "step" &&
      message.stepId === body.stepId &&
      owner === body.owner &&
      startedAtMs <= body.startedAtMs &&
      body.startedAtMs <= (answeredAtMs ?? Infinity),
  );
}

/** Before an orchestrator's delivery is acked, the messages of all that it created are in. */
export function owedBreaches(run: FinalRun, observation: Observation): string[] {
  const { runId } = run.record.ref;
  const breaches: string[] = [];
  const sentAt = new Map<string, number>();
  for (const { message, isStored, atMs } of observation.sends) {
    if (!isStored || message.runId !== runId || message.kind !== "step") continue;
    sentAt.set(message.stepId, Math.min(atMs, sentAt.get(message.stepId) ?? Infinity));
  }
  const ackedAt = new Map<string, number>();
  for (const { message, meta, answer, answeredAtMs } of observation.deliveries) {
    if (message.runId !== runId || message.kind !== "orchestrator") continue;
    if (answer?.kind !== "ack" || answeredAtMs === null) continue;
    ackedAt.set(meta.messageId, answeredAtMs);
  }
  for (const created of run.events) {
    if (created.eventType !== "step_created" || created.eventData.inline) continue;
    const creator = created.eventData.creatorMessageId ?? "";
    const acked = ackedAt.get(creator);
    if (acked === undefined || created.createdAt > acked) continue;
    // In the very millisecond of the ack it may be a delivery's that had lost its lease.
    if (created.createdAt === acked && outlivesAck(creator, acked, observation)) continue;
    const isSettled = run.events.some(
      (event) => isOutcome(event, created) && event.createdAt <= acked,
    );
    const sent = sentAt.get(created.correlationId ?? "") ?? Infinity;
    if (!isSettled && sent > acked && !isOverBy(run.events, acked)) {
      breaches.push(`step_created at slot ${created.slot} was acked before its message was sent`);
    }
  }
  return breaches;
}

/** Whether another delivery of the message was still at work when it was acked. */
function outlivesAck(messageId: string, ackedAtMs: number, { deliveries }: Observation): boolean {
  return deliveries.some(
    ({ meta, startedAtMs, answeredAtMs }) =>
      meta.messageId === messageId &&
      startedAtMs <= ackedAtMs &&
      (answeredAtMs ?? Infinity) > ackedAtMs,
  );
}

function isOutcome(event: RunEvent, { correlationId }: RunEventOf<"step_created">): boolean {
  const isEnd = event.eventType === "step_completed" || event.eventType === "step_failed";
  return isEnd && event.correlationId === correlationId;
}

function isOverBy(events: readonly RunEvent[], atMs: number): boolean {
  const ends = new Set(["run_completed", "run_failed", "run_cancelled"]);
  return events.some((event) => ends.has(event.eventType) && event.createdAt <= atMs);
}

/** What a client was told has happened. */
export function acknowledgedBreaches({ record, events }: FinalRun): string[] {
  const breaches: string[] = [];
  if (record.isAcknowledged && events.length === 0) breaches.push("an acknowledged start is lost");
  const ends = ["run_completed", "run_failed", "run_cancelled"];
  const isOver = events.some(({ eventType }) => ends.includes(eventType));
  if (record.cancelAcknowledged && !isOver) breaches.push("an acknowledged cancellation is lost");
  return breaches;
}

/** Sends and deliveries grow with the work, not with its square. */
export function amountBreaches(observation: Observation): string[] {
  const events = observation.runs.reduce((sum, run) => sum + run.events.length, 0);
  const faults = [...observation.faults.values()].reduce((sum, count) => sum + count, 0);
  const hops = observation.runs.flatMap((run) => run.events).reduce((sum, e) => sum + hopsOf(e), 0);
  const work = events + faults + hops + observation.runs.length;
  const breaches: string[] = [];
  const { sends, deliveries } = observation;
  if (sends.length > SENDS_PER_WORK * work + ALLOWANCE) {
    breaches.push(`${sends.length} messages were sent for ${events} events and ${faults} faults`);
  }
  if (deliveries.length > DELIVERIES_PER_WORK * work + ALLOWANCE) {
    breaches.push(`${deliveries.length} deliveries for ${events} events and ${faults} faults`);
  }
  return breaches;
}

/** Messages that one long sleep takes, since a queue delay is at most 23 hours. */
function hopsOf(event: RunEvent): number {
  if (event.eventType !== "wait_created") return 0;
  return Math.max(0, Math.ceil((event.eventData.resumeAt - event.createdAt) / HOP_MS));
}

const HOP_MS = 82_800_000;
/** Far above what any schedule needs (a wake, a timer and a re-send for each event), far below a
 * square. */
const SENDS_PER_WORK = 4;
const DELIVERIES_PER_WORK = 4;
const ALLOWANCE = 100;

/** No byte of one tenant under another. */
export function wallBreaches(observation: Observation): string[] {
  const breaches: string[] = [];
  const owners = new Map(observation.runs.map(({ record }) => [record.ref.runId, record.ref]));
  for (const { record, events } of observation.runs) {
    const strangers = othersOf(observation, record.ref.tenantId);
    for (const event of events) {
      const text = textOfPayloads(event);
      if (strangers.some((canary) => text.includes(canary))) {
        breaches.push(`${record.ref.runId} slot ${event.slot} holds another tenant's bytes`);
      }
    }
  }
  for (const { message } of observation.sends) {
    if (owners.get(message.runId)?.tenantId !== message.tenantId) {
      breaches.push(`a message names ${message.runId} under ${message.tenantId}`);
    }
  }
  for (const { ref, canary, stepId } of observation.bodies) {
    if (canary !== observation.canaries.get(ref.tenantId)) {
      breaches.push(`the body of ${stepId} of ${ref.tenantId} was given ${canary}`);
    }
  }
  return breaches;
}

function othersOf({ canaries }: Observation, tenantId: TenantId): string[] {
  return [...canaries].filter(([id]) => id !== tenantId).map(([, canary]) => canary);
}

const latin1 = new TextDecoder("latin1");

function textOfPayloads(event: RunEvent): string {
  const data = event.eventData as Readonly<Record<string, unknown>>;
  const fields = PAYLOAD_FIELDS[event.eventType] ?? [];
  return fields
    .map((field) => data[field])
    .map((payload) => (payload instanceof Uint8Array ? latin1.decode(payload) : ""))
    .join(" ");
}

function countOf(events: readonly RunEvent[], eventType: RunEvent["eventType"]) {
  const counts = new Map<string, number>();
  for (const event of events) {
    if (event.eventType !== eventType || event.correlationId === null) continue;
    counts.set(event.correlationId, (counts.get(event.correlationId) ?? 0) + 1);
  }
  return counts;
}
