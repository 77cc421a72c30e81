/**
 * Passes that run ahead: from the end of a body to the next body, without waiting for the writes
 * in between.
 *
 * Owns the loop: outcomes are handed to the guest at the slots they are to get, and new steps begin,
 * while ahead-writes.ts commits behind them; and what happens when it ends. It begins and ends with
 * nothing under way, so to the stages around it a stretch of run-ahead is one pass (spec:
 * "Run-ahead", "Turbo").
 *
 * E115 A heap that was told anything uncommitted is put away nowhere: a stretch ends with all of it
 *      committed where it was foreseen, or with a roll-back.
 * E116 A stop turns run-ahead off for the delivery; a displaced write alone does not.
 */
import { assert, present } from "./assert.ts";
import { armOwned } from "./arming.ts";
import { AheadWrites } from "./ahead-writes.ts";
import type { AheadStop } from "./ahead-writes.ts";
import { planOver, runnableOf } from "./committing.ts";
import { guestEventOf } from "./consume.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { isPastMargin, marginStartMs, nowMs } from "./delivery-state.ts";
import type { NewEvent, PlacedEvent, RunEvent } from "./events.ts";
import { dropHeap, noteQuiet, rollBack } from "./guest-pass.ts";
import { forgetTaken, outcomeEvent, startBody } from "./inline-steps.ts";
import {
  RUN_AHEAD_GROUP_EVENTS_MAX,
  RUN_AHEAD_IMAGE_EVENTS,
  RUN_AHEAD_STEPS_MAX,
} from "./limits.ts";
import { newHooksOf, newStepsOf } from "./plan.ts";
import { moverOf, sensitiveHooks } from "./run-ahead.ts";
import { stepAfter, isStepEvent } from "./steps.ts";
import { take } from "./taking.ts";
import { dueWaits, nextDueMs } from "./waits.ts";

/** One stretch. */
export interface Stretch {
  readonly writes: AheadWrites;
  /** How many outcomes may be uncommitted at once; 0: each is committed before the guest sees it. */
  readonly depth: number;
  /** Something was written, or waited for. */
  hasMoved: boolean;
}

export function stretchOf(state: DeliveryState, depth: number): Stretch {
  const { log, writer, run, bodies, progress } = state;
  const writes = new AheadWrites({
    writer,
    log,
    runId: run.runId,
    now: () => nowMs(state),
    runsHere: (stepId) => bodies.has(stepId),
    onCommitted: (events) => noteCommitted(state, events),
    onAnswer: () => progress.notify(),
  });
  return { writes, depth, hasMoved: false };
}

/** Runs ahead from where the guest stands, or not: the boundary is for the stages that wait. */
export async function runAhead(state: DeliveryState): Promise<Ending | "not now" | null> {
  const { operations } = present(state.report, "the guest stands somewhere");
  if (operations.some(({ kind }) => kind === "hook" || kind === "wait")) {
    // From now on the run has other writers, each of which wakes it (spec: "Turbo").
    state.ahead.isTurbo = false;
  }
  if (!mayBegin(state)) return "not now";
  const stretch = stretchOf(state, state.engine.parts.settings.runAheadDepth);
  const starts = await startsAt(state, stretch);
  if (starts === "leave" || (starts.length === 0 && state.bodies.count === 0)) return "not now";
  await armOwned(state);
  await keepImage(state);
  const ending = await lead(state, stretch);
  return ending === null && !stretch.hasMoved ? "not now" : ending;
}

/** Whether outcomes may run ahead by now, where a boundary allows it. */
export function mayRunAhead(state: DeliveryState): boolean {
  return state.engine.parts.settings.runAheadDepth > 0 && isOn(state);
}

function isOn(state: DeliveryState): boolean {
  if (state.ahead.isOff || state.engine.memory.runAhead.isOff) return false;
  return !state.isFlushing && !isPastMargin(state);
}

function mayBegin(state: DeliveryState): boolean {
  const { log, writer, feed, owedSteps, ahead } = state;
  // Without a depth, turbo alone lets bodies begin early; their outcomes are waited for.
  if (!mayRunAhead(state) && !(ahead.isTurbo && isOn(state))) return false;
  if (owedSteps.size > 0) return false;
  if (writer.isBehind || writer.stop !== null || log.unconsumed.length > 0) return false;
  if (feed.hasNews) return false;
  return state.heap !== null && !shouldLeave(state);
}

