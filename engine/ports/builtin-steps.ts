/**
 * Steps that the guest library itself asks for: what a workflow may do outside of itself without a
 * step of its own. They run under these names; arguments are listed beside each.
 */
export const BUILTIN_STEPS = {
  /** (Request data: {url, method, headers, body}) → Response */
  fetch: "__builtin_fetch",
  /** (WorkflowFunction or {workflowId}, args, options) → Run */
  start: "__builtin_start",
  /** (runId, field: "exists" | "status" | "returnValue" | "workflowName" | "createdAt" | …) → value */
  runField: "__builtin_run_field",
  /** (runId, {cancelReason}) */
  runCancel: "__builtin_run_cancel",
  /** (runId, {correlationIds}) → {stoppedCount} */
  runWakeUp: "__builtin_run_wake_up",
  /** ({hookToken, streamName, runId, reason}): tells all who hold the signal */
  abort: "__builtin_abort",
  /** ({hookToken, streamName, runId}, token of the hook that is to be told) → {reason} or null */
  followSignal: "__builtin_follow_signal",
  /** (The WritableStream of a Request that a manual webhook received, Response) */
  respondWith: "__builtin_respond_with",
  responseJson: "__builtin_response_json",
  responseText: "__builtin_response_text",
  responseArrayBuffer: "__builtin_response_array_buffer",
} as const;

/** The class under which a run's handle crosses: `Instance` data is `{ runId }`. */
export const RUN_CLASS_ID = "class//baton//Run";
