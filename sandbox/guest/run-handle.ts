/** Handles of other runs in workflow code: whatever they ask or do is a durable step. */
import { BUILTIN_STEPS, RUN_CLASS_ID } from "./builtin-steps.ts";
import { DESERIALIZE, SERIALIZE } from "./classes.ts";
import { NotAvailableError } from "./errors.ts";
import {
  TypeErrorConstructor,
  define,
  defineFixed,
  mapSet,
  own,
  WeakMapConstructor,
  weakGet,
  weakSet,
} from "./primordials.ts";
import type { Steps } from "./steps.ts";

const FIELDS: readonly string[] = [
  "exists",
  "status",
  "returnValue",
  "workflowName",
  "createdAt",
  "startedAt",
  "completedAt",
];

export interface RunHandles {
  readonly Run: object;
  readonly handleOf: (runId: string) => object;
}

export function createRunHandles(steps: Steps, classes: Map<string, object>): RunHandles {
  const ids = new WeakMapConstructor<object, string>();

  function Run(this: object, runId: unknown): void {
    if (new.target === undefined) throw new TypeErrorConstructor("Run is a class; use getRun(id)");
    if (typeof runId !== "string" || runId.length === 0 || runId.length > 64) {
      throw new TypeErrorConstructor("a run is named by its id");
    }
    weakSet(ids, this, runId);
    define(this, "runId", runId);
  }
  const prototype = Run.prototype as object;
  const idOf = (self: unknown): string => {
    const id = typeof self === "object" && self !== null ? weakGet(ids, self) : undefined;
    if (id === undefined) throw new TypeErrorConstructor("this is no Run");
    return id;
  };

  for (let i = 0; i < FIELDS.length; i++) {
    const field = FIELDS[i]!;
    const accessor = {
      get(this: unknown): Promise<unknown> {
        return steps.callBuiltin(BUILTIN_STEPS.runField, [idOf(this), field]);
      },
      configurable: true,
      enumerable: false,
    };
    Object.defineProperty(prototype, field, accessor);
  }
  define(prototype, "cancel", function (this: unknown, options: unknown) {
    return steps.callBuiltin(BUILTIN_STEPS.runCancel, [idOf(this), options]);
  });
  define(prototype, "wakeUp", function (this: unknown, options: unknown) {
    return steps.callBuiltin(BUILTIN_STEPS.runWakeUp, [idOf(this), options]);
  });
  define(prototype, "getReadable", () => {
    throw new NotAvailableError("a run's stream is read in a step: pass the Run to one");
  });
  const make = (runId: string): object => new (Run as unknown as new (id: string) => object)(runId);
  define(Run, SERIALIZE, (run: object) => ({ runId: idOf(run) }), false);
  define(Run, DESERIALIZE, (data: object) => make(own(data, "runId") as string), false);
  defineFixed(Run, "classId", RUN_CLASS_ID);
  mapSet(classes, RUN_CLASS_ID, Run);
  return { Run, handleOf: make };
}
