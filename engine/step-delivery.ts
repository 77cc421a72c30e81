/**
 * One delivery of a step's message (spec: "One delivery of a step message").
 *
 * Owns what a delivery does with its step before and after the body: it never replays the workflow,
 * and what it reads is that step's events and the run's row, however long the log is. Everything it
 * writes is out-of-band; an outcome is stored with the wake it implies, both or neither.
 *
 * E70  Any delivery but a plain first one reads before it runs anything.
 * E71  A body runs once its start is committed, except under the opt-in, which never covers a step
 *      with `maxRetries: 0`.
 * E72  The message is acknowledged only behind an outcome, or a run that is over.
 */
import { assertNever } from "./assert.ts";
import type { Engine } from "./parts.ts";
import type { DeliveryMeta, DeliveryResult, StepMessage } from "./ports/queue.ts";
import type { TenantStore } from "./ports/world.ts";
import type { RunRef } from "./ids.ts";
import { SPEC_VERSION } from "./events.ts";
import type { Log } from "./ports/host.ts";
import { SET_ASIDE_REDELIVERY_MS, STEP_STALL_MS } from "./limits.ts";
import { wakeOf } from "./owed.ts";
import { errorPayload } from "./payload.ts";
import type { Payload } from "./payload.ts";
import { nextAttemptOf } from "./retry.ts";
import type { NextAttempt } from "./retry.ts";
import { runAttempt, writeOutcome } from "./step-attempt.ts";
import { recoveryOf } from "./recovery.ts";
import { readStep } from "./step-reads.ts";
import { storageRefusal } from "./storage-quota.ts";
import type { StepState } from "./steps.ts";
import { deferUnregistered } from "./unregistered.ts";
import type { StepTraits } from "./ports/steps.ts";

/** What one step message is about. */
export interface StepArrival {
  readonly engine: Engine;
  readonly run: RunRef;
  readonly message: StepMessage;
  readonly meta: DeliveryMeta;
  readonly store: TenantStore;
  readonly logger: Log;
}

export type StepEnd = { readonly outcome: string; readonly result: DeliveryResult };

const ACK: DeliveryResult = { kind: "ack" };

export async function deliverStep(
  engine: Engine,
  message: StepMessage,
  meta: DeliveryMeta,
): Promise<DeliveryResult> {
  const { parts } = engine;
  const { tenantId, runId, stepId } = message;
  const { messageId, attempt, deliveryCount } = meta;
  const logger = parts.log.child({ tenantId, runId, stepId, messageId, attempt, deliveryCount });
  const store = parts.world.forTenant(tenantId);
  const startedAt = parts.clock.now();
  const arrival = { engine, run: { tenantId, runId }, message, meta, store, logger };
  const { outcome, result } = await handle(arrival);
  logger.info({ outcome, answer: result.kind, ms: parts.clock.now() - startedAt }, "step delivery");
  return result;
}

async function handle(arrival: StepArrival): Promise<StepEnd> {
  const { engine, message, run } = arrival;
  const { tenants, steps } = engine.parts;
  if (message.specVersion !== SPEC_VERSION) return later("version", SET_ASIDE_REDELIVERY_MS);
  const standing = await tenants.standingOf(run.tenantId);
  if (standing === null) return { outcome: "no such tenant", result: ACK };
  engine.memory.deliveries.heed(run.tenantId, standing.limits.deliveries);
  if (standing.status !== "active") return later("tenant not active", SET_ASIDE_REDELIVERY_MS);
  if (storageRefusal(standing, "running run") !== null) return hasNoRoom(arrival);
  const traits = await steps.traitsOf(run, message.deploymentId, message.stepName);
  if (traits === null) {
    const { stepName, stepCreatedAt: createdAt } = message;
    const { logger, meta } = arrival;
    const { deliveryCount } = meta;
    const about = { tenantId: run.tenantId, stepName, createdAt, deliveryCount, logger };
    return later("not registered here", deferUnregistered(engine.parts, about));
  }
  if (!isPlainFirst(arrival)) return decideFromLog(arrival, traits);
  const first = { kind: "start", attempt: 1, isLast: traits.maxRetries === 0 } as const;
  return attempt(arrival, { traits, step: null, next: first });
}

