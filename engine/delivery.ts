/**
 * One delivery of an orchestrator message: a run is driven from its log to its next rest.
 *
 * The stages of design §1, read top to bottom; each has a file of its own. Owns their order, and
 * what every delivery does whatever happens: the feed is closed, no body outlives it unnoticed, one
 * line says how it went.
 *
 * E60  See finishing.ts: nothing is acknowledged while anything is owed.
 */
import { assert, present } from "./assert.ts";
import { mayRunAhead, runAhead } from "./ahead-pass.ts";
import { ownChainsOf } from "./arming.ts";
import { meet } from "./arrival.ts";
import { decide } from "./committing.ts";
import type { Arrival, DeliveryState, Ending } from "./delivery-state.ts";
import { isPastDeadline, nowMs } from "./delivery-state.ts";
import { completeDueWaits } from "./due-waits.ts";
import { isBatonError } from "./errors.ts";
import type { BatonError } from "./errors.ts";
import { LiveFeed } from "./feed.ts";
import { finish } from "./finishing.ts";
import { beginFresh, freshInputOf } from "./fresh-pass.ts";
import { dropHeap, runGuest } from "./guest-pass.ts";
import { InlineBodies } from "./inline-bodies.ts";
import { commitSettled, rerunOpenSteps } from "./inline-steps.ts";
import { loadNothing, loadRun, tailReaderOf } from "./loading.ts";
import { REFUSED_FAILURES_MAX, SET_ASIDE_REDELIVERY_MS } from "./limits.ts";
import type { LoadedRun } from "./loading.ts";
import { resend, sendOwed } from "./owing.ts";
import type { Engine } from "./parts.ts";
import { errorPayload } from "./payload.ts";
import { newEvent } from "./plan.ts";
import type { DeliveryMeta, DeliveryResult, OrchestratorMessage, RunInput } from "./ports/queue.ts";
import type { TenantLimits } from "./ports/tenants.ts";
import { Progress } from "./progress.ts";
import { readOn } from "./reads.ts";
import { contradictsReplay } from "./replay-check.ts";
import { birthOf } from "./run.ts";
import { failRun } from "./run-ending.ts";
import { accessOf } from "./step-access.ts";
import { storageRefusal } from "./storage-quota.ts";
import { take } from "./taking.ts";
import { birthOfInput } from "./turbo.ts";
import { dueWaits } from "./waits.ts";
import { awaitCpu, awaitProgress, linger } from "./waiting.ts";

/** The codes of reads that no redelivery mends, but an operator may. */
const PARKED_ON_READ = ["CORRUPTED_EVENT_LOG", "PAYLOAD_UNREADABLE", "SNAPSHOT_MISSING"] as const;

export async function deliver(
  engine: Engine,
  message: OrchestratorMessage,
  meta: DeliveryMeta,
): Promise<DeliveryResult> {
  const { parts } = engine;
  const { tenantId, runId } = message;
  const run = { tenantId, runId };
  const { messageId, attempt, deliveryCount } = meta;
  const logger = parts.log.child({ tenantId, runId, messageId, attempt, deliveryCount });
  const store = parts.world.forTenant(tenantId);
  const arrival: Arrival = { engine, run, message, meta, store, logger };
  const startedAt = parts.clock.now();
  engine.memory.deliveries.begin(tenantId);
  try {
    const fresh = freshInputOf(arrival);
    const answer = fresh === null ? null : await attend(arrival, fresh, startedAt);
    return (
      answer ?? present(await attend(arrival, null, startedAt), "a run that is read is driven")
    );
  } finally {
    engine.memory.deliveries.end(tenantId);
  }
}

/** Null: the run is not as fresh as its message says, and is to be read. */
async function attend(
  arrival: Arrival,
  fresh: RunInput | null,
  startedAt: number,
): Promise<DeliveryResult | null> {
  const { engine, logger, run } = arrival;
  const met = await meet(arrival, fresh !== null);
  if (met.kind === "answer") {
    const ms = engine.parts.clock.now() - startedAt;
    logger.info({ outcome: met.outcome, answer: met.result.kind, ms }, "delivery");
    return met.result;
  }
  engine.memory.positions.forget(run);
  return drive(arrival, { limits: met.limits, fresh, startedAt });
}

interface Drive {
  readonly limits: TenantLimits;
  readonly fresh: RunInput | null;
  readonly startedAt: number;
}

