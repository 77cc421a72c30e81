/**
 * Stages 4 and 5, plan and commit: what the guest asked for becomes fact, in order, or does not.
 *
 * Owns the order of a pass's writes: hooks and attributes one at a time, then creations in batches,
 * then the run's end. After each batch the bodies it created start and the messages it owes go out,
 * so that a fan-out runs while the rest of it commits (spec: "Fan-out").
 */
import { present } from "./assert.ts";
import { armBeforeCreation } from "./arming.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { isPastMargin, nowMs } from "./delivery-state.ts";
import type { NewEvent, RunEvent } from "./events.ts";
import { startBody, traitsOf } from "./inline-steps.ts";
import { errorPayload } from "./payload.ts";
import { inlineSlots, newHooksOf, newStepsOf, planOf } from "./plan.ts";
import type { Plan, PlannedLog } from "./plan.ts";
import { failRun } from "./run-ending.ts";
import { sendOwed } from "./owing.ts";
import { isStepEvent, stepAfter } from "./steps.ts";
import { take } from "./taking.ts";

/** Plans from the heap's last report and commits; null: the pass goes on. */
export async function decide(state: DeliveryState): Promise<Ending | null> {
  const { report, log } = state;
  const { operations, completion } = present(report, "a decision follows from a report");
  const runnableHere = await runnableOf(state, newStepsOf(operations, log));
  if (handsOffAtMargin(state, runnableHere.size > 0 && completion === null)) {
    return { kind: "handoff" };
  }
  const plan = await planOver(state, log, runnableHere);
  return (await failAtEventsCap(state, plan)) ?? commit(state, plan);
}

/** Names of steps whose bodies this process can run. */
export async function runnableOf(
  state: DeliveryState,
  steps: readonly { readonly stepName: string }[],
): Promise<ReadonlySet<string>> {
  const names = new Set(steps.map(({ stepName }) => stepName));
  await Promise.all([...names].map((name) => traitsOf(state, name)));
  return new Set([...names].filter((name) => state.traits.get(name) !== null));
}

/** What the heap's last report comes to over what `log` holds. */
export async function planOver(
  state: DeliveryState,
  log: PlannedLog,
  runnableHere: ReadonlySet<string>,
): Promise<Plan> {
  const { operations, completion } = present(state.report, "a plan follows from a report");
  const newHooks = newHooksOf(operations, log);
  return planOf({
    operations,
    completion,
    log,
    inlineSlots: inlineSlots({
      inlineStepsMax: state.engine.parts.settings.inlineStepsMax,
      openInlineSteps: openInlineSteps(log),
      isPastMargin: isPastMargin(state),
      awaitsConflict: newHooks.some((hook) => hook.awaitsConflict),
      isCompleting: completion !== null,
    }),
    runnableHere,
    tokenHashes: await hashed(state, newHooks),
    creatorMessageId: state.meta.messageId,
    nowMs: nowMs(state),
  });
}

/** Close to the deadline a step waits for the next invocation instead of taking a queue hop. */
function handsOffAtMargin(state: DeliveryState, wantsToRun: boolean): boolean {
  if (!wantsToRun || state.engine.parts.settings.inlineStepsMax === 0) return false;
  return isPastMargin(state) && state.bodies.runningCount === 0;
}

function openInlineSteps({ steps }: PlannedLog): number {
  let count = 0;
  for (const step of steps.values()) {
    if (step.mode === "inline" && step.outcome === null) count += 1;
  }
  return count;
}

async function hashed(
  state: DeliveryState,
  hooks: readonly { readonly token: string }[],
): Promise<ReadonlyMap<string, string>> {
  const { tenants } = state.engine.parts;
  const hashes = new Map<string, string>();
  for (const { token } of hooks) {
    hashes.set(token, await tenants.tokenHash(state.run.tenantId, token));
  }
  return hashes;
}

async function failAtEventsCap(state: DeliveryState, plan: Plan): Promise<Ending | null> {
  const { eventsMax, eventsWarn } = state.limits;
  const count = state.log.topSlot + plan.eventCount;
  const isCrossed = eventsWarn !== null && state.loadedSlot < eventsWarn && count >= eventsWarn;
  if (isCrossed && state.counts.eventWarnings === 0) {
    state.counts.eventWarnings = 1;
    state.logger.warn({ events: count, eventsMax }, "a run has written many events");
  }
  const isEnding = plan.ending !== null && plan.eventCount === 1;
  if (eventsMax === null || isEnding || count <= eventsMax) return null;
  return failRun(state, {
    errorCode: "MAX_EVENTS_EXCEEDED",
    error: errorPayload(
      "MaxEventsExceededError",
      `The run would come to ${count} events; its tenant allows ${eventsMax}`,
    ),
  });
}

async function commit(state: DeliveryState, plan: Plan): Promise<Ending | null> {
  for (const event of plan.singles) {
    const next = take(state, await state.writer.create(event));
    if (next !== "go on") return next;
  }
  await armBeforeCreation(state, plan.newWaits);
  for (const batch of plan.batches) {
    const result = await state.writer.createBatch(batch);
    if (result.kind === "committed") await act(state, batch, result.events);
    const next = take(state, result);
    if (next !== "go on") return next;
  }
  if (plan.ending === null || state.log.isOver) return null;
  const next = take(state, await state.writer.create(plan.ending));
  if (next !== "go on") return next;
  state.wroteEnding = true;
  return { kind: "over" };
}

/** Bodies start and messages go out for what is committed now, and for nothing else. */
async function act(
  state: DeliveryState,
  asked: readonly NewEvent[],
  committed: readonly RunEvent[],
): Promise<void> {
  const inputs = new Map(
    asked
      .filter((event) => event.eventType !== "step_failed")
      .map((event) => [event.correlationId, inputOf(event)]),
  );
  for (const event of committed) {
    if (event.correlationId === null) continue;
    const input = inputs.get(event.correlationId);
    const step = isStepEvent(event) ? stepAfter(null, event) : null;
    if (step === null || input === undefined) continue;
    if (event.eventType === "step_started") startBody(state, { step, input });
    // Inline, but without a start: what could not be encoded, and is failed already.
    else if (step.mode === "background") state.owedSteps.set(step.stepId, { step, input });
  }
  await sendOwed(state);
}

function inputOf(event: NewEvent): Uint8Array | undefined {
  if (event.eventType === "step_started") return event.eventData.input;
  return event.eventType === "step_created" ? event.eventData.input : undefined;
}
