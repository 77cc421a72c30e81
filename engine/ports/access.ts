/**
 * What the body of a step may do besides computing: streams and attributes of its run, other runs
 * of its tenant. Whoever runs bodies offers this to them, in the form that suits their code.
 */
import type { RunId } from "../ids.ts";

/** One stream of a run; names are unique within their run. */
export interface StreamPlace {
  readonly runId: RunId;
  readonly name: string;
}

/** Chunks as they are stored: see payload.ts for what they hold. */
export interface ChunkPage {
  readonly chunks: readonly Uint8Array[];
  /** The index of the first chunk. */
  readonly startIndex: number;
  /** The stream has ended, and this page reaches its end. */
  readonly done: boolean;
}

export interface StepStreams {
  /** Refused with `ENTITY_CONFLICT` once closed, with `QUOTA_EXCEEDED` past the run's bytes. */
  write(place: StreamPlace, chunks: readonly Uint8Array[]): Promise<void>;
  close(place: StreamPlace): Promise<void>;
  /** Waits for the chunk at the index, or for the end. Below 0 the index counts from the tail. */
  read(place: StreamPlace, index: number, signal?: AbortSignal): Promise<ChunkPage>;
}

export interface AttributeChange {
  readonly key: string;
  /** Null deletes it. */
  readonly value: string | null;
}

/** What `workflow/api` and the library's own steps ask of the platform, by name. */
export const PLATFORM_CALLS = [
  /** ({workflowId}, args, options) → the run's id */
  "start",
  /** (runId, field) → its value; "returnValue" waits for the end */
  "runField",
  /** (runId, {cancelReason}) */
  "runCancel",
  /** (runId, {correlationIds}) → {stoppedCount} */
  "runWakeUp",
  /** (token or hook, payload) → {runId, hookId, token} */
  "resumeHook",
  /** (token) → {runId, hookId, token, metadata} */
  "getHookByToken",
  /** ({hookToken, streamName, runId, reason}): tells all who hold the signal */
  "abort",
  /** ({hookToken, streamName, runId}, token) → {reason} if it is aborted, else null; from now on
   *  the hook of that token is told as well */
  "followSignal",
  /** (The WritableStream of a Request that a manual webhook received, Response) */
  "respondWith",
] as const;
export type PlatformCall = (typeof PLATFORM_CALLS)[number];

export interface StepAccess {
  readonly streams: StepStreams;
  setAttributes(changes: readonly AttributeChange[]): Promise<void>;
  /** Values in and out are those of `PLAIN_REALM`. Rejects with an error of the codec's classes. */
  call(op: PlatformCall, args: readonly unknown[]): Promise<unknown>;
  /** Work of the body that goes on behind its outcome; its failure is logged. */
  track(work: Promise<unknown>): void;
  /** Waits for every write and all such work: none was under way, all landed, or time was up. */
  flushed(waitMsMax: number): Promise<"idle" | "landed" | "late">;
}