/** The newest image that a stop can go back to, while nothing uncommitted was told (E115). */
async function keepImage(state: DeliveryState): Promise<void> {
  const { heap, log, ahead } = state;
  const newest = ahead.image?.image.slot ?? state.snapshotSlot;
  if (heap === null || log.topSlot - newest < RUN_AHEAD_IMAGE_EVENTS) return;
  assert(heap.consumedSlot <= log.topSlot, "no image holds what is not committed");
  const image = await heap.snapshot({ slot: log.topSlot, digest: log.digest });
  if (image !== null) ahead.image = { image, folded: log.fold() };
}

/** Goes on until something has to be committed first, or somebody else has a say. */
export async function lead(
  state: DeliveryState,
  stretch: Stretch,
  begin: () => Promise<void> = () => Promise.resolve(),
): Promise<Ending | null> {
  const { writes } = stretch;
  try {
    await begin();
    while (await goOn(state, stretch)) await nextNews(state, stretch);
  } catch (error) {
    writes.drop();
    await writes.idle();
    throw error;
  }
  return land(state, stretch);
}

/** Does what can be done now; false: the stretch ends. */
async function goOn(state: DeliveryState, stretch: Stretch): Promise<boolean> {
  const { writes } = stretch;
  for (;;) {
    if (hasEnded(state, stretch)) return false;
    const starts = await startsAt(state, stretch);
    if (starts === "leave" || hasEnded(state, stretch)) return false;
    for (const start of starts) startAhead(state, writes.push(start), stretch);
    stretch.hasMoved ||= starts.length > 0;
    writes.send();
    forgetTaken(state, (id) => writes.unstarted.has(id) || writes.hasOutcome(id));
    const [settled] = state.bodies.settled.filter(({ step }) => !writes.hasOutcome(step.stepId));
    if (settled === undefined) return state.bodies.runningCount > 0 || writes.isBusy;
    const event = outcomeEvent(state, settled);
    if (state.bodies.isFlushing(settled.step.stepId)) return false;
    if (stretch.depth === 0 || event.eventType === "step_retrying") return false;
    if (writes.outcomeCount >= stretch.depth) return true;
    const { report, log } = state;
    writes.noteSensitive(sensitiveHooks(present(report, "the guest stands somewhere"), log));
    writes.push(event);
    stretch.hasMoved = true;
    writes.send();
    if (!(await tellGuest(state, stretch))) return false;
  }
}

function hasEnded(state: DeliveryState, { writes }: Stretch): boolean {
  if (writes.stop !== null || writes.isDisplaced || state.heap === null) return true;
  if (writes.startCount >= RUN_AHEAD_STEPS_MAX) return true;
  // While a write is under way its echo may be all the news; what else landed is in its answer.
  if (!writes.isBusy && state.feed.hasNews) return true;
  return shouldLeave(state);
}

function shouldLeave(state: DeliveryState): boolean {
  if (state.log.isOver || isPastMargin(state)) return true;
  return dueWaits(state.log.waits.values(), nowMs(state)).length > 0;
}

/** What the guest asks for where it stands, if all of it may begin at once. */
async function startsAt(
  state: DeliveryState,
  { writes }: Stretch,
): Promise<readonly NewEvent[] | "leave"> {
  const { log, bodies, deadlineMs } = state;
  const boundary = present(state.report, "the guest stands somewhere");
  const steps = writes.steps();
  const runsHere = bodies.has.bind(bodies);
  if (boundary.completion !== null) return "leave";
  if (moverOf({ boundary, log, steps, runsHere, deadlineMs }) !== null) return "leave";
  if (newHooksOf(boundary.operations, log).length > 0) return "leave";
  const newSteps = newStepsOf(boundary.operations, { steps });
  const runnableHere = await runnableOf(state, newSteps);
  const { waits, hooks, attributes } = log;
  const plan = await planOver(state, { steps, waits, hooks, attributes }, runnableHere);
  if (plan.eventCount === 0) return [];
  const [batch] = plan.batches;
  if (batch === undefined || batch.length < plan.eventCount) return "leave";
  return mayAllStart(state, writes, batch) ? batch : "leave";
}

