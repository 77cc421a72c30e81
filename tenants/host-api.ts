/**
 * `workflow/api` for bodies that run as host code, and what their `workflow` has of the outside.
 *
 * Owns their argument forms; the calls themselves are the platform's (ports/access.ts).
 */
import { BatonError } from "../engine/errors.ts";
import { runIdOf } from "../engine/ids.ts";
import type { AttributeChange } from "../engine/ports/access.ts";
import { RUN_CLASS_ID } from "../engine/ports/builtin-steps.ts";
import type { StepContext } from "./host-library.ts";

type ContextFor = (name: string) => StepContext;

const SERIALIZE = Symbol.for("workflow-serialize");
const DESERIALIZE = Symbol.for("workflow-deserialize");

interface StreamOptions {
  readonly namespace?: string;
  readonly startIndex?: number;
}

/** The name of a run's stream of a namespace. */
export function userStream(runId: string, namespace?: string): string {
  const suffix = namespace === undefined ? "" : `_${namespace}`;
  return `strm_${runId.slice("wrun_".length)}_user${suffix}`;
}

export function hostApiOf(contextFor: ContextFor): Record<string, unknown> {
  const call = (name: string, ...args: Parameters<StepContext["values"]["call"]>) =>
    contextFor(name).values.call(...args);
  const Run = runClassOf(contextFor);
  return {
    Run,
    getRun: (runId: string) => new Run(runId),
    start: (workflow: { readonly workflowId?: unknown }, args?: unknown, options?: unknown) => {
      const isList = Array.isArray(args);
      const { workflowId } = workflow;
      return call("start", "start", [{ workflowId }, isList ? args : [], isList ? options : args]);
    },
    resumeHook: (hook: unknown, payload: unknown) => {
      const token = typeof hook === "string" ? hook : (hook as { token: unknown }).token;
      return call("resumeHook", "resumeHook", [token, payload]);
    },
    getHookByToken: (token: string) => call("getHookByToken", "getHookByToken", [token]),
    resumeWebhook: elsewhere("resumeWebhook"),
    registerLifecycleHooks: elsewhere("registerLifecycleHooks"),
  };
}

/** Streams and attributes of the step's own run. */
export function outsideOf(contextFor: ContextFor) {
  return {
    getWritable: ({ namespace }: StreamOptions = {}) => {
      const { values, run } = contextFor("getWritable");
      return values.writable({ runId: run.runId, name: userStream(run.runId, namespace) });
    },
    setAttributes: (
      attributes: Readonly<Record<string, string | undefined>>,
      options: { readonly allowReservedAttributes?: boolean } = {},
    ) => {
      const changes = Object.entries(attributes).map(([key, value]): AttributeChange => ({
        key,
        value: value ?? null,
      }));
      const reserved = changes.find(({ key }) => key.startsWith("$"));
      if (reserved !== undefined && options.allowReservedAttributes !== true) {
        throw new TypeError(`the attribute ${reserved.key} is reserved: keys with $ are`);
      }
      return contextFor("setAttributes").access.setAttributes(changes);
    },
  };
}

/** A run's handle in host code; the realm of every body knows it. */
export interface HostRun {
  readonly runId: string;
}

function runClassOf(contextFor: ContextFor): new (runId: string) => HostRun {
  const ask = (runId: string, field: string) =>
    contextFor("Run").values.call("runField", [runId, field]);
  class Run implements HostRun {
    readonly runId: string;
    constructor(runId: string) {
      this.runId = runIdOf(runId);
    }
    static [SERIALIZE]({ runId }: Run): HostRun {
      return { runId };
    }
    static [DESERIALIZE]({ runId }: HostRun): Run {
      return new Run(runId);
    }
    cancel(options?: unknown): Promise<unknown> {
      return contextFor("Run").values.call("runCancel", [this.runId, options]);
    }
    wakeUp(options?: unknown): Promise<unknown> {
      return contextFor("Run").values.call("runWakeUp", [this.runId, options]);
    }
    getReadable({ namespace, startIndex = 0 }: StreamOptions = {}): ReadableStream<unknown> {
      const place = { runId: runIdOf(this.runId), name: userStream(this.runId, namespace) };
      return contextFor("Run").values.readable(place, startIndex);
    }
  }
  for (const field of FIELDS) {
    Object.defineProperty(Run.prototype, field, {
      get(this: Run) {
        return ask(this.runId, field);
      },
      configurable: true,
    });
  }
  return Object.assign(Run, { classId: RUN_CLASS_ID });
}

const FIELDS = [
  "exists",
  "status",
  "returnValue",
  "workflowName",
  "createdAt",
  "startedAt",
  "completedAt",
];

export function elsewhere(name: string) {
  return () => {
    throw new BatonError("UNFINISHED", `${name} is not available in steps that run as host code`, {
      field: name,
    });
  };
}
