/**
 * The Workflow SDK's types, as far as the examples and tests of this repository use them. A project
 * of its own installs them with the SDK instead; the bundler resolves the modules to Baton's library.
 */
declare module "workflow" {
  import type { Run } from "workflow/api";

  export interface Hook<T> extends PromiseLike<T>, AsyncIterable<T>, Disposable {
    readonly token: string;
    /** The run that holds the token, or null once it is this one. */
    getConflict(): Promise<Run<unknown> | null>;
    dispose(): void;
  }
  export interface HookOptions {
    token?: string;
    metadata?: unknown;
    experimental_minRetention?: number | string;
    experimental_force?: boolean;
  }
  export interface RequestWithResponse extends Request {
    respondWith(response: Response): Promise<void>;
  }
  export interface Webhook<T extends Request = Request> extends Hook<T> {
    readonly url: string;
  }
  export interface Schema<T> {
    readonly "~standard": {
      readonly version: 1;
      readonly vendor: string;
      validate(
        value: unknown,
      ): { readonly value: T } | { readonly issues: readonly { readonly message: string }[] };
    };
  }
  export interface DefinedHook<T> {
    create(options?: HookOptions): Hook<T>;
    resume(token: string, payload: T): Promise<unknown>;
  }
  export function sleep(duration: string | number | Date): Promise<void>;
  export function createHook<T>(options?: HookOptions): Hook<T>;
  export function createWebhook(options: {
    respondWith: "manual";
    metadata?: unknown;
  }): Webhook<RequestWithResponse>;
  export function createWebhook(options?: { respondWith?: Response; metadata?: unknown }): Webhook;
  export function defineHook<T>(definition?: { schema?: Schema<T> }): DefinedHook<T>;
  export function getWorkflowMetadata(): {
    workflowName: string;
    workflowRunId: string;
    workflowStartedAt: Date;
    url: string;
    features: { encryption: boolean };
  };
  export function getStepMetadata(): {
    stepName: string;
    stepId: string;
    stepStartedAt: Date;
    attempt: number;
  };
  export function getWritable<T = unknown>(options?: { namespace?: string }): WritableStream<T>;
  export function setAttributes(
    changes: Record<string, string | undefined>,
    options?: { allowReservedAttributes?: boolean },
  ): Promise<void>;
  export const fetch: typeof globalThis.fetch;
  export class FatalError extends Error {
    static is(value: unknown): value is FatalError;
  }
  export class RetryableError extends Error {
    static is(value: unknown): value is RetryableError;
    readonly retryAfter: Date;
    constructor(message: string, options?: { retryAfter?: number | string | Date });
  }
}

declare module "workflow/api" {
  export class Run<T> {
    readonly runId: string;
    readonly exists: Promise<boolean>;
    readonly status: Promise<string>;
    readonly returnValue: Promise<T>;
    readonly workflowName: Promise<string>;
    readonly createdAt: Promise<Date>;
    readonly startedAt: Promise<Date | undefined>;
    readonly completedAt: Promise<Date | undefined>;
    cancel(options?: { cancelReason?: string }): Promise<void>;
    wakeUp(options?: { correlationIds?: string[] }): Promise<{ stoppedCount: number }>;
    getReadable<R>(options?: { namespace?: string; startIndex?: number }): ReadableStream<R>;
  }
  export interface StartOptions {
    attributes?: Record<string, string>;
  }
  export function start<A extends unknown[], R>(
    workflow: (...args: A) => Promise<R>,
    args: A,
    options?: StartOptions,
  ): Promise<Run<R>>;
  export function start<R>(workflow: () => Promise<R>, options?: StartOptions): Promise<Run<R>>;
  export function getRun<T>(runId: string): Run<T>;
  export function resumeHook(token: string, payload: unknown): Promise<unknown>;
  export function getHookByToken(
    token: string,
  ): Promise<{ runId: string; token: string; metadata: Promise<unknown> }>;
}

declare module "workflow/errors" {
  export { FatalError, RetryableError } from "workflow";
  export class HookConflictError extends Error {
    static is(value: unknown): value is HookConflictError;
    readonly token: string;
    readonly conflictingRunId: string;
  }
  export class HookNotFoundError extends Error {
    static is(value: unknown): value is HookNotFoundError;
  }
  export class SerializationError extends Error {
    static is(value: unknown): value is SerializationError;
  }
  export class StepNotRegisteredError extends Error {
    static is(value: unknown): value is StepNotRegisteredError;
  }
  export class WorkflowRunFailedError extends Error {
    static is(value: unknown): value is WorkflowRunFailedError;
    readonly runId: string;
    readonly errorCode: string;
  }
  export class WorkflowRunCancelledError extends Error {
    static is(value: unknown): value is WorkflowRunCancelledError;
    readonly runId: string;
  }
}

declare module "@workflow/serde" {
  export const WORKFLOW_SERIALIZE: unique symbol;
  export const WORKFLOW_DESERIALIZE: unique symbol;
}
