/**
 * Inline steps: starting their bodies, recording what became of them, and running again what a
 * delivery before this one left open.
 *
 * Owns the in-band events of inline steps after their creation (spec: "Step ownership and data").
 *
 * E35  A body starts only once its start is committed.
 * E36  A retry moves to the step's own message for good: the orchestrator never runs it again.
 */
import { assert, assertNever, present } from "./assert.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { isPastMargin, nowMs } from "./delivery-state.ts";
import type { NewEvent, RunEvent } from "./events.ts";
import type { EntityId } from "./ids.ts";
import type { BodyStart, SettledBody } from "./inline-bodies.ts";
import type { Payload } from "./payload.ts";
import { batchesOf, newEvent } from "./plan.ts";
import type { StepTraits } from "./ports/steps.ts";
import { nextAttemptOf, verdictOf } from "./retry.ts";
import { attemptsOf, isStepEvent, stepAfter } from "./steps.ts";
import type { StepState } from "./steps.ts";
import type { Slot } from "./slots.ts";
import { take } from "./taking.ts";
import { deferUnregistered } from "./unregistered.ts";

/** What is known of a step's function; null if nothing here can run it. */
export async function traitsOf(state: DeliveryState, stepName: string): Promise<StepTraits | null> {
  const known = state.traits.get(stepName);
  if (known !== undefined) return known;
  const { deploymentId } = state.birth;
  const traits = await state.engine.parts.steps.traitsOf(state.run, deploymentId, stepName);
  state.traits.set(stepName, traits);
  return traits;
}

/** The steps of a batch as they are before its write: what its events are folded onto. */
type StatesBefore = ReadonlyMap<EntityId | null, StepState | null>;

function statesOf(state: DeliveryState, batch: readonly NewEvent[]): StatesBefore {
  return new Map(
    batch.map(({ correlationId: id }) => [
      id,
      id === null ? null : (state.log.steps.get(id) ?? null),
    ]),
  );
}

/** Runs the attempt that `step`'s last start began. */
export function startBody(
  state: DeliveryState,
  { step, input, runStart }: Pick<BodyStart, "step" | "runStart"> & { readonly input: Payload },
): void {
  const traits = state.traits.get(step.stepName);
  assert(traits !== undefined && traits !== null, "a step that is started can be run here");
  const { run, birth } = state;
  const attempt = attemptsOf(step);
  state.engine.parts.tenants.count(run.tenantId, { stepAttempts: 1 });
  state.bodies.start({
    step,
    maxRetries: traits.maxRetries,
    ...(runStart === undefined ? {} : { runStart }),
    attempt: {
      run,
      deploymentId: birth.deploymentId,
      workflowName: birth.workflowName,
      runStartedAt: birth.createdAt,
      stepId: step.stepId,
      stepName: step.stepName,
      input,
      attempt,
      isLast: attempt > traits.maxRetries,
      stepStartedAt: step.startedAt ?? nowMs(state),
    },
  });
}

/** Writes the outcomes of bodies that have ended; null: the pass goes on. */
export async function commitSettled(state: DeliveryState): Promise<Ending | null> {
  forgetTaken(state, () => false);
  const settled = new Map(state.bodies.settled.map((body) => [body.step.stepId, body]));
  const events = [...settled.values()].map((body) => outcomeEvent(state, body));
  for (const batch of batchesOf(events)) {
    const before = statesOf(state, batch);
    const result = await state.writer.createBatch(batch);
    if (result.kind === "committed") noteOutcomes(state, before, result.events);
    const next = take(state, result);
    if (next !== "go on") return next;
  }
  return null;
}

/**
 * What a body says is dropped if another delivery has ended its step, or went on with it. `isAhead`:
 * the step's start, or its outcome, is this delivery's own and not in the log yet.
 */
export function forgetTaken(state: DeliveryState, isAhead: (stepId: EntityId) => boolean): void {
  for (const { step } of state.bodies.settled) {
    if (!isAhead(step.stepId) && !isStillOurs(state, step)) state.bodies.forget(step.stepId);
  }
}

/**
 * A delivery that lost its heap has loaded the log anew, and with it counts that the fence takes. If
 * another one went on with the step meanwhile, the outcome is that one's to write.
 */
function isStillOurs(state: DeliveryState, started: StepState): boolean {
  const step = state.log.steps.get(started.stepId);
  if (step === undefined || step.outcome !== null) return false;
  return step.mode === "inline" && step.starts === started.starts;
}