/** Its run fails at its next pass, which it is asked to make; until then the step waits. */
async function hasNoRoom({ engine, run, store }: StepArrival): Promise<StepEnd> {
  const row = await store.runs.get(run.runId);
  if (row === null || row.completedAt !== null) return { outcome: "run is over", result: ACK };
  await engine.parts.world.queue.send(recoveryOf(run).message);
  return later("no room", SET_ASIDE_REDELIVERY_MS);
}

/** Nobody's failure: the same message again, uncounted. */
function later(outcome: string, afterMs: number): StepEnd {
  return { outcome, result: { kind: "redeliver", afterMs, counted: false } };
}

/** The step's very first delivery: its message says all there is to know (E70). */
export function isPlainFirst({ message, meta }: Pick<StepArrival, "message" | "meta">): boolean {
  return meta.deliveryCount === 1 && message.stepAttempt === 1 && message.stepResent !== true;
}

async function decideFromLog(arrival: StepArrival, traits: StepTraits): Promise<StepEnd> {
  const step = await readStep(arrival);
  const row = await arrival.store.runs.get(arrival.run.runId);
  if (row === null || row.completedAt !== null) return { outcome: "run is over", result: ACK };
  // A message goes out only behind its step's creation, so this is a log without it for good.
  if (step === null) return { outcome: "no such step", result: ACK };
  const { clock, settings } = arrival.engine.parts;
  const seen = { step, traits, meta: arrival.meta, nowMs: clock.now() };
  const decision = decisionOf(seen, settings.queueDeliveriesMax);
  switch (decision.kind) {
    case "done":
      await wakeAgain(arrival);
      return { outcome: "has an outcome", result: ACK };
    case "early":
      return {
        outcome: "retry is not due",
        result: { kind: "redeliver", afterMs: decision.afterMs, counted: true },
      };
    case "fail":
      return writeOutcome(arrival, {
        eventType: "step_failed",
        eventData: {
          stepName: step.stepName,
          error: decision.error,
          attempt: decision.attempt,
        },
      });
    case "start":
      return attempt(arrival, { traits, step, next: decision.next });
    default:
      return assertNever(decision);
  }
}

export type StepDecision =
  | { readonly kind: "done" }
  | { readonly kind: "early"; readonly afterMs: number }
  | { readonly kind: "fail"; readonly error: Payload; readonly attempt: number }
  | { readonly kind: "start"; readonly next: Extract<NextAttempt, { kind: "start" }> };

/** What a delivery that read the log does with its step. Pure. */
export function decisionOf(
  seen: {
    readonly step: StepState;
    readonly traits: StepTraits;
    readonly meta: Pick<DeliveryMeta, "attempt">;
    readonly nowMs: number;
  },
  deliveriesMax: number,
): StepDecision {
  const { step, traits, nowMs } = seen;
  if (step.outcome !== null) return { kind: "done" };
  if (step.retry !== null && step.retry.retryAt > nowMs) {
    return { kind: "early", afterMs: step.retry.retryAt - nowMs };
  }
  const next = nextAttemptOf(step, traits.maxRetries);
  if (next.kind === "exhausted") {
    return { kind: "fail", error: next.error, attempt: next.attempt };
  }
  const isStalled = nowMs - lastActiveMs(step) >= STEP_STALL_MS;
  if (seen.meta.attempt > deliveriesMax && isStalled) {
    const text = `MAX_DELIVERIES_EXCEEDED: step "${step.stepName}" was delivered ${seen.meta.attempt} times without a start`;
    return { kind: "fail", error: errorPayload("FatalError", text), attempt: next.attempt };
  }
  return { kind: "start", next };
}

/** A retry that came due is activity: the wait for it was asked for. */
function lastActiveMs(step: StepState): number {
  return Math.max(step.activeAt, step.retry?.retryAt ?? 0);
}

async function attempt(
  arrival: StepArrival,
  how: {
    readonly traits: StepTraits;
    readonly step: StepState | null;
    readonly next: Extract<NextAttempt, { kind: "start" }>;
  },
): Promise<StepEnd> {
  const end = await runAttempt(arrival, how);
  if (end.kind === "ended") return end.end;
  // The World has more of the step than was known: what that is, its events say.
  return decideFromLog(arrival, how.traits);
}

/** The wake that its delivery may have died owing: nothing else moves the run on. */
async function wakeAgain(arrival: StepArrival): Promise<void> {
  const { message, options } = wakeOf(arrival.run);
  await arrival.engine.parts.world.queue.send(message, options);
}
