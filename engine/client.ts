/**
 * The client's view of a run: its status, its outcome, and what may be asked of it.
 *
 * Owns how an outcome is found and awaited. Reads only; what is asked goes through intake.ts.
 */
import { assertNever } from "./assert.ts";
import { BatonError } from "./errors.ts";
import type { RunEvent } from "./events.ts";
import { runIdOf } from "./ids.ts";
import type { EntityId, RunRef, TenantId } from "./ids.ts";
import { cancelRun, runRow, wakeUp } from "./intake.ts";
import { OUTCOME_PAGE_EVENTS, OUTCOME_POLL_MS, OUTCOME_POLL_MS_MAX } from "./limits.ts";
import type { Engine, EngineParts } from "./parts.ts";
import type { Payload } from "./payload.ts";
import type { RunRow, RunStatus } from "./ports/world.ts";
import { Progress } from "./progress.ts";
import { isRunTerminal } from "./run.ts";
import { positionOf } from "./slots.ts";

/** How a run ended. Payloads are as the guest encoded them. */
export type RunOutcome =
  | { readonly kind: "completed"; readonly output: Payload }
  | { readonly kind: "failed"; readonly error: Payload; readonly errorCode: string }
  | { readonly kind: "cancelled"; readonly cancelReason: string | null };

export interface RunHandle {
  readonly run: RunRef;
  exists(): Promise<boolean>;
  /** The run's row; `RUN_NOT_FOUND` if there is none. */
  row(): Promise<RunRow>;
  status(): Promise<RunStatus>;
  /** How it ended, or null while it has not. */
  outcome(): Promise<RunOutcome | null>;
  /** Waits until it ends; `signal` gives up waiting, not the run. */
  awaitOutcome(signal?: AbortSignal): Promise<RunOutcome>;
  /** The output, once there is one; an error of the code that says how else it ended. */
  returnValue(signal?: AbortSignal): Promise<Payload>;
  /** False if it was over already. */
  cancel(cancelReason?: string): Promise<boolean>;
  /** Ends sleeps now: those named or all that are open. The waits that will complete for it. */
  wakeUp(waitIds?: readonly string[]): Promise<readonly EntityId[]>;
}

/** A handle; nothing is read until it is asked. */
export function runHandle(engine: Engine, tenantId: TenantId, id: string): RunHandle {
  const { parts, memory } = engine;
  const run: RunRef = { tenantId, runId: runIdOf(id) };
  const awaitOutcome = (signal?: AbortSignal) => outcomeOnceOver(engine, run, signal);
  return {
    run,
    exists: async () => (await parts.world.forTenant(tenantId).runs.get(run.runId)) !== null,
    row: () => readRow(parts, run),
    status: async () => (await readRow(parts, run)).status,
    outcome: async () => outcomeOf(parts, run, await readRow(parts, run)),
    awaitOutcome,
    returnValue: async (signal) => outputOf(run, await awaitOutcome(signal)),
    cancel: async (cancelReason) => {
      const isNew = await cancelRun(parts, run, cancelReason);
      memory.endings.announce(run);
      return isNew;
    },
    wakeUp: (waitIds) => wakeUp(parts, run, waitIds),
  };
}

/** Reads stay possible on a run of a version that this build cannot write. */
async function readRow(parts: EngineParts, run: RunRef): Promise<RunRow> {
  const row = await parts.world.forTenant(run.tenantId).runs.get(run.runId);
  if (row !== null) return row;
  // Says which of the two is missing, the tenant or the run.
  return runRow(parts, run);
}

function outputOf(run: RunRef, outcome: RunOutcome): Payload {
  switch (outcome.kind) {
    case "completed":
      return outcome.output;
    case "failed":
      throw new BatonError("RUN_FAILED", `run ${run.runId} failed: ${outcome.errorCode}`, {
        runId: run.runId,
        errorCode: outcome.errorCode,
        error: outcome.error,
      });
    case "cancelled":
      throw new BatonError("RUN_CANCELLED", `run ${run.runId} was cancelled`, {
        runId: run.runId,
        cancelReason: outcome.cancelReason,
      });
    default:
      return assertNever(outcome);
  }
}

/** Looks when it is told that the run may be over, and now and then without being told. */
async function outcomeOnceOver(
  { parts, memory }: Engine,
  run: RunRef,
  signal?: AbortSignal,
): Promise<RunOutcome> {
  const progress = new Progress(parts.clock);
  const onHint = (): void => progress.notify();
  const unlisten = memory.endings.listen(run, onHint);
  signal?.addEventListener("abort", onHint);
  try {
    for (let delayMs = OUTCOME_POLL_MS; ; delayMs = Math.min(delayMs * 2, OUTCOME_POLL_MS_MAX)) {
      signal?.throwIfAborted();
      const row = await readRow(parts, run);
      const outcome = await outcomeOf(parts, run, row);
      if (outcome !== null) return outcome;
      // Most runs end sooner, and in this process; a feed is worth it for the rest.
      if (delayMs > OUTCOME_POLL_MS) await memory.endings.follow(run, positionOf(row.counts.seq));
      await progress.wait(parts.clock.now() + delayMs);
    }
  } finally {
    unlisten();
    signal?.removeEventListener("abort", onHint);
  }
}

/** The outcome of the run's first terminal event, which its row follows. */
async function outcomeOf(parts: EngineParts, run: RunRef, row: RunRow): Promise<RunOutcome | null> {
  if (row.completedAt === null) return null;
  const { events } = parts.world.forTenant(run.tenantId);
  // Only inert events can follow it, so it is near the end.
  for (let to = row.counts.seq; to > 0; to -= OUTCOME_PAGE_EVENTS) {
    const from = Math.max(0, to - OUTCOME_PAGE_EVENTS);
    const page = await events.list(run.runId, {
      afterSlot: positionOf(from),
      limit: OUTCOME_PAGE_EVENTS,
    });
    const found = page.events.find((event) => isOutcomeOf(row, event));
    if (found !== undefined) return outcomeFrom(found);
  }
  throw new BatonError("CORRUPTED_EVENT_LOG", "a run that is over has no terminal event", {
    field: "status",
    used: row.status,
  });
}

function isOutcomeOf(row: RunRow, event: RunEvent): boolean {
  return isRunTerminal(event.eventType) && event.eventType === `run_${row.status}`;
}

function outcomeFrom(event: RunEvent): RunOutcome | null {
  switch (event.eventType) {
    case "run_completed":
      return { kind: "completed", output: event.eventData.output };
    case "run_failed":
      return { kind: "failed", ...event.eventData };
    case "run_cancelled":
      return { kind: "cancelled", cancelReason: event.eventData.cancelReason ?? null };
    default:
      return null;
  }
}