async function drive(
  arrival: Arrival,
  { limits, fresh, startedAt }: Drive,
): Promise<DeliveryResult | null> {
  let loaded: LoadedRun;
  try {
    loaded = fresh === null ? await loadRun(arrival) : loadNothing(arrival);
  } catch (error) {
    return parkOrThrow(arrival, error);
  }
  const birth = fresh === null ? birthOf(loaded.log.run) : birthOfInput(fresh);
  const state = stateOf(arrival, { limits, loaded, birth });
  const unlisten = arrival.engine.memory.stopping.listen({
    onBegin: () => state.progress.notify(),
    onCut: () => state.bodies.cut(),
  });
  let ending: Ending | null = null;
  try {
    ending = fresh === null ? await failAtDeliveriesCap(state) : await beginFresh(state, fresh);
    while (ending === null) ending = await pass(state);
    return await finish(state, ending);
  } catch (error) {
    dropHeap(state);
    await state.bodies.settleAll();
    return await parkOrThrow(arrival, error);
  } finally {
    unlisten();
    state.feed.stop();
    report(state, ending, startedAt);
  }
}

function stateOf(
  arrival: Arrival,
  { limits, loaded, birth }: Pick<DeliveryState, "limits" | "birth"> & { loaded: LoadedRun },
): DeliveryState {
  const { parts } = arrival.engine;
  const progress = new Progress(parts.clock);
  const onNews = (): void => progress.notify();
  const hasPush = parts.world.capabilities.liveFeed;
  const { settings } = parts;
  const feed = new LiveFeed(
    { reader: tailReaderOf(arrival), hasPush, settings, onNews },
    loaded.log.topSlot,
  );
  return {
    ...arrival,
    limits,
    loadedSlot: loaded.log.topSlot,
    deadlineMs: arrival.meta.invocationStartedAt + settings.inlineWindowMs,
    progress,
    bodies: new InlineBodies({
      runner: parts.steps,
      accessOf: (attempt, runStart) => accessOf(arrival.engine, attempt, runStart),
      onSettled: onNews,
    }),
    feed,
    counts: {
      passes: 0,
      eventsCommitted: 0,
      messagesSent: 0,
      divergences: 0,
      lostHeaps: 0,
      traps: 0,
      restores: 0,
      coldStarts: 0,
      refusedPasses: 0,
      rollBacks: 0,
      eventWarnings: 0,
    },
    ahead: { isOff: false, isTurbo: false, image: null },
    birth,
    ...loaded,
    hasBegun: false,
    wroteEnding: false,
    isFlushing: false,
    report: null,
    isReplayChecked: false,
    ownedChains: new Set(),
    timedWaits: new Set(),
    owedSteps: new Map(),
    traits: new Map(),
  };
}

/** A message that came too often ends its run before anything else is tried again. */
async function failAtDeliveriesCap(state: DeliveryState): Promise<Ending | null> {
  const { queueDeliveriesMax } = state.engine.parts.settings;
  const excess = state.meta.attempt - queueDeliveriesMax;
  if (excess <= 0 || state.log.isOver) return null;
  const message = `A message of this run was delivered more than ${queueDeliveriesMax} times`;
  const code = "MAX_DELIVERIES_EXCEEDED";
  const error = errorPayload("WorkflowRuntimeError", message);
  const ending = await failRun(state, { errorCode: code, error });
  const isRefused = ending.kind === "superseded" || (ending.kind === "deferred" && ending.counted);
  // A World that takes not even this would have the message come for ever.
  if (!isRefused || excess <= REFUSED_FAILURES_MAX) return ending;
  const why = ending.kind === "deferred" ? ending.reason : "IN_BAND_SUPERSEDED";
  return {
    kind: "parked",
    code,
    message: `${message}, and the World refuses its failure: ${why}`,
    isSpent: true,
  };
}

/** What comes once, before the first decision, from the whole log. */
async function begin(state: DeliveryState): Promise<Ending | null> {
  state.hasBegun = true;
  ownChainsOf(state);
  await resend(state);
  if (state.log.run.kind === "started") return null;
  const next = take(state, await state.writer.create(newEvent("run_started", null, {})));
  return next === "go on" ? null : next;
}

