/**
 * Who runs the bodies of steps. The engine only knows names, bytes and outcomes; whether a body is
 * a function of the platform or sandboxed code of the tenant is decided behind this port.
 */
import type { EntityId, RunRef } from "../ids.ts";
import type { Payload } from "../payload.ts";
import type { StepAccess } from "./access.ts";
import type { HeapLimits } from "./sandbox.ts";

export interface StepTraits {
  /** Retries after the first attempt; 0 means at most one attempt per live owner. */
  readonly maxRetries: number;
}

/** How many times a step is tried again unless its function says otherwise. */
export const MAX_RETRIES_DEFAULT = 3;

export interface StepAttempt {
  readonly run: RunRef;
  readonly deploymentId: string;
  readonly workflowName: string;
  /** What `workflowStartedAt` reads, in epoch ms: the run's creation, as in the workflow's code. */
  readonly runStartedAt: number;
  readonly stepId: EntityId;
  readonly stepName: string;
  readonly input: Payload;
  /** From 1. */
  readonly attempt: number;
  /** A failure of this attempt is final: the runner wraps it as the SDK does. */
  readonly isLast: boolean;
  /** Epoch ms of the first attempt's start. */
  readonly stepStartedAt: number;
  readonly signal: AbortSignal;
  /** What the body may do to its run and to others of its tenant. */
  readonly access: StepAccess;
}

export type StepOutcome =
  | {
      readonly kind: "completed";
      readonly result: Payload;
      /** Writes to streams that the body began are still on their way (spec: "Stream-flush handoff"). */
      readonly isFlushing?: true;
    }
  | {
      readonly kind: "failed";
      readonly error: Payload;
      /** No retry, whatever is left (a `FatalError`, an aborted body, a bad result). */
      readonly isFatal: boolean;
      /** What a `RetryableError` asked for, epoch ms; null: the default back-off. */
      readonly retryAt: number | null;
    }
  /** Cut short by what was not its own doing; does not count as an attempt. */
  | { readonly kind: "interrupted"; readonly reason: string };

export interface StepRunner {
  /** Null: nothing here can run it, perhaps another process can. */
  traitsOf(run: RunRef, deploymentId: string, stepName: string): Promise<StepTraits | null>;
  /** Never rejects for what the body does. */
  run(attempt: StepAttempt): Promise<StepOutcome>;
}

/** What one attempt of a sandboxed body may use. */
export interface StepLimits {
  /** The CPU limits are those of one turn: what the body does between two waits. */
  readonly heap: HeapLimits;
  /** Of the CPU, next to other tenants' heaps; 1 if absent. */
  readonly cpuWeight?: number;
  /** CPU of all turns together. */
  readonly cpuMsMax: number;
  /** From the first turn to the outcome. */
  readonly wallMsMax: number;
  /** Timers, requests and other calls to the host that are open at once. */
  readonly callsOpenMax: number;
  readonly responseBytesMax: number;
  readonly consoleBytesMax: number;
}

/** What the `FatalError` says that stands for the last failure of a step. */
export function exhaustionText(stepName: string, attempt: number, lastMessage: string): string {
  const retries = attempt - 1;
  const times = retries === 1 ? "1 retry" : `${retries} retries`;
  return `Step "${stepName}" failed after ${times}: ${lastMessage}`;
}

/** A step function inside a payload: which step, and what is bound to it. */
export interface StepReference {
  readonly stepId: string;
  readonly closureVars?: unknown;
  readonly boundThis?: unknown;
  readonly boundArgs?: readonly unknown[];
}

/** What host code has beyond plain data, for the codec that reads and writes its payloads. */
export interface HostRealm {
  /** Classes by class id; their static methods may be called, since trusted code registered them. */
  readonly classes: ReadonlyMap<string, object>;
  /** The callable function of a reference that arrived. */
  stepFunction(reference: StepReference): unknown;
  /** The reference of a function that is a step; null for any other value. */
  stepReference(value: unknown): StepReference | null;
  /** Streams, signals and the like; absent: they are carried, and cannot be used. */
  readonly live?: LiveValues;
}

/** Values that are more than data, by the tag under which they cross. */
export interface LiveValues {
  readonly tags: readonly string[];
  /** The fields under the tag; null: the value is not of it. */
  dataOf(tag: string, value: object): Readonly<Record<string, unknown>> | null;
  valueOf(tag: string, data: Readonly<Record<string, unknown>>): unknown;
}

/** Data only: what is more is carried as it came. */
export const PLAIN_REALM: HostRealm = {
  classes: new Map(),
  stepFunction: (reference) => reference,
  stepReference: () => null,
};

/** How host code reads and writes payloads; the same encoding as in heaps. */
export interface HostCodec {
  /** Throws an error named `SerializationError`, or a `BatonError`. */
  decode(payload: Payload, realm: HostRealm): unknown;
  /** `what` names the value in the error, named `SerializationError`, where it has no encoding. */
  encode(value: unknown, what: string, realm: HostRealm): Payload;
  /** The value of a time, epoch ms. */
  date(atMs: number): unknown;
  /** A value that crosses under the tag, whatever realm encodes it. */
  tagged(tag: string, data: unknown): unknown;
  /** The data of a value that was carried under the tag; null for any other. */
  carried(tag: string, value: unknown): Readonly<Record<string, unknown>> | null;
  /** The classes that revived errors are instances of, by name. */
  readonly errors: Readonly<Record<string, ErrorClass>>;
}

export type ErrorClass = new (
  message?: string,
  fields?: Readonly<Record<string, unknown>>,
) => Error;
