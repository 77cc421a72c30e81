/**
 * What platform code sees of a run, and of a hook: values instead of payloads, errors instead of
 * outcomes.
 *
 * Owns these views. No class of any tenant is revived in them.
 */
import { assertNever } from "./assert.ts";
import type { RunHandle, RunOutcome } from "./client.ts";
import { BatonError } from "./errors.ts";
import { PLAIN_REALM } from "./ports/steps.ts";
import type { HostCodec } from "./ports/steps.ts";
import type { HookRow, RunRow, RunStatus } from "./ports/world.ts";
import { readableOf, userStreamOf } from "./readable.ts";
import type { ReadableOptions } from "./readable.ts";
import type { EngineRuntime } from "./runtime.ts";

/** A run, as platform code sees it. Nothing is read until it is asked. */
export interface Run {
  readonly runId: string;
  readonly tenantId: string;
  exists(): Promise<boolean>;
  status(): Promise<RunStatus>;
  row(): Promise<RunRow>;
  /** Waits for the end. Rejects with `RUN_FAILED` (`cause`: what was thrown) or `RUN_CANCELLED`. */
  returnValue(signal?: AbortSignal): Promise<unknown>;
  /** Chunks that its steps wrote, from an index on, live: bytes as bytes, values decoded. */
  getReadable(options?: ReadableOptions): RunReadable;
  /** False if it was over already. */
  cancel(cancelReason?: string): Promise<boolean>;
  /** Ends sleeps now: those named, or all that are open. How many will. */
  wakeUp(waitIds?: readonly string[]): Promise<{ readonly stoppedCount: number }>;
}

/** A run's stream, as platform code reads it. */
export interface RunReadable extends ReadableStream<unknown> {
  /** The index of the last chunk so far, -1 while there is none. */
  getTailIndex(): Promise<number>;
}

/** An open hook, as platform code sees it. */
export interface HookInfo {
  readonly hookId: string;
  readonly runId: string;
  readonly isWebhook: boolean;
  /** What the workflow made it with, if anything. */
  readonly metadata: unknown;
}

/** Nothing is read until it is asked. */
export function runView(engine: EngineRuntime, codec: HostCodec, handle: RunHandle): Run {
  const { run } = handle;
  return {
    runId: run.runId,
    tenantId: run.tenantId,
    exists: () => handle.exists(),
    status: () => handle.status(),
    row: () => handle.row(),
    returnValue: async (signal) => outputOf(codec, run.runId, await handle.awaitOutcome(signal)),
    getReadable: ({ namespace, startIndex } = {}) => {
      const place = userStreamOf(run, namespace);
      const streams = engine.streamsOf(run.tenantId);
      const readable = readableOf({ streams, codec }, place, startIndex);
      const getTailIndex = async () =>
        (await engine.streamInfo(run.tenantId, place))?.tailIndex ?? -1;
      return Object.assign(readable, { getTailIndex });
    },
    cancel: (cancelReason) => handle.cancel(cancelReason),
    wakeUp: async (waitIds) => ({ stoppedCount: (await handle.wakeUp(waitIds)).length }),
  };
}

function outputOf(codec: HostCodec, runId: string, outcome: RunOutcome): unknown {
  switch (outcome.kind) {
    case "completed":
      return codec.decode(outcome.output, PLAIN_REALM);
    case "failed": {
      const { errorCode } = outcome;
      const cause = codec.decode(outcome.error, PLAIN_REALM);
      throw new BatonError(
        "RUN_FAILED",
        `the run failed: ${errorCode}`,
        { runId, errorCode },
        cause,
      );
    }
    case "cancelled": {
      const { cancelReason } = outcome;
      throw new BatonError("RUN_CANCELLED", "the run was cancelled", { runId, cancelReason });
    }
    default:
      return assertNever(outcome);
  }
}

/** The hook without what only the engine needs. */
export function hookInfo(codec: HostCodec, hook: HookRow): HookInfo {
  const { hookId, runId, isWebhook, metadata } = hook;
  const value = metadata === null ? undefined : codec.decode(metadata, PLAIN_REALM);
  // A webhook's carries what it answers with beside what the workflow gave.
  const own = isWebhook ? (value as { readonly metadata?: unknown }).metadata : value;
  return { hookId, runId, isWebhook, metadata: own };
}
