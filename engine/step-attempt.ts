/**
 * One attempt of a background step: its start, its body, its outcome.
 *
 * Owns the three out-of-band writes of an attempt and what each refusal of them means.
 *
 * E73  An outcome is written only behind a start that committed.
 * E74  A run that ends while a body runs tells it through its `AbortSignal`.
 * E75  A body with `maxRetries: 0` runs only behind the first start of its step.
 */
import { assertNever, present } from "./assert.ts";
import { isBatonError } from "./errors.ts";
import type { EventDataOf } from "./events.ts";
import { STEP_RUN_WATCH_MS, STEP_RUN_WATCH_MS_MAX } from "./limits.ts";
import { wakeOf } from "./owed.ts";
import type { Payload } from "./payload.ts";
import { newEvent } from "./plan.ts";
import type { StepOutcome, StepTraits } from "./ports/steps.ts";
import type { NextAttempt } from "./retry.ts";
import { STOPPING, outcomeOfCut, verdictOf } from "./retry.ts";
import type { Slot } from "./slots.ts";
import { accessOf } from "./step-access.ts";
import type { StepArrival, StepEnd } from "./step-delivery.ts";
import { readStep } from "./step-reads.ts";
import { attemptsOf } from "./steps.ts";
import type { StepState } from "./steps.ts";

export interface AttemptPlan {
  readonly traits: StepTraits;
  /** Null on a plain first delivery, which has read nothing. */
  readonly step: StepState | null;
  readonly next: Extract<NextAttempt, { kind: "start" }>;
}

export type AttemptResult =
  | { readonly kind: "ended"; readonly end: StepEnd }
  /** The World knows more of the step than this delivery: read it. */
  | { readonly kind: "read_again" };

/** How a start was answered. */
type Started =
  | { readonly kind: "started"; readonly atMs: number; readonly slot: Slot }
  | { readonly kind: "over" }
  | { readonly kind: "not_now"; readonly afterMs: number }
  | { readonly kind: "known_otherwise" };

export async function runAttempt(arrival: StepArrival, plan: AttemptPlan): Promise<AttemptResult> {
  const { clock, tenants, settings } = arrival.engine.parts;
  const isPlainFirst = plan.step === null;
  const isEarly = settings.optimisticBackgroundStart && isPlainFirst && plan.traits.maxRetries > 0;
  const stop = new AbortController();
  // Before the start: an attempt that cannot be made does not count as one.
  const about = await readAbout(arrival);
  const run = (startedAtMs: number) => runBody(arrival, plan, { ...about, startedAtMs, stop });
  const early = isEarly ? run(clock.now()) : null;
  const started = await writeStart(arrival, plan).catch((error: unknown) => {
    stop.abort();
    throw error;
  });
  if (started.kind !== "started") {
    stop.abort();
    return refusedStart(started);
  }
  if (plan.traits.maxRetries === 0 && !(await isOnlyAttempt(arrival, plan, started.slot))) {
    return { kind: "ended", end: STARTED_ELSEWHERE };
  }
  tenants.count(arrival.run.tenantId, { stepAttempts: 1 });
  const end = await recordOutcome(arrival, plan, await (early ?? run(started.atMs)));
  return { kind: "ended", end };
}

const STARTED_ELSEWHERE: StepEnd = {
  outcome: "started elsewhere",
  result: { kind: "redeliver", afterMs: 1_000, counted: true },
};

/**
 * Starts are out-of-band, so two deliveries of one message whose lease lapsed may both write one.
 * Where a body must not run twice, the first of them by slot is the one that runs it, and none does
 * behind an outcome, where a start is inert and counts for nothing (E75).
 */
async function isOnlyAttempt(
  arrival: StepArrival,
  { next }: AttemptPlan,
  slot: Slot,
): Promise<boolean> {
  const step = await readStep(arrival, slot);
  if (step === null || step.outcome !== null) return false;
  return attemptsOf(step) === next.attempt;
}

async function writeStart(arrival: StepArrival, plan: AttemptPlan): Promise<Started> {
  const { stepId, stepName } = arrival.message;
  const { attempt } = plan.next;
  try {
    const { event } = await arrival.store.events.create(
      arrival.run.runId,
      newEvent("step_started", stepId, { stepName, attempt }),
    );
    return { kind: "started", atMs: event.createdAt, slot: event.slot };
  } catch (error) {
    if (isBatonError(error, "RUN_EXPIRED") || isBatonError(error, "RUN_NOT_FOUND")) {
      return { kind: "over" };
    }
    if (isBatonError(error, "THROTTLED")) {
      return { kind: "not_now", afterMs: error.details.retryAfterMs ?? 1_000 };
    }
    if (isBatonError(error, "ENTITY_CONFLICT")) return { kind: "known_otherwise" };
    throw error;
  }
}

function refusedStart(started: Exclude<Started, { kind: "started" }>): AttemptResult {
  switch (started.kind) {
    case "over":
      return { kind: "ended", end: { outcome: "run is over", result: { kind: "ack" } } };
    case "not_now": {
      const { afterMs } = started;
      const result = { kind: "redeliver", afterMs, counted: false } as const;
      return { kind: "ended", end: { outcome: "throttled", result } };
    }
    case "known_otherwise":
      return { kind: "read_again" };
    default:
      return assertNever(started);
  }
}

/** What a body is told besides its step's message. */
interface AboutAttempt {
  readonly workflowName: string;
  readonly runStartedAt: number;
  readonly input: Payload;
}

async function readAbout(arrival: StepArrival): Promise<AboutAttempt> {
  const row = present(await arrival.store.runs.get(arrival.run.runId), "a step's run exists");
  return {
    workflowName: row.workflowName,
    runStartedAt: row.createdAt,
    input: arrival.message.stepInput ?? (await readInput(arrival)),
  };
}