function mayAllStart(
  state: DeliveryState,
  writes: AheadWrites,
  batch: readonly NewEvent[],
): boolean {
  if (batch.length > RUN_AHEAD_GROUP_EVENTS_MAX) return false;
  if (!state.engine.parts.settings.optimisticInlineStart) return false;
  // A delivery that comes again has met trouble, which may meet these starts too.
  if (state.meta.attempt > 1) return false;
  if (crossesCap(state, writes.topSlot + batch.length)) return false;
  return batch.every(
    (event) =>
      event.eventType === "step_started" &&
      state.traits.get(event.eventData.stepName)?.maxRetries !== 0,
  );
}

/** Whether so many events are for the stage that warns and fails at the caps. */
function crossesCap({ limits, loadedSlot }: DeliveryState, count: number): boolean {
  const { eventsMax, eventsWarn } = limits;
  if (eventsMax !== null && count > eventsMax) return true;
  return eventsWarn !== null && loadedSlot < eventsWarn && count >= eventsWarn;
}

function startAhead(state: DeliveryState, placed: PlacedEvent, { writes }: Stretch): void {
  assert(placed.eventType === "step_started", "only starts run ahead");
  const step = isStepEvent(placed) ? stepAfter(null, placed) : null;
  startBody(state, {
    step: present(step, "a start brings its step"),
    input: present(placed.eventData.input, "a first start carries its input"),
    ...(state.log.run.kind === "absent" ? { runStart: writes.firstCommit } : {}),
  });
}

/** Tells the guest of all that is placed; false: the heap is gone. */
export async function tellGuest(state: DeliveryState, { writes }: Stretch): Promise<boolean> {
  const untold = writes.takeUntold();
  const upTo = present(untold.at(-1), "there is something to tell").slot;
  const heap = present(state.heap, "the heap is open");
  const result = await heap.pass(untold.map((event) => guestEventOf(event)));
  state.counts.passes += 1;
  if (result.kind !== "quiet") {
    // What is wrong is found again, and decided, once all of it is committed.
    if (result.kind === "lost") state.counts.lostHeaps += 1;
    else state.ahead.isOff = true;
    state.logger.warn({ pass: result.kind }, "a heap ended while it ran ahead");
    dropHeap(state);
    return false;
  }
  noteQuiet(state, result);
  writes.noteTold(upTo);
  return true;
}

async function nextNews(state: DeliveryState, stretch: Stretch): Promise<void> {
  stretch.hasMoved = true;
  // Only hints come from the feed here, so nothing waits for it to open.
  if (!stretch.writes.isBusy) void state.feed.start(state.log.topSlot);
  const due = nextDueMs(state.log.waits.values());
  await state.progress.wait(Math.min(marginStartMs(state), due ?? Infinity));
}

function noteCommitted(state: DeliveryState, events: readonly RunEvent[]): void {
  state.feed.advance(state.log.topSlot);
  for (const event of events) {
    const isEnd = event.eventType === "step_completed" || event.eventType === "step_failed";
    if (isEnd && event.correlationId !== null) state.bodies.forget(event.correlationId);
  }
}

/** Lets what was decided commit, and goes back where what was told did not come true. */
async function land(state: DeliveryState, { writes }: Stretch): Promise<Ending | null> {
  await writes.idle();
  const { stop } = writes;
  if (stop !== null) {
    const ending = meetStop(state, stop);
    if (ending !== null) return ending;
  }
  if (stop === null && !writes.isDisplaced && state.heap !== null) return null;
  // Their starts are not in the log, so they are asked for again.
  await state.bodies.discard(writes.unstarted);
  if (state.log.isOver) return null;
  state.counts.rollBacks += 1;
  await rollBack(state);
  return null;
}

function meetStop(state: DeliveryState, stop: AheadStop): Ending | null {
  const { ahead, engine, logger, log } = state;
  switch (stop.kind) {
    case "superseded":
    case "unknown":
      return stop;
    case "over":
    case "behind":
      return null;
    case "refused": {
      if (log.run.kind === "absent") return { kind: "start refused" };
      ahead.isOff = true;
      const next = take(state, stop.result);
      return next === "go on" ? null : next;
    }
    case "hazard": {
      ahead.isOff = true;
      const { slot, eventType, correlationId } = stop.event;
      logger.error(
        { slot, eventType, correlationId, possibleLogCorruption: true },
        "an event that nobody should have written landed below what ran ahead",
      );
      return null;
    }
    case "other time":
      engine.memory.runAhead.isOff = true;
      ahead.isOff = true;
      logger.warn({ slot: stop.event.slot }, "the World keeps other times; nothing runs ahead");
      return null;
    default:
      return stop satisfies never;
  }
}
