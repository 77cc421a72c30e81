/** What workflow code imports: the members of `workflow`, `workflow/api` and `@workflow/serde`. */
import type { SetAttributes } from "./attributes.ts";
import { BUILTIN_STEPS } from "./builtin-steps.ts";
import { DESERIALIZE, SERIALIZE } from "./classes.ts";
import { FatalError, NotAvailableError, RetryableError } from "./errors.ts";
import { runOf } from "./guest.ts";
import type { Guest } from "./guest.ts";
import type { CreateHook, HookOptions } from "./hooks.ts";
import { refusal } from "./lockdown.ts";
import {
  DateConstructor,
  PromiseConstructor,
  TypeErrorConstructor,
  createObject,
  define,
  freeze,
  isArray,
  own,
  promiseThen,
} from "./primordials.ts";
import type { RunHandles } from "./run-handle.ts";
import type { Steps } from "./steps.ts";
import type { Sleep } from "./waits.ts";

export interface ApiParts {
  readonly guest: Guest;
  readonly steps: Steps;
  readonly sleep: Sleep;
  readonly createHook: CreateHook;
  readonly createWebhook: (options?: object) => object;
  readonly setAttributes: SetAttributes;
  readonly runs: RunHandles;
  readonly getWritable: (options?: object) => object;
  readonly streamIdOf: (namespace?: unknown) => string;
}

/** A validator in the form that schema libraries share. */
interface StandardSchema {
  readonly "~standard": {
    validate(value: unknown): unknown;
  };
}

export function workflowExports(parts: ApiParts): object {
  const { guest, steps } = parts;
  return freeze({
    sleep: parts.sleep,
    createHook: parts.createHook,
    createWebhook: parts.createWebhook,
    defineHook: (definition?: { readonly schema?: StandardSchema }) =>
      defineHook(parts.createHook, definition?.schema),
    getWorkflowMetadata: () => workflowMetadata(guest),
    getStepMetadata: refusal(
      "getStepMetadata",
      "getStepMetadata works only in a step; in a workflow use getWorkflowMetadata",
    ),
    getWritable: parts.getWritable,
    setAttributes: parts.setAttributes,
    fetch: (input: unknown, init?: unknown) =>
      steps.callBuiltin(BUILTIN_STEPS.fetch, [input, init]),
    FatalError,
    RetryableError,
  });
}

export function workflowMetadata(guest: Guest): object {
  const run = runOf(guest);
  return freeze({
    workflowName: run.workflowName,
    workflowRunId: run.runId,
    // Fixed before the first delivery, so every replay reads the same.
    workflowStartedAt: new DateConstructor(run.createdAt),
    url: run.baseUrl ?? "",
    features: freeze({ encryption: true }),
  });
}

function defineHook(createHook: CreateHook, schema: StandardSchema | undefined): object {
  const defined = {};
  define(defined, "create", (options?: HookOptions) => {
    const hook = createHook(options);
    return schema === undefined ? hook : checked(hook, schema);
  });
  define(defined, "resume", refusal("resume", outside("resume() of a defined hook")));
  return defined;
}

/** The hook with every payload passed through the schema. */
function checked(hook: object, schema: StandardSchema): object {
  const source = hook as { then: (...args: unknown[]) => Promise<unknown> };
  const validate = (value: unknown): Promise<unknown> =>
    promiseThen(
      new PromiseConstructor((resolve) => resolve(schema["~standard"].validate(value))),
      (result) => {
        const outcome = result as { readonly value?: unknown; readonly issues?: readonly object[] };
        if (outcome.issues === undefined) return outcome.value;
        throw new TypeErrorConstructor("the hook's payload does not fit its schema", {
          cause: outcome.issues,
        });
      },
    );
  const wrapped = createObject(hook);
  const next = (): Promise<unknown> => promiseThen(source.then(), validate);
  define(
    wrapped,
    "then",
    (fulfilled?: (value: unknown) => unknown, failed?: (reason: unknown) => unknown) =>
      promiseThen(next(), fulfilled, failed),
    false,
  );
  define(
    wrapped,
    Symbol.asyncIterator,
    () => {
      const inner = (hook as AsyncIterable<unknown>)[Symbol.asyncIterator]();
      return {
        next: () =>
          promiseThen(inner.next(), (result) =>
            result.done === true
              ? result
              : promiseThen(validate(result.value), (value) => ({ done: false, value })),
          ),
        return: () => inner.return?.(),
        [Symbol.asyncIterator](): object {
          return this;
        },
      };
    },
    false,
  );
  return wrapped;
}

const outside = (what: string): string =>
  `${what} works outside of workflows; call it in a step or from the platform`;

export function apiExports(parts: ApiParts): object {
  const { steps, runs } = parts;
  const refused = createObject(null);
  const names = [
    "resumeHook",
    "getHookByToken",
    "resumeWebhook",
    "registerLifecycleHooks",
  ] as const;
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!;
    refused[name] = refusal(name, outside(name));
  }
  return freeze({
    start: (workflow: unknown, args?: unknown, options?: unknown) => {
      const isList = isArray(args);
      return steps.callBuiltin(BUILTIN_STEPS.start, [
        workflowReference(workflow),
        isList ? args : [],
        isList ? options : args,
      ]);
    },
    getRun: (runId: string) => runs.handleOf(runId),
    Run: runs.Run,
    ...refused,
  });
}

function workflowReference(workflow: unknown): object {
  const isObject = typeof workflow === "object" && workflow !== null;
  const workflowId =
    isObject || typeof workflow === "function" ? own(workflow, "workflowId") : undefined;
  if (typeof workflowId === "string") return { workflowId };
  throw new NotAvailableError("start() takes a workflow function, or an object with workflowId");
}

export const serdeExports = freeze({
  WORKFLOW_SERIALIZE: SERIALIZE,
  WORKFLOW_DESERIALIZE: DESERIALIZE,
});
