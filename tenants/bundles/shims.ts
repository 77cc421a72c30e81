/**
 * What the Workflow SDK's module names mean inside a bundle.
 *
 * On the workflow side they are the guest library's modules, built beside it. On the step side they
 * are a few lines that read what the place where steps run (`host-steps.ts`, or a step heap) has put
 * under `Symbol.for("baton.step")`, so that one step bundle runs in either.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Shims } from "./side-build.ts";

const require = createRequire(import.meta.url);

const WORKFLOW_FILES = {
  workflow: "workflow",
  "workflow/api": "api",
  "workflow/errors": "errors",
  "@workflow/errors": "errors",
  "@workflow/serde": "serde",
} as const;

/** The modules of the workflow side, from the built guest library. */
export function workflowShims(): Shims {
  return Object.fromEntries(
    Object.entries(WORKFLOW_FILES).map(([specifier, name]) => [
      specifier,
      readFileSync(require.resolve(`#built/shims/${name}.js`), "utf8"),
    ]),
  );
}

/** The guest library of this build: every bundle is pinned to the one it was built with. */
export function guestLibraryText(): string {
  return readFileSync(require.resolve("#built/guest/workflow.js"), "utf8");
}

/** What `Symbol.for("baton.step")` holds: the exports of each module. */
export const STEP_EXPORTS = {
  workflow: [
    "sleep",
    "createHook",
    "createWebhook",
    "defineHook",
    "getWorkflowMetadata",
    "getStepMetadata",
    "getWritable",
    "setAttributes",
    "fetch",
    "FatalError",
    "RetryableError",
  ],
  api: [
    "start",
    "getRun",
    "Run",
    "resumeHook",
    "getHookByToken",
    "resumeWebhook",
    "registerLifecycleHooks",
  ],
  errors: [
    "FatalError",
    "RetryableError",
    "WorkflowRunFailedError",
    "WorkflowRunCancelledError",
    "WorkflowRunNotFoundError",
    "WorkflowRunNotCompletedError",
    "WorkflowNotRegisteredError",
    "StepNotRegisteredError",
    "HookNotFoundError",
    "HookConflictError",
    "HookForceClaimedError",
    "SerializationError",
    "QuotaExceededError",
    "NotAvailableError",
    "WorkflowRuntimeError",
    "ReplayDivergenceError",
    "CorruptedEventLogError",
    "MaxEventsExceededError",
    "RunExpiredError",
    "RunNotSupportedError",
    "WorkflowWorldError",
    "EntityConflictError",
    "InBandSupersededError",
    "ThrottleError",
    "TooEarlyError",
    "PreconditionFailedError",
    "StreamError",
    "StreamExpiredError",
    "RuntimeDecryptionError",
  ],
} as const;

/** The modules of the step side. */
export function stepShims(): Shims {
  const errors = stepModule("errors");
  return {
    workflow: stepModule("workflow"),
    "workflow/api": stepModule("api"),
    "workflow/errors": errors,
    "@workflow/errors": errors,
    "@workflow/serde": `
      export const WORKFLOW_SERIALIZE = Symbol.for("workflow-serialize");
      export const WORKFLOW_DESERIALIZE = Symbol.for("workflow-deserialize");`,
  };
}

function stepModule(name: keyof typeof STEP_EXPORTS): string {
  const names = STEP_EXPORTS[name].join(", ");
  return `export const { ${names} } = globalThis[Symbol.for("baton.step")].${name};`;
}
