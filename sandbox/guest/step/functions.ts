/** Step functions in a step heap: the bodies themselves, with what they captured. */
import { SerializationError, StepNotRegisteredError } from "../errors.ts";
import {
  apply,
  createObject,
  define,
  hasOwn,
  isArray,
  jsonOf,
  mapGet,
  own,
} from "../primordials.ts";
import { addField, noFields } from "../realm.ts";
import type { Kind } from "../realm.ts";
import type { ContextStore } from "./body.ts";

type Body = (this: unknown, ...args: unknown[]) => unknown;

const BOUND = Symbol("what a revived step function was bound to");

export function stepFunctions(registered: Map<string, unknown>, store: ContextStore): Kind {
  return {
    tag: "StepFunction",
    reduce(value) {
      if (typeof value !== "function" || !hasOwn(value, "stepId")) return null;
      const stepId = own(value, "stepId");
      if (typeof stepId !== "string") return null;
      const fields = addField(noFields(), "stepId", stepId);
      const bound = own(value, BOUND);
      if (typeof bound !== "object" || bound === null) return { tag: "StepFunction", fields };
      for (const key of ["closureVars", "boundThis", "boundArgs"]) {
        if (hasOwn(bound, key)) addField(fields, key, own(bound, key));
      }
      return { tag: "StepFunction", fields };
    },
    revive(data) {
      const fields = typeof data === "object" && data !== null ? data : createObject(null);
      const stepId = own(fields, "stepId");
      if (typeof stepId !== "string") throw new SerializationError("a step function has no id");
      const captured = own(fields, "closureVars");
      const boundArgs = own(fields, "boundArgs");
      const first = isArray(boundArgs) ? boundArgs : [];
      const call = function (this: unknown, ...args: unknown[]): unknown {
        const body = mapGet(registered, stepId);
        if (typeof body !== "function") {
          throw new StepNotRegisteredError(`no step ${jsonOf(stepId)} is registered`);
        }
        // A body reads what it captured before its first await, so nothing can come between.
        const before = store.closureVars;
        if (captured !== undefined) store.closureVars = captured;
        try {
          const self = isArray(boundArgs) ? own(fields, "boundThis") : this;
          return apply(body as Body, self, [...first, ...args]);
        } finally {
          store.closureVars = before;
        }
      };
      define(call, "stepId", stepId, false);
      define(call, BOUND, fields, false);
      return call;
    },
  };
}
