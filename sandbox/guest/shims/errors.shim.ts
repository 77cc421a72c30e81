/** What `import … from "workflow/errors"` and `"@workflow/errors"` become in a bundle. */
import { library } from "./library.ts";

const { errors } = library;

export const CorruptedEventLogError = errors["CorruptedEventLogError"];
export const EntityConflictError = errors["EntityConflictError"];
export const FatalError = errors["FatalError"];
export const HookConflictError = errors["HookConflictError"];
export const HookForceClaimedError = errors["HookForceClaimedError"];
export const HookNotFoundError = errors["HookNotFoundError"];
export const InBandSupersededError = errors["InBandSupersededError"];
export const MaxEventsExceededError = errors["MaxEventsExceededError"];
export const NotAvailableError = errors["NotAvailableError"];
export const PreconditionFailedError = errors["PreconditionFailedError"];
export const QuotaExceededError = errors["QuotaExceededError"];
export const ReplayDivergenceError = errors["ReplayDivergenceError"];
export const RetryableError = errors["RetryableError"];
export const RunExpiredError = errors["RunExpiredError"];
export const RunNotSupportedError = errors["RunNotSupportedError"];
export const RuntimeDecryptionError = errors["RuntimeDecryptionError"];
export const SerializationError = errors["SerializationError"];
export const StepNotRegisteredError = errors["StepNotRegisteredError"];
export const StreamError = errors["StreamError"];
export const StreamExpiredError = errors["StreamExpiredError"];
export const ThrottleError = errors["ThrottleError"];
export const TooEarlyError = errors["TooEarlyError"];
export const WorkflowNotRegisteredError = errors["WorkflowNotRegisteredError"];
export const WorkflowRunCancelledError = errors["WorkflowRunCancelledError"];
export const WorkflowRunFailedError = errors["WorkflowRunFailedError"];
export const WorkflowRunNotCompletedError = errors["WorkflowRunNotCompletedError"];
export const WorkflowRunNotFoundError = errors["WorkflowRunNotFoundError"];
export const WorkflowRuntimeError = errors["WorkflowRuntimeError"];
export const WorkflowWorldError = errors["WorkflowWorldError"];
