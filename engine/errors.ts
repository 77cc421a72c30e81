/**
 * Every error that Baton raises on purpose, by a stable code.
 *
 * Three families, never mixed: `InvariantViolation` (ours, in assert.ts), the outside (World,
 * network: `WorldUnavailable`), and the guest's or the tenant's (everything else here). Readers
 * match on `code` or on `name`, never on a message. The names are the Workflow SDK's where it has
 * one, since its users match by name.
 */

interface ErrorEntry {
  /** The class name that readers see. */
  readonly name: string;
  /** The HTTP status it answers with. */
  readonly status: number;
  /** When it happens. */
  readonly when: string;
  /** What the reader should do. */
  readonly todo: string;
}

/** The one table of error codes. The docs are generated from it. */
export const ERROR_TABLE = {
  INVALID_ARGUMENT: {
    name: "InvalidArgumentError",
    status: 400,
    when: "A value that was passed in has the wrong form or is out of range.",
    todo: "Read `field` and `allowed` on the error and pass such a value.",
  },
  IN_BAND_COUNT_MISSING: {
    name: "WorkflowWorldError",
    status: 400,
    when: "An in-band write came without the in-band count it was decided from.",
    todo: "Send `expectedSeqInBand` from the counts of the log load.",
  },
  BATCH_REFUSED: {
    name: "WorkflowWorldError",
    status: 400,
    when: "A batch holds an event that batches do not take, or is over the batch limits.",
    todo: "Send only step and wait events, within the limits that the error names.",
  },
  SNAPSHOT_MISSING: {
    name: "WorkflowWorldError",
    status: 500,
    when: "A World returned a page of a log without its counts.",
    todo: "Fix the World: every page of `events.list` carries `snapshot`.",
  },
  IN_BAND_SUPERSEDED: {
    name: "InBandSupersededError",
    status: 412,
    when: "Another in-band writer has written since this one loaded the log.",
    todo: "Stop, send what committed writes owe, and have the message delivered again.",
  },
  ENTITY_CONFLICT: {
    name: "EntityConflictError",
    status: 409,
    when: "The event does not fit an entity that the run already has.",
    todo: "Read the log; the write that was there first stands.",
  },
  WAIT_COMPLETION_IN_BAND_ONLY: {
    name: "EntityConflictError",
    status: 409,
    when: "Someone other than the orchestrator tried to complete a wait.",
    todo: "Ask with `wakeUp()`, which writes `wake_requested`.",
  },
  BATCH_EARLIER_ITEM_FAILED: {
    name: "EntityConflictError",
    status: 409,
    when: "An earlier item of the same batch and the same entity was refused.",
    todo: "Plan again from the log; the refused item is asked for once more.",
  },
  RUN_EXPIRED: {
    name: "RunExpiredError",
    status: 410,
    when: "The run is over, and the event would start something new in it.",
    todo: "Nothing; acknowledge the message.",
  },
  RUN_NOT_FOUND: {
    name: "WorkflowRunNotFoundError",
    status: 404,
    when: "The tenant has no run of this id.",
    todo: "Check the id and the tenant it belongs to.",
  },
  RUN_NOT_COMPLETED: {
    name: "WorkflowRunNotCompletedError",
    status: 409,
    when: "A result was asked of a run that has none yet.",
    todo: "Wait for `returnValue`, or look at `status` first.",
  },
  RUN_FAILED: {
    name: "WorkflowRunFailedError",
    status: 409,
    when: "The result was asked of a run that failed.",
    todo: "Look at `cause`, the value that the workflow threw, and at `errorCode`.",
  },
  RUN_CANCELLED: {
    name: "WorkflowRunCancelledError",
    status: 409,
    when: "The result was asked of a run that was cancelled.",
    todo: "Nothing; the run ended by request.",
  },
  RUN_NOT_SUPPORTED: {
    name: "RunNotSupportedError",
    status: 409,
    when: "The run was made with a version that this build does not know.",
    todo: "Run a build that knows the version; reads work, writes are refused.",
  },
  WORKFLOW_NOT_REGISTERED: {
    name: "WorkflowNotRegisteredError",
    status: 404,
    when: "The bundle has no workflow of this name.",
    todo: "Deploy a bundle that has it, or fix the name.",
  },
  STEP_NOT_REGISTERED: {
    name: "StepNotRegisteredError",
    status: 404,
    when: "Nothing here can run a step of this name.",
    todo: "Register the step, or run a worker that has it.",
  },
  BUNDLE_NOT_FOUND: {
    name: "BundleNotFoundError",
    status: 404,
    when: "The tenant has no bundle of this hash or alias.",
    todo: "Upload it, then start the run again or unpark it.",
  },
  BUNDLE_IN_USE: {
    name: "EntityConflictError",
    status: 409,
    when: "A bundle is to be deleted that an alias names or an open run is on.",
    todo: "Point the alias at another bundle; let the runs end, or cancel them.",
  },
  BUNDLE_REFUSED: {
    name: "BundleRefusedError",
    status: 422,
    when: "A bundle could not be built or admitted.",
    todo: "Fix the source at the file and line that the error names.",
  },
  BUNDLE_TOO_LARGE: {
    name: "QuotaExceededError",
    status: 413,
    when: "A bundle is larger than its tenant may upload.",
    todo: "Leave out what workflows and steps do not need, or ask for a higher limit.",
  },
  BUNDLES_KEPT: {
    name: "QuotaExceededError",
    status: 409,
    when: "A tenant keeps as many bundles as it may.",
    todo: "Delete bundles that no run is on, or ask for a higher limit.",
  },
  HOOK_NOT_FOUND: {
    name: "HookNotFoundError",
    status: 404,
    when: "The tenant has no open hook of this token.",
    todo: "Check the token; the hook may be disposed, or its run over.",
  },
  HOOK_CONFLICT: {
    name: "HookConflictError",
    status: 409,
    when: "A hook was created with a token that another run of the tenant holds.",
    todo: "Use another token, or wait until `conflictingRunId` has ended.",
  },
  SERIALIZATION_FAILED: {
    name: "SerializationError",
    status: 400,
    when: "A value cannot be written as, or read from, a payload.",
    todo: "Pass values that the docs list, or give the class serialization methods.",
  },
  REPLAY_DIVERGENCE: {
    name: "ReplayDivergenceError",
    status: 500,
    when: "The code asks for something else than the log holds at that point.",
    todo: "Keep workflows deterministic; the run is parked with what was expected and found.",
  },
  SNAPSHOT_MISMATCH: {
    name: "SnapshotMismatchError",
    status: 500,
    when: "A resumed heap asks for something else than a replay of its log from the start.",
    todo: "Report it; the replay was followed, and the snapshot is gone.",
  },
  CORRUPTED_EVENT_LOG: {
    name: "CorruptedEventLogError",
    status: 500,
    when: "A log has a gap, or an event that no writer of ours makes.",
    todo: "Restore the store from a backup, then `baton unpark`.",
  },
  MAX_DELIVERIES_EXCEEDED: {
    name: "WorkflowRuntimeError",
    status: 500,
    when: "A message was delivered too often without getting the run further.",
    todo: "Look at the log lines of the deliveries; start the run again once mended.",
  },
  MAX_EVENTS_EXCEEDED: {
    name: "MaxEventsExceededError",
    status: 413,
    when: "A run has written as many events as its tenant allows.",
    todo: "Split the work over several runs, or ask for a higher limit.",
  },
  HEAP_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "A run's heap needed more memory than its tenant allows.",
    todo: "Hold less at once, or ask for a higher heap limit.",
  },
  CPU_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "One event kept the workflow's code busy for longer than its tenant allows.",
    todo: "Move work into steps; look for a loop that never awaits.",
  },
  STACK_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "The workflow's code recursed so deep that its heap had to be given up.",
    todo: "Recurse less deeply.",
  },
  HEAP_BROKEN: {
    name: "HeapBrokenError",
    status: 500,
    when: "The run's code broke its heap, and once more in a fresh one.",
    todo: "Report the workflow; it met a fault of the JavaScript engine that it runs in.",
  },
  WALL_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "A sandboxed step took longer than its tenant allows.",
    todo: "Split the step, or give its requests a time limit of their own.",
  },
  JOB_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "One event made the workflow run more promise jobs than allowed.",
    todo: "Look for a promise loop that waits for nothing outside.",
  },
  DECISION_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "A run asked for more steps, waits and hooks at once than its tenant allows.",
    todo: "Start fewer at a time.",
  },
  PAYLOAD_LIMIT_EXCEEDED: {
    name: "QuotaExceededError",
    status: 413,
    when: "One value is larger than a payload may be.",
    todo: "Pass a reference to where the data is, or a smaller value.",
  },
  GUEST_PROTOCOL_VIOLATION: {
    name: "QuotaExceededError",
    status: 422,
    when: "A heap answered with something that our guest library never writes.",
    todo: "Do not tamper with the guest library; the run was stopped.",
  },
  QUOTA_EXCEEDED: {
    name: "QuotaExceededError",
    status: 429,
    when: "A tenant has used up what its quota allows.",
    todo: "Look at `field`, `used` and `allowed`; wait, or ask for more.",
  },
  STORED_BYTES_EXCEEDED: {
    name: "QuotaExceededError",
    status: 507,
    when: "A tenant has stored as much as it may; at twice as much its running runs fail.",
    todo: "Delete what is not needed, wait for finished runs to be removed, or ask for more.",
  },
  RUN_FEED_LIMIT: {
    name: "ThrottleError",
    status: 429,
    when: "A run or a tenant has as many live feeds as it may have.",
    todo: "Close one, or poll.",
  },
  TENANT_NOT_FOUND: {
    name: "TenantNotFoundError",
    status: 404,
    when: "There is no tenant of this id.",
    todo: "Create it first.",
  },
  API_KEY_REFUSED: {
    name: "ApiKeyRefusedError",
    status: 401,
    when: "A key is not one of a tenant's: unknown, revoked, expired or malformed, which look alike.",
    todo: "Send a key that the operator issued and has not revoked.",
  },
  TENANT_SUSPENDED: {
    name: "TenantSuspendedError",
    status: 403,
    when: "The tenant is suspended or being deleted.",
    todo: "Ask the operator.",
  },
  PAYLOAD_UNREADABLE: {
    name: "RuntimeDecryptionError",
    status: 500,
    when: "Stored bytes do not open with the tenant's key, or are no payload.",
    todo: "Check the master key; if it is right, the stored bytes were changed.",
  },
  MASTER_KEY: {
    name: "MasterKeyError",
    status: 500,
    when: "The master key is missing, malformed, or not the one that wrapped the data keys.",
    todo: "Give the process the key file it was set up with.",
  },
  WORLD_LOCKED: {
    name: "WorkflowWorldError",
    status: 423,
    when: "Another process has this World open for writing.",
    todo: "Stop that process, or open the World read-only.",
  },
  WORLD_READ_ONLY: {
    name: "WorkflowWorldError",
    status: 403,
    when: "Something that writes was asked of a World that was opened for reading.",
    todo: "Ask the process that has it open for writing.",
  },
  WORLD_UNAVAILABLE: {
    name: "WorldUnavailableError",
    status: 503,
    when: "The World did not answer; what was sent may or may not have been done.",
    todo: "Nothing; the message is delivered again and the log decides.",
  },
  WORLD_VERSION: {
    name: "WorkflowWorldError",
    status: 500,
    when: "The stored data has a schema that this build does not know.",
    todo: "Run a newer build; data is never downgraded.",
  },
  THROTTLED: {
    name: "ThrottleError",
    status: 429,
    when: "The World asks for less load.",
    todo: "Try again after `retryAfterMs`.",
  },
  NOT_REACHED: {
    name: "NotReachedError",
    status: 409,
    when: "A test waited for something that its run did not come to.",
    todo: "Read what the run was doing instead: move the clock, let a held step go, or fix the code.",
  },
  UNFINISHED: {
    name: "NotAvailableError",
    status: 501,
    when: "The operation is part of the contract but this build does not offer it.",
    todo: "Do without it; it is refused rather than half done.",
  },
  CLOSED: {
    name: "ClosedError",
    status: 503,
    when: "The object was closed and does nothing more.",
    todo: "Open a new one.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERROR_TABLE;

/** What a reader needs to act: plain data, no tenant payloads. */
export interface ErrorDetails {
  /** The argument, quota or setting that the error is about. */
  readonly field?: string;
  /** What was found or used: a number with its unit in `field`, or a short text. */
  readonly used?: string | number;
  /** What would have been allowed. */
  readonly allowed?: string | number;
  readonly retryAfterMs?: number;
  readonly [more: string]: unknown;
}

/** An expected failure with a stable code; `name` follows from the code. */
export class BatonError extends Error {
  override readonly name: string;
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    const entry = ERROR_TABLE[code];
    this.name = entry.name;
    this.code = code;
    this.status = entry.status;
    this.details = details;
  }
}

export function isBatonError(error: unknown, code?: ErrorCode): error is BatonError {
  return error instanceof BatonError && (code === undefined || error.code === code);
}

/** The codes that a run can fail with, as readers see them in `run_failed`. */
export const RUN_ERROR_CODES = [
  "USER_ERROR",
  "RUNTIME_ERROR",
  "CORRUPTED_EVENT_LOG",
  "REPLAY_DIVERGENCE",
  "MAX_DELIVERIES_EXCEEDED",
  "MAX_EVENTS_EXCEEDED",
  "REPLAY_TIMEOUT",
  "STREAM_ERROR",
  "WORLD_CONTRACT_ERROR",
  "DEPLOYMENT_MISMATCH",
  "HEAP_LIMIT_EXCEEDED",
  "CPU_LIMIT_EXCEEDED",
  "STACK_LIMIT_EXCEEDED",
  "HEAP_BROKEN",
  "JOB_LIMIT_EXCEEDED",
  "DECISION_LIMIT_EXCEEDED",
  "PAYLOAD_LIMIT_EXCEEDED",
  "STORED_BYTES_EXCEEDED",
  "GUEST_PROTOCOL_VIOLATION",
] as const;

export type RunErrorCode = (typeof RUN_ERROR_CODES)[number];
