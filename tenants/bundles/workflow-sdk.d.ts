/**
 * The types of what tenants' code imports: the Workflow SDK's names, as this build's bundles have
 * them. Exported as `baton/workflow`: put it under `types` in a project's tsconfig, or install the
 * SDK's own types instead.
 *
 * Owns signatures only; what they do is the guest library's.
 */

declare module "workflow" {
  import type { Run } from "workflow/api";

  /** Milliseconds, or text such as `"30s"`, `"5 minutes"`, `"7d"`. */
  export type Duration = number | string;

  /** A schema of any library that keeps the Standard Schema form. */
  export interface StandardSchema<T> {
    readonly "~standard": {
      readonly validate: (value: unknown) => unknown;
      readonly types?: { readonly input: unknown; readonly output: T } | undefined;
    };
  }

  export interface HookOptions {
    /** The address of payloads, unique in the tenant; random if left out. */
    readonly token?: string;
    readonly metadata?: unknown;
    /** How long the token stays taken after its run has ended. */
    readonly experimental_minRetention?: Duration;
    /** Takes the token even from a run that holds it. */
    readonly experimental_force?: boolean;
  }

  /** Awaited it gives the next payload, looped over all of them, in the order of the log. */
  export interface Hook<T> extends PromiseLike<T>, AsyncIterable<T>, Disposable {
    readonly token: string;
    /** The run that holds the token, or null once it is this one. */
    getConflict(): Promise<Run<unknown> | null>;
    /** No payload is taken any more: loops end. */
    dispose(): void;
  }

  export interface WebhookOptions {
    /** What each request is answered with at once, or `"manual"`; absent: 202 and no body. */
    readonly respondWith?: Response | "manual";
    readonly metadata?: unknown;
  }

  /** A request that waits for the workflow's answer, where the webhook is `"manual"`. */
  export interface RequestWithResponse extends Request {
    respondWith(response: Response): Promise<void>;
  }

  export interface Webhook<T extends Request = Request> extends Hook<T> {
    readonly url: string;
  }

  export interface DefinedHook<T> {
    create(options?: HookOptions): Hook<T>;
    /** Outside of workflows only. */
    resume(token: string, payload: T): Promise<unknown>;
  }

  /** Ends after a duration, or at an instant. Costs nothing while it lasts. */
  export function sleep(duration: Duration | Date): Promise<void>;
  export function createHook<T = unknown>(options?: HookOptions): Hook<T>;
  export function createWebhook(
    options: WebhookOptions & { readonly respondWith: "manual" },
  ): Webhook<RequestWithResponse>;
  export function createWebhook(options?: WebhookOptions): Webhook;
  /** A hook with a type, and with a check of its payloads where a schema is given. */
  export function defineHook<T = unknown>(definition?: {
    readonly schema?: StandardSchema<T>;
  }): DefinedHook<T>;
  /** As the global one, as a step; the global one is not there in workflows. */
  export function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** A stream of the run: a handle in workflows, which steps write to. */
  export function getWritable<T = unknown>(options?: {
    readonly namespace?: string;
  }): WritableStream<T>;
  /** Keys of 1 to 256 characters, values of up to 256 bytes; `undefined` deletes. */
  export function setAttributes(
    attributes: Readonly<Record<string, string | undefined>>,
    options?: { readonly allowReservedAttributes?: boolean },
  ): Promise<void>;
  export function getWorkflowMetadata(): {
    readonly workflowName: string;
    readonly workflowRunId: string;
    readonly workflowStartedAt: Date;
    readonly url: string;
    readonly features: { readonly encryption: boolean };
  };
  /** In steps only. */
  export function getStepMetadata(): {
    readonly stepName: string;
    readonly stepId: string;
    /** When the first attempt began. */
    readonly stepStartedAt: Date;
    /** From 1. */
    readonly attempt: number;
  };

  export { FatalError, RetryableError } from "workflow/errors";
}

declare module "workflow/api" {
  export interface StartOptions {
    readonly attributes?: Readonly<Record<string, string>>;
    readonly allowReservedAttributes?: boolean;
  }

  /** Another run. In workflows each look and each call is a durable step. */
  export class Run<T> {
    readonly runId: string;
    readonly exists: Promise<boolean>;
    readonly status: Promise<"pending" | "running" | "completed" | "failed" | "cancelled">;
    /** Rejects with `WorkflowRunFailedError` or `WorkflowRunCancelledError`. */
    readonly returnValue: Promise<T>;
    readonly workflowName: Promise<string>;
    readonly createdAt: Promise<Date>;
    readonly startedAt: Promise<Date | undefined>;
    readonly completedAt: Promise<Date | undefined>;
    cancel(options?: { readonly cancelReason?: string }): Promise<void>;
    wakeUp(options?: {
      readonly correlationIds?: readonly string[];
    }): Promise<{ readonly stoppedCount: number }>;
    /** In steps only: chunks that its steps wrote, live. */
    getReadable<R = unknown>(options?: {
      readonly namespace?: string;
      readonly startIndex?: number;
    }): ReadableStream<R>;
  }