async function runBody(
  arrival: StepArrival,
  plan: AttemptPlan,
  about: AboutAttempt & { readonly startedAtMs: number; readonly stop: AbortController },
): Promise<StepOutcome> {
  const { run, message } = arrival;
  const unwatch = watchRun(arrival, about.stop);
  let isCut = false;
  const unlisten = arrival.engine.memory.stopping.listen({
    onCut: () => {
      if (plan.traits.maxRetries === 0) return;
      isCut = true;
      about.stop.abort(new Error(STOPPING));
    },
  });
  try {
    const attempt = {
      run,
      deploymentId: message.deploymentId,
      workflowName: about.workflowName,
      runStartedAt: about.runStartedAt,
      stepId: message.stepId,
      stepName: message.stepName,
      input: about.input,
      attempt: plan.next.attempt,
      isLast: plan.next.isLast,
      stepStartedAt: plan.step?.startedAt ?? about.startedAtMs,
      signal: about.stop.signal,
    };
    const access = accessOf(arrival.engine, attempt);
    const outcome = await arrival.engine.parts.steps.run({ ...attempt, access });
    return isCut ? outcomeOfCut(outcome) : outcome;
  } catch (error) {
    // A runner never rejects for what a body does, so this was not the body's doing.
    return { kind: "interrupted", reason: String(error) };
  } finally {
    unwatch();
    unlisten();
  }
}

/** Looks at the run now and then while a body runs, so that its end reaches the body (E74). */
function watchRun(arrival: StepArrival, stop: AbortController): () => void {
  const { clock } = arrival.engine.parts;
  let cancel = (): void => undefined;
  let isDone = false;
  let delayMs = STEP_RUN_WATCH_MS;
  const look = async (): Promise<void> => {
    const row = await arrival.store.runs.get(arrival.run.runId).catch(() => null);
    if (isDone) return;
    if (row !== null && row.completedAt !== null) {
      stop.abort();
      return;
    }
    delayMs = Math.min(delayMs * 2, STEP_RUN_WATCH_MS_MAX);
    cancel = clock.setTimer(delayMs, () => void look());
  };
  cancel = clock.setTimer(delayMs, () => void look());
  return () => {
    isDone = true;
    cancel();
  };
}

/** The input that its message does not carry, from the step's creation. */
async function readInput(arrival: StepArrival): Promise<Payload> {
  const correlationId = arrival.message.stepId;
  const page = await arrival.store.events.list(arrival.run.runId, { correlationId, limit: 1 });
  const [first] = page.events;
  const input =
    first?.eventType === "step_created" || first?.eventType === "step_started"
      ? first.eventData.input
      : undefined;
  return present(input, "a step's creation holds its input");
}

async function recordOutcome(
  arrival: StepArrival,
  plan: AttemptPlan,
  outcome: StepOutcome,
): Promise<StepEnd> {
  const { clock } = arrival.engine.parts;
  const { stepName } = arrival.message;
  const { attempt, isLast } = plan.next;
  const verdict = verdictOf({
    outcome,
    stepName,
    maxRetries: plan.traits.maxRetries,
    isLast,
    interruptions: plan.step?.interruptions ?? 0,
    nowMs: clock.now(),
  });
  switch (verdict.kind) {
    case "completed":
      return writeOutcome(arrival, {
        eventType: "step_completed",
        eventData: { stepName, result: verdict.result },
      });
    case "failed":
      return writeOutcome(arrival, {
        eventType: "step_failed",
        eventData: { stepName, error: verdict.error, attempt },
      });
    case "retry":
      return writeRetry(arrival, {
        stepName,
        attempt,
        error: verdict.error,
        retryAfter: verdict.retryAtMs,
        ...(verdict.isInterrupted ? { interrupted: true as const } : {}),
      });
    default:
      return assertNever(verdict);
  }
}

export type OutcomeEvent =
  | { readonly eventType: "step_completed"; readonly eventData: EventDataOf<"step_completed"> }
  | { readonly eventType: "step_failed"; readonly eventData: EventDataOf<"step_failed"> };

/** The outcome and the wake it implies, both or neither; then the message is done. */
export async function writeOutcome(arrival: StepArrival, event: OutcomeEvent): Promise<StepEnd> {
  const { run, message } = arrival;
  const wake = wakeOf(run);
  const result = { kind: "ack" } as const;
  try {
    await arrival.store.events.create(
      run.runId,
      newEvent(event.eventType, message.stepId, event.eventData),
      { send: wake },
    );
    return { outcome: event.eventType, result };
  } catch (error) {
    if (isBatonError(error, "RUN_NOT_FOUND")) return { outcome: "no such run", result };
    if (!isBatonError(error, "ENTITY_CONFLICT") && !isBatonError(error, "RUN_EXPIRED")) throw error;
    // Another owner's outcome came first; the wake for it may have been lost.
    await arrival.engine.parts.world.queue.send(wake.message, wake.options);
    return { outcome: "another outcome came first", result };
  }
}

async function writeRetry(
  arrival: StepArrival,
  data: EventDataOf<"step_retrying">,
): Promise<StepEnd> {
  const { run, message } = arrival;
  try {
    await arrival.store.events.create(run.runId, newEvent("step_retrying", message.stepId, data));
  } catch (error) {
    if (!isBatonError(error, "RUN_EXPIRED") && !isBatonError(error, "ENTITY_CONFLICT")) throw error;
    return { outcome: "run or step is over", result: { kind: "ack" } };
  }
  const afterMs = Math.max(0, data.retryAfter - arrival.engine.parts.clock.now());
  const counted = data.interrupted !== true;
  return { outcome: "retries", result: { kind: "redeliver", afterMs, counted } };
}
