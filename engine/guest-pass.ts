/**
 * Stage 3, the pass: the heap is opened if there is none, and told of what it has not consumed.
 *
 * Owns what becomes of each answer of the sandbox. A divergence is met by a replay from cold in
 * place, up to a cap, and then the run is parked with what was expected and found (design §6); a
 * heap that is lost is opened again; one that broke at the run's own code is tried once more from
 * the log alone, and then the run fails; a limit that was exceeded ends the run.
 */
import { assertNever, present } from "./assert.ts";
import { nextFeed } from "./consume.ts";
import type { DeliveryState, Ending, QuietPass } from "./delivery-state.ts";
import { ERROR_TABLE } from "./errors.ts";
import { EVENTS_PER_PASS_MAX, LOST_HEAPS_MAX, TRAPS_MAX } from "./limits.ts";
import { loadCold, loadFrom, loadStored } from "./loading.ts";
import type { LoadedRun } from "./loading.ts";
import { errorPayload } from "./payload.ts";
import type { Divergence, LimitExceeded, OpenResult, PassResult } from "./ports/sandbox.ts";
import { failRun } from "./run-ending.ts";

/** The heap has consumed the whole log, and `state.report` is what it says there. */
export async function runGuest(state: DeliveryState): Promise<Ending | null> {
  for (;;) {
    if (state.heap === null) {
      const ending = await openHeap(state);
      if (ending !== null) return ending;
      if (state.heap === null) continue;
    }
    const feed = nextFeed(state.log, EVENTS_PER_PASS_MAX);
    if (feed === null && state.report !== null) return null;
    const events = feed?.events ?? [];
    if (events.length > 0 || state.report === null) {
      const result = await present(state.heap, "the heap is open").pass(events);
      state.counts.passes += 1;
      const ending = await takeResult(state, result);
      if (ending !== null) return ending;
      // It was lost or diverged: begin again with what has been loaded in its place.
      if (state.heap === null) continue;
    }
    if (feed !== null) state.log.markConsumed(feed.upTo);
  }
}

async function openHeap(state: DeliveryState): Promise<Ending | null> {
  const opened = await askForHeap(state);
  if (opened !== null) return takeOpened(state, opened);
  return {
    kind: "parked",
    code: "BUNDLE_NOT_FOUND",
    message: `the tenant has no bundle ${state.birth.deploymentId}`,
  };
}

/** Null: the tenant does not have the run's bundle. */
async function askForHeap(state: DeliveryState): Promise<OpenResult | null> {
  const { run, engine, birth } = state;
  const { sandbox, tenants } = engine.parts;
  const bundle = await tenants.bundleOf(run.tenantId, birth.deploymentId);
  if (bundle === null) return null;
  return sandbox.open({
    run,
    bundle,
    workflowName: birth.workflowName,
    seed: birth.seed,
    createdAt: birth.createdAt,
    ...(birth.webhookBaseUrl === null ? {} : { baseUrl: birth.webhookBaseUrl }),
    limits: state.limits.heap,
    cpuWeight: state.limits.cpuWeight,
    ...(state.image === null ? {} : { image: state.image }),
  });
}

/** Opens a heap and decides nothing; false: what is wrong is found again once all is committed. */
export async function openedQuietly(state: DeliveryState): Promise<boolean> {
  const opened = await askForHeap(state);
  if (opened?.kind !== "opened") return false;
  await takeOpened(state, opened);
  return true;
}

async function takeOpened(state: DeliveryState, opened: OpenResult): Promise<Ending | null> {
  switch (opened.kind) {
    case "opened":
      state.heap = opened.heap;
      state.counts[state.image === null ? "coldStarts" : "restores"] += 1;
      return null;
    case "image_refused":
      state.logger.info({ reason: opened.reason }, "a snapshot does not fit; going cold");
      return goCold(state);
    case "bundle_failed":
      return failRun(state, {
        errorCode: "USER_ERROR",
        error: errorPayload("Error", opened.error.message),
      });
    case "limit":
      return failByLimit(state, opened.exceeded);
    case "lost":
      return reopen(state, opened);
    default:
      return assertNever(opened);
  }
}