  /** Starts a workflow of the same bundle. */
  export function start<A extends readonly unknown[], T>(
    workflow: (...args: A) => Promise<T>,
    args: A,
    options?: StartOptions,
  ): Promise<Run<T>>;
  export function start<T>(workflow: () => Promise<T>, options?: StartOptions): Promise<Run<T>>;
  export function start(
    workflow: { readonly workflowId: string },
    args?: readonly unknown[],
    options?: StartOptions,
  ): Promise<Run<unknown>>;
  export function getRun<T = unknown>(runId: string): Run<T>;
  /** In steps only. */
  export function resumeHook(
    hook: string | { readonly token: string },
    payload: unknown,
  ): Promise<unknown>;
  /** In steps only; `HookNotFoundError` if no run of the tenant holds the token. */
  export function getHookByToken(token: string): Promise<{
    readonly runId: string;
    readonly token: string;
    readonly metadata: Promise<unknown>;
  }>;
}

declare module "workflow/errors" {
  // Each says by name whether a value is one, so that it holds across bundles.

  /** A step that throws it is not tried again. */
  export class FatalError extends Error {
    static is(value: unknown): value is FatalError;
  }
  /** A step that throws it is tried again, not before `retryAfter`; a second by default. */
  export class RetryableError extends Error {
    constructor(
      message?: string,
      options?: { readonly retryAfter?: number | string | Date; readonly cause?: unknown },
    );
    readonly retryAfter: Date;
    static is(value: unknown): value is RetryableError;
  }
  /** The token of a new hook is held by another run. */
  export class HookConflictError extends Error {
    readonly token: string;
    readonly conflictingRunId: string | undefined;
    static is(value: unknown): value is HookConflictError;
  }
  export class CorruptedEventLogError extends Error {
    static is(value: unknown): value is CorruptedEventLogError;
  }
  export class EntityConflictError extends Error {
    static is(value: unknown): value is EntityConflictError;
  }
  export class HookForceClaimedError extends Error {
    static is(value: unknown): value is HookForceClaimedError;
  }
  export class HookNotFoundError extends Error {
    static is(value: unknown): value is HookNotFoundError;
  }
  export class InBandSupersededError extends Error {
    static is(value: unknown): value is InBandSupersededError;
  }
  export class MaxEventsExceededError extends Error {
    static is(value: unknown): value is MaxEventsExceededError;
  }
  export class NotAvailableError extends Error {
    static is(value: unknown): value is NotAvailableError;
  }
  export class PreconditionFailedError extends Error {
    static is(value: unknown): value is PreconditionFailedError;
  }
  export class QuotaExceededError extends Error {
    static is(value: unknown): value is QuotaExceededError;
  }
  export class ReplayDivergenceError extends Error {
    static is(value: unknown): value is ReplayDivergenceError;
  }
  export class RunExpiredError extends Error {
    static is(value: unknown): value is RunExpiredError;
  }
  export class RunNotSupportedError extends Error {
    static is(value: unknown): value is RunNotSupportedError;
  }
  export class RuntimeDecryptionError extends Error {
    static is(value: unknown): value is RuntimeDecryptionError;
  }
  export class SerializationError extends Error {
    static is(value: unknown): value is SerializationError;
  }
  export class StepNotRegisteredError extends Error {
    static is(value: unknown): value is StepNotRegisteredError;
  }
  export class StreamError extends Error {
    static is(value: unknown): value is StreamError;
  }
  export class StreamExpiredError extends Error {
    static is(value: unknown): value is StreamExpiredError;
  }
  export class ThrottleError extends Error {
    static is(value: unknown): value is ThrottleError;
  }
  export class TooEarlyError extends Error {
    static is(value: unknown): value is TooEarlyError;
  }
  export class WorkflowNotRegisteredError extends Error {
    static is(value: unknown): value is WorkflowNotRegisteredError;
  }
  export class WorkflowRunCancelledError extends Error {
    readonly runId: string;
    static is(value: unknown): value is WorkflowRunCancelledError;
  }
  export class WorkflowRunFailedError extends Error {
    readonly runId: string;
    readonly errorCode: string;
    static is(value: unknown): value is WorkflowRunFailedError;
  }
  export class WorkflowRunNotCompletedError extends Error {
    static is(value: unknown): value is WorkflowRunNotCompletedError;
  }
  export class WorkflowRunNotFoundError extends Error {
    static is(value: unknown): value is WorkflowRunNotFoundError;
  }
  export class WorkflowRuntimeError extends Error {
    static is(value: unknown): value is WorkflowRuntimeError;
  }
  export class WorkflowWorldError extends Error {
    static is(value: unknown): value is WorkflowWorldError;
  }
}

declare module "@workflow/errors" {
  export * from "workflow/errors";
}

declare module "@workflow/serde" {
  /** A class's static method under it gives the data that its instances cross as. */
  export const WORKFLOW_SERIALIZE: unique symbol;
  /** A class's static method under it makes an instance of such data. */
  export const WORKFLOW_DESERIALIZE: unique symbol;
}