/** One pass: from what has landed to what the guest asked for next. Null: there is more to do. */
async function pass(state: DeliveryState): Promise<Ending | null> {
  const refusal = await heedStanding(state);
  await fold(state);
  if (state.log.isOver) return { kind: "over" };
  // The rest of a long log: the guest takes it in page by page, and nothing is decided before its end.
  if (state.writer.isBehind) return runGuest(state);
  if (refusal !== null) return failForStorage(state, refusal);
  const settled =
    (state.hasBegun ? null : await begin(state)) ??
    (mayRunAhead(state) ? null : await commitSettled(state)) ??
    (await completeDueWaits(state));
  if (settled !== null) return settled;
  if (state.writer.isBehind) return null;
  if (state.isFlushing && state.bodies.runningCount === 0) return { kind: "handoff" };
  // Bodies that run are waited for, and what they wait for may be this run's to decide: a signal.
  // What ended meanwhile is recorded first.
  if (isPastDeadline(state) && state.bodies.runningCount === 0) {
    return state.bodies.count > 0 ? null : { kind: "handoff" };
  }
  const paced = await awaitCpu(state);
  if (paced !== "go on") return paced;

  const ran = await runGuest(state);
  if (ran !== null) return ran;
  if (state.writer.isBehind) return null;
  if (await contradictsReplay(state)) return null;
  const ahead = await runAhead(state);
  if (ahead !== "not now") return ahead;
  // They could have run ahead from here; here they may not.
  if (state.bodies.settled.length > 0) return commitSettled(state);
  const decided = (await decide(state)) ?? (await rerunOpenSteps(state));
  if (decided !== null) return decided;
  await sendOwed(state);
  if (hasMore(state)) return null;

  if (state.bodies.runningCount > 0) {
    await awaitProgress(state);
    return null;
  }
  return (await linger(state)) ? null : { kind: "suspended" };
}

/**
 * A tenant that was suspended meanwhile: nothing new begins, and the message is then set aside. Not
 * null: it has stored so much that its runs may not go on.
 */
async function heedStanding(state: DeliveryState): Promise<BatonError | null> {
  const standing = await state.engine.parts.tenants.standingOf(state.run.tenantId);
  if (standing?.status === "active") return storageRefusal(standing, "running run");
  state.deadlineMs = Math.min(state.deadlineMs, nowMs(state));
  return null;
}

/** What its bodies bring is not recorded: there is no room for it. */
function failForStorage(state: DeliveryState, refusal: BatonError): Promise<Ending> {
  return failRun(state, {
    errorCode: "STORED_BYTES_EXCEEDED",
    error: errorPayload("QuotaExceededError", refusal.message),
  });
}

/** Takes in what others have committed, in slot order, with nothing missing below. */
async function fold(state: DeliveryState): Promise<void> {
  state.feed.advance(state.log.topSlot);
  if (state.writer.isBehind) {
    const read = await readOn(tailReaderOf(state), state.log, state.pacing);
    assert(read.kind === "read", "a log does not change under its own writer");
    if (!read.hasMore) state.writer.noteComplete();
    state.feed.advance(state.log.topSlot);
    return;
  }
  for (const event of state.feed.take()) state.log.append(event);
}

function hasMore(state: DeliveryState): boolean {
  return (
    state.writer.isBehind ||
    state.log.unconsumed.length > 0 ||
    state.bodies.settled.length > 0 ||
    state.feed.hasNews ||
    dueWaits(state.log.waits.values(), nowMs(state)).length > 0
  );
}

async function parkOrThrow(arrival: Arrival, error: unknown): Promise<DeliveryResult> {
  const code = PARKED_ON_READ.find((known) => isBatonError(error, known));
  if (code === undefined) {
    arrival.logger.error({ error: String(error) }, "a delivery failed; its message comes again");
    throw error;
  }
  const reason = { code, message: String(error), since: nowMs(arrival) };
  await arrival.store.runs.park(arrival.run.runId, reason);
  arrival.logger.error({ code, reason: reason.message }, "a run is parked");
  return { kind: "redeliver", afterMs: SET_ASIDE_REDELIVERY_MS, counted: false };
}

function report(state: DeliveryState, ending: Ending | null, startedAt: number): void {
  const { passes, messagesSent, eventsCommitted, restores, coldStarts, rollBacks } = state.counts;
  const events = eventsCommitted + state.writer.committedCount;
  state.engine.parts.tenants.count(state.run.tenantId, { events });
  state.logger.info(
    {
      outcome: ending?.kind ?? "failed",
      passes,
      restores,
      coldStarts,
      rollBacks,
      events,
      messages: messagesSent,
      slot: state.log.topSlot,
      ms: nowMs(state) - startedAt,
    },
    "delivery",
  );
}
