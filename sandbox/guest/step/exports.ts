/** What a step's body imports: the members of `workflow`, `workflow/api` and the rest. */
import { changesOf } from "../attributes.ts";
import type { SetAttributesOptions } from "../attributes.ts";
import { RUN_CLASS_ID } from "../builtin-steps.ts";
import { DESERIALIZE, SERIALIZE } from "../classes.ts";
import { decode } from "../decode.ts";
import { FatalError, RetryableError, errorExports } from "../errors.ts";
import { runOf, textOfValue } from "../guest.ts";
import type { Guest } from "../guest.ts";
import { refusal } from "../lockdown.ts";
import {
  TypeErrorConstructor,
  define,
  freeze,
  jsonOf,
  mapSet,
  own,
  stringSlice,
} from "../primordials.ts";
import type { Attempt } from "./body.ts";
import type { Fetch } from "./fetch.ts";
import type { HostCalls } from "./host-calls.ts";
import type { StepStreams } from "./streams.ts";

export interface StepParts {
  readonly guest: Guest;
  readonly calls: HostCalls;
  readonly streams: StepStreams;
  readonly classes: Map<string, object>;
  readonly fetch: Fetch;
  readonly attempt: () => Attempt;
}

const WORKFLOW_ONLY = ["sleep", "createHook", "createWebhook", "defineHook"] as const;

export function stepExports(parts: StepParts): object {
  const api = apiOf(parts);
  return freeze({
    side: "step",
    workflow: freeze(workflowOf(parts)),
    api: freeze(api),
    errors: freeze({ ...errorExports }),
    serde: freeze({ WORKFLOW_SERIALIZE: SERIALIZE, WORKFLOW_DESERIALIZE: DESERIALIZE }),
  });
}

function workflowOf(parts: StepParts): Record<string, unknown> {
  const { guest, calls, streams, attempt } = parts;
  const members: Record<string, unknown> = { FatalError, RetryableError, fetch: parts.fetch };
  for (const name of WORKFLOW_ONLY) {
    members[name] = refusal(name, `${name} works only in a workflow, not in a step`);
  }
  members["getWorkflowMetadata"] = () => {
    const run = runOf(guest);
    return {
      workflowName: run.workflowName,
      workflowRunId: run.runId,
      workflowStartedAt: new Date(attempt().runStartedAt),
      url: run.baseUrl ?? "",
      features: { encryption: true },
    };
  };
  members["getStepMetadata"] = () => {
    const { stepName, stepId, stepStartedAt, attempt: count } = attempt();
    return { stepName, stepId, stepStartedAt: new Date(stepStartedAt), attempt: count };
  };
  members["getWritable"] = (options?: { readonly namespace?: string }) => {
    const { runId } = runOf(guest);
    const suffix = options?.namespace === undefined ? "" : `_${options.namespace}`;
    return streams.writable(`strm_${stringSlice(runId, "wrun_".length)}_user${suffix}`, runId);
  };
  members["setAttributes"] = async (attributes: unknown, options?: SetAttributesOptions) => {
    const changes = changesOf(attributes, options?.allowReservedAttributes === true);
    if (changes.length === 0) return;
    const texts: string[] = [];
    for (let i = 0; i < changes.length; i++) {
      const { key, value } = changes[i]!;
      texts.push(`{"key":${jsonOf(key)},"value":${jsonOf(value)}}`);
    }
    await calls.ask({ kind: "attributes", members: `"changes":[${texts.join(",")}]` }).answer;
  };
  return members;
}

const API = ["resumeHook", "getHookByToken", "resumeWebhook"] as const;
const FIELDS = [
  "exists",
  "status",
  "returnValue",
  "workflowName",
  "createdAt",
  "startedAt",
  "completedAt",
];

/** Calls a function of the platform. */
export type ApiCall = (op: string, args: unknown[]) => Promise<unknown>;

export function apiCallOf({ guest, calls }: Pick<StepParts, "guest" | "calls">): ApiCall {
  return async (op, args) => {
    calls.allowedFor(op);
    const text = textOfValue(guest, args, `arguments of ${op}()`);
    const members = `"op":${jsonOf(op)},"args":${jsonOf(text)}`;
    return decode(await calls.ask({ kind: "api", members }).answer, guest.realm);
  };
}

function apiOf(parts: StepParts): Record<string, unknown> {
  const call = apiCallOf(parts);
  class Run {
    readonly runId: string;
    constructor(runId: string) {
      if (typeof runId !== "string") throw new TypeErrorConstructor("a run is named by its id");
      this.runId = runId;
    }
    cancel(options?: unknown): Promise<unknown> {
      return call("runCancel", [this.runId, options]);
    }
    wakeUp(options?: unknown): Promise<unknown> {
      return call("runWakeUp", [this.runId, options]);
    }
  }
  for (const field of FIELDS) {
    Object.defineProperty(Run.prototype, field, {
      get(this: Run) {
        return call("runField", [this.runId, field]);
      },
      configurable: true,
    });
  }
  define(Run, "classId", RUN_CLASS_ID, false);
  define(Run, SERIALIZE, (run: Run) => ({ runId: run.runId }), false);
  define(Run, DESERIALIZE, (data: object) => new Run(own(data, "runId") as string), false);
  mapSet(parts.classes, RUN_CLASS_ID, Run);
  const members: Record<string, unknown> = {
    Run,
    getRun: (runId: string) => new Run(runId),
    start: (workflow: object, args?: unknown, options?: unknown) => {
      const workflowId = own(workflow, "workflowId");
      const isList = Array.isArray(args);
      return call("start", [{ workflowId }, isList ? args : [], isList ? options : args]);
    },
    registerLifecycleHooks: refusal(
      "registerLifecycleHooks",
      "registerLifecycleHooks works on the platform's side only",
    ),
  };
  for (const name of API) members[name] = (...args: unknown[]) => call(name, args);
  return members;
}
