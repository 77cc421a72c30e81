/**
 * Replay-and-compare: on a sample of resumes the run is replayed from its first slot as well, and
 * what that heap asks for is held against what the resumed one does (design §6, "Snapshot").
 *
 * Owns the sample, the comparison and what follows from a difference. Costs the time of a replay
 * and the memory of a second heap, so only long-lived processes make many.
 *
 * E46  Where a resumed heap and a replay of its log differ, it is reported, what was put away is
 *      dropped, and the delivery goes on with the replay.
 */
import { nextFeed } from "./consume.ts";
import type { DeliveryState, QuietPass } from "./delivery-state.ts";
import { isBatonError } from "./errors.ts";
import { dropHeap, takeLoaded } from "./guest-pass.ts";
import { EVENTS_PER_PASS_MAX, REPLAY_CHECK_EVENTS_MAX } from "./limits.ts";
import { loadCold, snapshotStoreOf, tailReaderOf } from "./loading.ts";
import type { LoadedRun } from "./loading.ts";
import type { Random } from "./ports/host.ts";
import type { Heap } from "./ports/sandbox.ts";
import { readOn } from "./reads.ts";
import { birthOf } from "./run.ts";
import type { Slot } from "./slots.ts";
import { deleteSnapshot } from "./snapshots.ts";

type Replayed =
  /** A heap that was told the log from its first slot up to where the resumed one is. */
  | {
      readonly kind: "replayed";
      readonly heap: Heap;
      readonly loaded: LoadedRun;
      readonly report: QuietPass;
    }
  /** The code does not even go along with its log. */
  | { readonly kind: "diverged"; readonly found: string };

/** True: the log said otherwise, and the delivery now stands on a replay of it. */
export async function contradictsReplay(state: DeliveryState): Promise<boolean> {
  if (state.isReplayChecked) return false;
  state.isReplayChecked = true;
  const { random, settings, tenants } = state.engine.parts;
  const isResumed = state.counts.coldStarts === 0;
  if (!isResumed || state.log.topSlot > REPLAY_CHECK_EVENTS_MAX) return false;
  if (!isSampled(random, settings.replayCheckEvery)) return false;
  const replayed = await replayTo(state, state.log.consumedSlot);
  if (replayed === null) return false;
  const { tenantId } = state.run;
  tenants.count(tenantId, { replayChecks: 1 });
  const difference =
    replayed.kind === "diverged" ? replayed.found : differenceOf(state.report, replayed.report);
  if (difference === null) {
    if (replayed.kind === "replayed") replayed.heap.close();
    return false;
  }
  tenants.count(tenantId, { replayMismatches: 1 });
  const slot = state.log.consumedSlot;
  state.logger.error({ code: "SNAPSHOT_MISMATCH", slot, difference }, "the log wins over a heap");
  await followLog(state, replayed);
  return true;
}

async function followLog(state: DeliveryState, replayed: Replayed): Promise<void> {
  dropHeap(state);
  await deleteSnapshot(snapshotStoreOf(state), state.logger);
  if (replayed.kind === "diverged") {
    // The next pass meets the divergence as any cold replay does.
    takeLoaded(state, await loadCold(state));
    return;
  }
  takeLoaded(state, replayed.loaded);
  state.heap = replayed.heap;
  state.report = replayed.report;
}

/** Whether this one of `every` is drawn. */
function isSampled(random: Random, every: number): boolean {
  if (every === 0) return false;
  const bytes = random.bytes(4);
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0) % every === 0;
}

/** Null: it did not come so far, which says nothing of the resumed heap. */
async function replayTo(state: DeliveryState, upTo: Slot): Promise<Replayed | null> {
  let heap: Heap | null = null;
  try {
    const loaded = await loadCold(state);
    heap = await openCold(state, loaded);
    const replayed = heap === null ? null : await fed(state, { heap, loaded, upTo });
    if (replayed?.kind !== "replayed") heap?.close();
    return replayed;
  } catch (error) {
    heap?.close();
    // The delivery does without: it has read all that it needs itself.
    if (!isBatonError(error)) throw error;
    state.logger.warn({ upTo, error: String(error) }, "a replay to compare with was not read");
    return null;
  }
}

async function fed(
  state: DeliveryState,
  { heap, loaded, upTo }: { heap: Heap; loaded: LoadedRun; upTo: Slot },
): Promise<Replayed | null> {
  const { log } = loaded;
  let report: QuietPass | null = null;
  while (report === null || log.consumedSlot < upTo) {
    if (log.unconsumed.length === 0) {
      const read = await readOn(tailReaderOf(state), log, loaded.pacing);
      if (read.kind === "read" && !read.hasMore) loaded.writer.noteComplete();
    }
    const feed = nextFeed(log, Math.min(EVENTS_PER_PASS_MAX, upTo - log.consumedSlot));
    const result = await heap.pass(feed?.events ?? []);
    if (result.kind === "diverged") {
      const { slot, found, expected } = result.divergence;
      return { kind: "diverged", found: `at slot ${slot}: ${found}, not ${expected}` };
    }
    if (result.kind !== "quiet") {
      state.logger.warn({ upTo, met: result.kind }, "a replay to compare with did not end");
      return null;
    }
    report = result;
    if (feed !== null) log.markConsumed(feed.upTo);
  }
  return { kind: "replayed", heap, loaded, report };
}

async function openCold(state: DeliveryState, { log }: LoadedRun): Promise<Heap | null> {
  const { sandbox, tenants } = state.engine.parts;
  const { run, limits } = state;
  const { deploymentId, workflowName, seed, createdAt } = birthOf(log.run);
  const bundle = await tenants.bundleOf(run.tenantId, deploymentId);
  if (bundle === null) return null;
  const { heap } = limits;
  const opened = await sandbox.open({
    run,
    bundle,
    workflowName,
    seed,
    createdAt,
    limits: heap,
  });
  return opened.kind === "opened" ? opened.heap : null;
}

/** What differs first, without what a tenant's payloads hold; null if nothing does. */
function differenceOf(resumed: QuietPass | null, replayed: QuietPass): string | null {
  const [left, right] = [linesOf(resumed), linesOf(replayed)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    if (left[i]?.text === right[i]?.text) continue;
    return `the heap has ${left[i]?.label ?? "nothing"}, the replay ${right[i]?.label ?? "nothing"}`;
  }
  return null;
}

/** All that a report decides by, in order: each with a name for the operator. */
function linesOf(report: QuietPass | null): { readonly label: string; readonly text: string }[] {
  if (report === null) return [];
  const { operations, completion, awaitedHooks } = report;
  return [
    ...operations.map((operation) => ({
      label: `${operation.kind} ${operation.correlationId}`,
      text: textOf(operation),
    })),
    { label: completion?.kind ?? "no end", text: textOf(completion) },
    { label: `${awaitedHooks.length} awaited hooks`, text: textOf(awaitedHooks) },
  ];
}

function textOf(value: unknown): string {
  // Of this encoding every byte is a character.
  const bytes = new TextDecoder("windows-1252");
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner instanceof Uint8Array ? bytes.decode(inner) : inner,
  );
}
