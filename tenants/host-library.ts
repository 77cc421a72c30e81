/**
 * What step code finds when it runs as host code: the SDK's functions and the step's context.
 *
 * Owns the two places that the SDK's output looks at in this process: the context storage and the
 * library, both under global symbols. They hold no state of a step; that travels with its own
 * asynchronous context, so bodies of many tenants run side by side.
 *
 * T20  A promise that a body left behind and that rejects is logged under its step; it ends neither
 *      the process nor another body.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RunRef } from "../engine/ids.ts";
import type { StepAccess } from "../engine/ports/access.ts";
import type { Log } from "../engine/ports/host.ts";
import type { ErrorClass } from "../engine/ports/steps.ts";
import { hostApiOf, outsideOf } from "./host-api.ts";
import type { HostValues } from "./host-values.ts";

/** What a running body can ask about itself. */
export interface StepContext {
  readonly run: RunRef;
  readonly stepName: string;
  readonly stepId: string;
  /** Epoch ms of the first attempt's start. */
  readonly stepStartedAt: number;
  /** From 1. */
  readonly attempt: number;
  readonly workflowName: string;
  /** Epoch ms. */
  readonly workflowStartedAt: number;
  /** Variables of the workflow that a nested step reads; the SDK's output looks for this name. */
  readonly closureVars: Readonly<Record<string, unknown>>;
  readonly log: Log;
  readonly access: StepAccess;
  readonly values: HostValues;
}

const STORAGE = Symbol.for("WORKFLOW_STEP_CONTEXT_STORAGE");
const LIBRARY = Symbol.for("baton.guest");
const globals = globalThis as unknown as Record<symbol, unknown>;

/** The context of the step whose body is running, for platform functions; null outside of one. */
export function currentStep(): StepContext | null {
  return storage().getStore() ?? null;
}

/** Runs a body in its context. */
export function inStep<T>(context: StepContext, body: () => T): T {
  return storage().run(context, body);
}

/** Makes the library known to step bundles that are loaded from now on. */
export function installLibrary(errors: Readonly<Record<string, ErrorClass>>): void {
  globals[LIBRARY] ??= libraryOf(errors);
  if (!process.listeners("unhandledRejection").includes(onStrayRejection)) {
    process.on("unhandledRejection", onStrayRejection);
  }
}

function storage(): AsyncLocalStorage<StepContext> {
  return (globals[STORAGE] ??=
    new AsyncLocalStorage<StepContext>()) as AsyncLocalStorage<StepContext>;
}

function onStrayRejection(reason: unknown): void {
  const context = currentStep();
  if (context !== null) {
    const error = reason instanceof Error ? `${reason.name}: ${reason.message}` : typeof reason;
    context.log.warn({ guest: { error: error.slice(0, 1000) } }, "a body left a rejected promise");
    return;
  }
  // Not a step's: whoever else listens decides, and otherwise it ends the process as it would have.
  if (process.listenerCount("unhandledRejection") === 1) throw reason;
}

function libraryOf(errors: Readonly<Record<string, ErrorClass>>): object {
  const { FatalError, RetryableError } = errors;
  const workflowOnly = (name: string) => () => {
    throw new Error(`${name} works only in a workflow, not in a step`);
  };
  return {
    workflow: {
      sleep: workflowOnly("sleep"),
      createHook: workflowOnly("createHook"),
      createWebhook: workflowOnly("createWebhook"),
      defineHook: () => ({ create: workflowOnly("create"), resume: api["resumeHook"] }),
      getWorkflowMetadata,
      getStepMetadata,
      ...outsideOf(contextFor),
      fetch: globalThis.fetch,
      FatalError,
      RetryableError,
    },
    api,
    errors,
    serde: {
      WORKFLOW_SERIALIZE: Symbol.for("workflow-serialize"),
      WORKFLOW_DESERIALIZE: Symbol.for("workflow-deserialize"),
    },
  };
}

/** One for the process: bundles and the realms of their payloads share its `Run`. */
export const api = hostApiOf(contextFor);

function getStepMetadata(): object {
  const { stepName, stepId, stepStartedAt, attempt } = contextFor("getStepMetadata");
  return { stepName, stepId, stepStartedAt: new Date(stepStartedAt), attempt };
}

function getWorkflowMetadata(): object {
  const { workflowName, workflowStartedAt, run } = contextFor("getWorkflowMetadata");
  return {
    workflowName,
    workflowRunId: run.runId,
    workflowStartedAt: new Date(workflowStartedAt),
    url: "",
    features: { encryption: true },
  };
}

function contextFor(name: string): StepContext {
  const context = currentStep();
  if (context === null) throw new Error(`${name} works only while a step runs`);
  return context;
}
