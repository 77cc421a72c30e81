/**
 * The error classes that workflow code meets. Readers match by `name` or by the class's `is()`,
 * which looks at the name too, so that an error is known again after a trip through a payload.
 */
import { durationMs } from "./duration.ts";
import {
  DateConstructor,
  ErrorConstructor,
  createObject,
  dateValue,
  define,
  isError,
  isPrototypeOf,
  keysOf,
} from "./primordials.ts";

export interface NamedError extends Error {
  readonly [field: string]: unknown;
}

export interface NamedErrorClass {
  new (message?: string, fields?: Readonly<Record<string, unknown>>): NamedError;
  readonly prototype: NamedError;
  is(value: unknown): boolean;
}

const classes = createObject(null) as Record<string, NamedErrorClass | undefined>;

/** The library's class for errors of this name, if it has one. */
export function errorClassOf(name: string): NamedErrorClass | undefined {
  return classes[name];
}

function isNamed(value: unknown, name: string): boolean {
  return isError(value) && value.name === name;
}

/** A class whose instances carry their fields, and `cause`, as own properties. */
function namedError(name: string): NamedErrorClass {
  const made = class extends ErrorConstructor {
    static is(value: unknown): boolean {
      return isNamed(value, name);
    }
    constructor(message?: string, fields?: Readonly<Record<string, unknown>>) {
      super(message);
      define(this, "name", name, false);
      if (fields === undefined || fields === null) return;
      const keys = keysOf(fields);
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i]!;
        define(this, key, fields[key], key !== "cause");
      }
    }
  } as unknown as NamedErrorClass;
  define(made, "name", name, false);
  classes[name] = made;
  return made;
}

/** A step that throws it is not tried again. */
export const FatalError = namedError("FatalError");
export const WorkflowRunFailedError = namedError("WorkflowRunFailedError");
export const WorkflowRunCancelledError = namedError("WorkflowRunCancelledError");
export const WorkflowRunNotFoundError = namedError("WorkflowRunNotFoundError");
export const WorkflowRunNotCompletedError = namedError("WorkflowRunNotCompletedError");
export const WorkflowNotRegisteredError = namedError("WorkflowNotRegisteredError");
export const StepNotRegisteredError = namedError("StepNotRegisteredError");
export const HookNotFoundError = namedError("HookNotFoundError");
export const HookForceClaimedError = namedError("HookForceClaimedError");
export const SerializationError = namedError("SerializationError");
export const QuotaExceededError = namedError("QuotaExceededError");
export const NotAvailableError = namedError("NotAvailableError");
/** The tenant's egress policy does not allow the request. */
export const EgressDeniedError = namedError("EgressDeniedError");
export const WorkflowRuntimeError = namedError("WorkflowRuntimeError");
export const ReplayDivergenceError = namedError("ReplayDivergenceError");
export const CorruptedEventLogError = namedError("CorruptedEventLogError");
export const MaxEventsExceededError = namedError("MaxEventsExceededError");
export const RunExpiredError = namedError("RunExpiredError");
export const RunNotSupportedError = namedError("RunNotSupportedError");
export const WorkflowWorldError = namedError("WorkflowWorldError");
export const EntityConflictError = namedError("EntityConflictError");
export const InBandSupersededError = namedError("InBandSupersededError");
export const ThrottleError = namedError("ThrottleError");
export const TooEarlyError = namedError("TooEarlyError");
export const PreconditionFailedError = namedError("PreconditionFailedError");
export const StreamError = namedError("StreamError");
export const StreamExpiredError = namedError("StreamExpiredError");
export const RuntimeDecryptionError = namedError("RuntimeDecryptionError");

const RETRY_AFTER_DEFAULT_MS = 1000;

export interface RetryableErrorOptions {
  /** Milliseconds from now, a duration, or the instant itself. */
  readonly retryAfter?: number | string | Date;
  readonly cause?: unknown;
}

/** A step that throws it is tried again, not before `retryAfter`. */
export class RetryableError extends ErrorConstructor {
  readonly retryAfter: Date;

  static is(value: unknown): boolean {
    return isNamed(value, "RetryableError");
  }

  constructor(message?: string, options: RetryableErrorOptions = {}) {
    super(message);
    define(this, "name", "RetryableError", false);
    const after = options.retryAfter ?? RETRY_AFTER_DEFAULT_MS;
    const isDate = typeof after === "object" && isPrototypeOf(DateConstructor.prototype, after);
    const at = isDate
      ? dateValue(after)
      : // Through the global, which is the guest clock in a heap and the real one on the host.
        Date.now() + durationMs(after, "RetryableError's retryAfter");
    this.retryAfter = new DateConstructor(at);
    if ("cause" in options) define(this, "cause", options.cause, false);
  }
}
classes["RetryableError"] = RetryableError as unknown as NamedErrorClass;

/** A hook's token is held by another run. */
export class HookConflictError extends ErrorConstructor {
  readonly token: string;
  readonly conflictingRunId: string | undefined;

  static is(value: unknown): boolean {
    return isNamed(value, "HookConflictError");
  }

  constructor(token: string, conflictingRunId?: string) {
    super(
      `the hook's token is held by ${conflictingRunId === undefined ? "another run" : `run ${conflictingRunId}`}`,
    );
    define(this, "name", "HookConflictError", false);
    this.token = token;
    this.conflictingRunId = conflictingRunId;
  }
}
classes["HookConflictError"] = HookConflictError as unknown as NamedErrorClass;

/** What `workflow/errors` exports. */
export const errorExports = {
  FatalError,
  RetryableError,
  WorkflowRunFailedError,
  WorkflowRunCancelledError,
  WorkflowRunNotFoundError,
  WorkflowRunNotCompletedError,
  WorkflowNotRegisteredError,
  StepNotRegisteredError,
  HookNotFoundError,
  HookConflictError,
  HookForceClaimedError,
  SerializationError,
  QuotaExceededError,
  NotAvailableError,
  EgressDeniedError,
  WorkflowRuntimeError,
  ReplayDivergenceError,
  CorruptedEventLogError,
  MaxEventsExceededError,
  RunExpiredError,
  RunNotSupportedError,
  WorkflowWorldError,
  EntityConflictError,
  InBandSupersededError,
  ThrottleError,
  TooEarlyError,
  PreconditionFailedError,
  StreamError,
  StreamExpiredError,
  RuntimeDecryptionError,
} as const;