function noteOutcomes(
  state: DeliveryState,
  before: StatesBefore,
  committed: readonly RunEvent[],
): void {
  for (const event of committed) {
    if (!isStepEvent(event) || event.correlationId === null) continue;
    if (state.bodies.isFlushing(event.correlationId)) state.isFlushing = true;
    state.bodies.forget(event.correlationId);
    const step = stepAfter(before.get(event.correlationId) ?? null, event);
    if (step === null || event.eventType !== "step_retrying") continue;
    // An attempt that does not count leaves the number as it was, which looks like a first one.
    const more = step.interruptions > 0 ? { isResend: true as const } : {};
    state.owedSteps.set(step.stepId, { step, ...more });
  }
}

/** What a body's end is to the log. */
export function outcomeEvent(state: DeliveryState, body: SettledBody): NewEvent {
  const { stepId, stepName, interruptions } = body.step;
  const { attempt, isLast } = body.attempt;
  const { outcome, maxRetries } = body;
  const verdict = verdictOf({
    outcome,
    stepName,
    maxRetries,
    isLast,
    interruptions,
    nowMs: nowMs(state),
  });
  switch (verdict.kind) {
    case "completed":
      return newEvent("step_completed", stepId, { stepName, result: verdict.result });
    case "failed":
      return newEvent("step_failed", stepId, { stepName, error: verdict.error, attempt });
    case "retry":
      return newEvent("step_retrying", stepId, {
        stepName,
        attempt,
        error: verdict.error,
        retryAfter: verdict.retryAtMs,
        creatorMessageId: state.meta.messageId,
        ...(verdict.isInterrupted ? { interrupted: true as const } : {}),
      });
    default:
      return assertNever(verdict);
  }
}

/**
 * Inline steps that a delivery before this one started and left without an outcome: run again with
 * the next attempt, or failed if that is one too many.
 */
export async function rerunOpenSteps(state: DeliveryState): Promise<Ending | null> {
  const open = [...state.log.steps.values()].filter((step) => isLeftOpen(state, step));
  if (open.length === 0) return null;
  if (isPastMargin(state)) return state.bodies.runningCount > 0 ? null : { kind: "handoff" };
  const events: NewEvent[] = [];
  for (const step of open) {
    const traits = await traitsOf(state, step.stepName);
    if (traits === null) {
      const { stepName, createdAt } = step;
      const { logger, meta, run } = state;
      const { deliveryCount } = meta;
      const about = { tenantId: run.tenantId, stepName, createdAt, deliveryCount, logger };
      const afterMs = deferUnregistered(state.engine.parts, about);
      const reason = `nothing here can run step "${stepName}"`;
      return { kind: "deferred", reason, afterMs, counted: false };
    }
    events.push(nextEvent(step, traits.maxRetries));
  }
  for (const batch of batchesOf(events)) {
    const before = statesOf(state, batch);
    const result = await state.writer.createBatch(batch);
    if (result.kind === "committed") await startAgain(state, before, result.events);
    const next = take(state, result);
    if (next !== "go on") return next;
  }
  return null;
}

function isLeftOpen(state: DeliveryState, step: StepState): boolean {
  if (step.mode !== "inline" || step.outcome !== null) return false;
  if (state.bodies.has(step.stepId)) return false;
  // Created without a start: its arguments could not be encoded, and the plan fails it.
  return !state.report?.operations.some(
    (operation) =>
      operation.kind === "unserializable_step" && operation.correlationId === step.stepId,
  );
}

function nextEvent(step: StepState, maxRetries: number): NewEvent {
  const { stepId, stepName } = step;
  const next = nextAttemptOf(step, maxRetries);
  const { attempt } = next;
  if (next.kind === "start") return newEvent("step_started", stepId, { stepName, attempt });
  return newEvent("step_failed", stepId, { stepName, attempt, error: next.error });
}

async function startAgain(
  state: DeliveryState,
  before: StatesBefore,
  committed: readonly RunEvent[],
): Promise<void> {
  for (const event of committed) {
    if (!isStepEvent(event) || event.correlationId === null) continue;
    const step = stepAfter(before.get(event.correlationId) ?? null, event);
    if (step === null || step.outcome !== null) continue;
    startBody(state, { step, input: await inputAt(state, step.createdSlot) });
  }
}

/** The input that stands on a step's creation. */
async function inputAt(state: DeliveryState, slot: Slot): Promise<Payload> {
  const event = await state.store.events.get(state.run.runId, slot);
  const input =
    event?.eventType === "step_started" || event?.eventType === "step_created"
      ? event.eventData.input
      : undefined;
  return present(input, "a step's creation holds its input");
}