async function takeResult(state: DeliveryState, result: PassResult): Promise<Ending | null> {
  const { tenants } = state.engine.parts;
  const { tenantId } = state.run;
  switch (result.kind) {
    case "quiet":
      noteQuiet(state, result);
      return null;
    case "diverged":
      return meetDivergence(state, result.divergence);
    case "limit":
      tenants.count(tenantId, {
        passes: 1,
        cpuMs: result.usage.cpuMs,
        ...(result.exceeded.code === "HEAP_LIMIT_EXCEEDED" ? { heapLimitBreaches: 1 } : {}),
        ...(result.exceeded.code === "CPU_LIMIT_EXCEEDED" ? { cpuLimitBreaches: 1 } : {}),
      });
      return failByLimit(state, result.exceeded);
    case "lost":
      return reopen(state, result);
    default:
      return assertNever(result);
  }
}

/** What the heap says is what the delivery goes by. */
export function noteQuiet(state: DeliveryState, result: QuietPass): void {
  state.report = result;
  state.engine.parts.tenants.count(state.run.tenantId, {
    passes: 1,
    cpuMs: result.usage.cpuMs,
    heapBytesPeak: result.usage.heapBytes,
  });
  for (const line of result.console) state.logger.info({ guest: line }, "guest console");
}

function failByLimit(state: DeliveryState, exceeded: LimitExceeded): Promise<Ending> {
  dropHeap(state);
  const { code, limit, used, allowed } = exceeded;
  const { name, when } = ERROR_TABLE[code];
  const message = `${when} (${limit}: used ${used}, allowed ${allowed})`;
  return failRun(state, { errorCode: code, error: errorPayload(name, message) });
}

async function meetDivergence(state: DeliveryState, found: Divergence): Promise<Ending | null> {
  state.counts.divergences += 1;
  const where = { slot: found.slot, expected: found.expected, found: found.found };
  state.logger.warn({ code: "REPLAY_DIVERGENCE", ...where }, "the code diverged from the log");
  if (state.counts.divergences <= state.engine.parts.settings.divergenceRetriesMax) {
    return goCold(state);
  }
  dropHeap(state);
  return {
    kind: "parked",
    code: "REPLAY_DIVERGENCE",
    message: `at slot ${found.slot} the log holds ${found.found}, the code asks for ${found.expected}`,
  };
}

async function reopen(
  state: DeliveryState,
  { reason, isTrap }: Extract<PassResult, { kind: "lost" }>,
): Promise<Ending | null> {
  if (isTrap === true) return meetTrap(state, reason);
  state.counts.lostHeaps += 1;
  state.logger.warn({ reason, lost: state.counts.lostHeaps }, "a heap was lost; opening it again");
  dropHeap(state);
  if (state.counts.lostHeaps <= LOST_HEAPS_MAX) {
    takeLoaded(state, await loadStored(state));
    return null;
  }
  return {
    kind: "deferred",
    reason: "its heap is lost again and again",
    afterMs: 1_000,
    counted: true,
  };
}

/**
 * What broke the heap may have been in its image, and is not in a fresh one. A second break is the
 * run's own: nothing else was in that heap, and its message would come for ever (design §2, §6).
 */
async function meetTrap(state: DeliveryState, reason: string): Promise<Ending | null> {
  state.counts.traps += 1;
  state.logger.error({ code: "HEAP_BROKEN", reason }, "a heap broke at the run's code");
  if (state.counts.traps <= TRAPS_MAX) return goCold(state);
  dropHeap(state);
  const { name, when } = ERROR_TABLE.HEAP_BROKEN;
  return failRun(state, { errorCode: "HEAP_BROKEN", error: errorPayload(name, when) });
}

/** Forgets the heap and everything folded, and loads the log from its first slot. */
async function goCold(state: DeliveryState): Promise<null> {
  dropHeap(state);
  takeLoaded(state, await loadCold(state));
  return null;
}

/** Forgets what the guest was told too early: from the newest image that holds none of it. */
export async function rollBack(state: DeliveryState): Promise<void> {
  dropHeap(state);
  const { image } = state.ahead;
  const loaded = image === null ? null : await loadFrom(state, image);
  takeLoaded(state, loaded ?? (await loadStored(state)));
}

/** A load of its own has counts of its own, so its writer is a fresh one. */
export function takeLoaded(state: DeliveryState, loaded: LoadedRun): void {
  state.counts.eventsCommitted += state.writer.committedCount;
  state.log = loaded.log;
  state.writer = loaded.writer;
  state.image = loaded.image;
  state.pacing = loaded.pacing;
  state.snapshotSlot = loaded.snapshotSlot;
}

export function dropHeap(state: DeliveryState): void {
  state.heap?.close();
  state.heap = null;
  state.image = null;
  state.report = null;
}
