/**
 * Step proxies: what stands in workflow code for a step function.
 *
 * A call draws an id, encodes its arguments at once (so later changes to them are not seen), and
 * gives a promise that the step's outcome settles. Arguments that cannot be encoded still make a
 * step, one that only fails, so the failure is in the log and every replay sees it at the same
 * place. `this` is taken along only where it is a registered class or an instance of one.
 */
import { isRegistered } from "./classes.ts";
import { SerializationError, StepNotRegisteredError } from "./errors.ts";
import { rejected, settlement, textOfThrown, textOfValue } from "./guest.ts";
import type { Guest } from "./guest.ts";
import {
  SetConstructor,
  WeakMapConstructor,
  apply,
  define,
  defineFixed,
  hasOwn,
  isArray,
  jsonOf,
  list,
  mapGet,
  own,
  push,
  setAdd,
  setHas,
  setSize,
  stringSlice,
  weakGet,
  weakSet,
} from "./primordials.ts";
import { addField, noFields } from "./realm.ts";
import type { Kind } from "./realm.ts";

export const STEP_NAME_CHARS_MAX = 1024;

export type StepFunction = ((this: unknown, ...args: unknown[]) => Promise<unknown>) & {
  readonly stepId: string;
};

interface StepTarget {
  readonly stepId: string;
  /** Gives the variables that the step's body captured; called at each call. */
  readonly closureVars: (() => unknown) | null;
  /** Set by `bind`; `bound` tells it from an absent `this`. */
  readonly bound: boolean;
  readonly boundThis: unknown;
  readonly boundArgs: readonly unknown[];
}

export interface Steps {
  /** The value under `Symbol.for("WORKFLOW_USE_STEP")`. */
  useStep(stepId: string, closureVars?: () => unknown): StepFunction;
  /** Names the bundle's steps; afterwards any other id is unknown at the call. Load time only. */
  declare(stepIds: readonly string[]): void;
  /** Calls a step by name, outside of any proxy. */
  call(stepId: string, args: unknown[]): Promise<unknown>;
  readonly kind: Kind;
}

export function createSteps(guest: Guest): Steps {
  const targets = new WeakMapConstructor<object, StepTarget>();
  const declared = new SetConstructor<string>();

  function isKnown(stepId: unknown): stepId is string {
    if (typeof stepId !== "string") return false;
    if (stepId.length === 0 || stepId.length > STEP_NAME_CHARS_MAX) return false;
    return setSize(declared) === 0 || setHas(declared, stepId);
  }

  function run(target: StepTarget, self: unknown, args: unknown[]): Promise<unknown> {
    if (!isKnown(target.stepId)) {
      return rejected(new StepNotRegisteredError(`no step ${shown(target.stepId)} is registered`));
    }
    try {
      const { promise, settle } = settlement<unknown>(guest);
      let input: string | null = null;
      let error: string | null = null;
      try {
        input = inputOf(target, self, args);
      } catch (thrown) {
        error = textOfThrown(guest, thrown);
      }
      guest.operations.open<"step">({ kind: "step", name: target.stepId, input, error, settle });
      return promise;
    } catch (thrown) {
      return rejected(thrown);
    }
  }

  function inputOf(target: StepTarget, self: unknown, args: unknown[]): string {
    const all = joined(target.boundArgs, args);
    const input = {};
    define(input, "args", all);
    if (target.closureVars !== null)
      define(input, "closureVars", apply(target.closureVars, undefined, []));
    const thisVal = target.bound ? target.boundThis : self;
    if (isRegistered(thisVal, guest.realm)) define(input, "thisVal", thisVal);
    return textOfValue(guest, input, "step arguments");
  }

  function proxyOf(target: StepTarget): StepFunction {
    const proxy = function (this: unknown, ...args: unknown[]): Promise<unknown> {
      return run(target, this, args);
    } as StepFunction;
    weakSet(targets, proxy, target);
    defineFixed(proxy, "stepId", target.stepId);
    define(proxy, "name", nameOf(target.stepId), false);
    define(
      proxy,
      "bind",
      (self: unknown, ...args: unknown[]) =>
        proxyOf({
          stepId: target.stepId,
          closureVars: target.closureVars,
          bound: true,
          // The first `bind` decides, as it does for functions.
          boundThis: target.bound ? target.boundThis : self,
          boundArgs: joined(target.boundArgs, args),
        }),
      false,
    );
    return proxy;
  }

  const useStep = (stepId: string, closureVars?: () => unknown): StepFunction =>
    proxyOf({
      stepId,
      closureVars: typeof closureVars === "function" ? closureVars : null,
      bound: false,
      boundThis: undefined,
      boundArgs: list(),
    });

  return {
    useStep,
    declare(stepIds) {
      for (let i = 0; i < stepIds.length; i++) {
        if (typeof stepIds[i] === "string") setAdd(declared, stepIds[i]!);
      }
    },
    call: (stepId, args) => run(plainTarget(stepId), undefined, args),
    kind: stepFunctionKind(targets, proxyOf, guest),
  };
}

function plainTarget(stepId: string): StepTarget {
  return { stepId, closureVars: null, bound: false, boundThis: undefined, boundArgs: list() };
}

function stepFunctionKind(
  targets: WeakMap<object, StepTarget>,
  proxyOf: (target: StepTarget) => StepFunction,
  guest: Guest,
): Kind {
  return {
    tag: "StepFunction",
    reduce(value) {
      const target = typeof value === "function" ? weakGet(targets, value) : undefined;
      if (target === undefined) return null;
      const fields = addField(noFields(), "stepId", target.stepId);
      if (target.closureVars !== null) {
        addField(fields, "closureVars", apply(target.closureVars, undefined, []));
      }
      if (target.bound) {
        const keeps = isRegistered(target.boundThis, guest.realm);
        addField(fields, "boundThis", keeps ? target.boundThis : undefined);
        addField(fields, "boundArgs", joined(target.boundArgs, list()));
      }
      return { tag: "StepFunction", fields };
    },
    revive(data) {
      const fields = typeof data === "object" && data !== null ? data : {};
      const stepId = own(fields, "stepId");
      if (typeof stepId !== "string") throw new SerializationError("a step function has no id");
      const captured = own(fields, "closureVars");
      const boundArgs = own(fields, "boundArgs");
      return proxyOf({
        stepId,
        closureVars: captured === undefined ? null : () => captured,
        bound: hasOwn(fields, "boundThis"),
        boundThis: own(fields, "boundThis"),
        boundArgs: isArray(boundArgs) ? boundArgs : list(),
      });
    },
  };
}

/** Workflow functions in payloads: their id alone. */
export function workflowFunctionKind(registered: Map<string, unknown>): Kind {
  return {
    tag: "WorkflowFunction",
    reduce(value) {
      if (typeof value !== "function" || !hasOwn(value, "workflowId")) return null;
      const workflowId = own(value, "workflowId");
      if (typeof workflowId !== "string") return null;
      return { tag: "WorkflowFunction", fields: addField(noFields(), "workflowId", workflowId) };
    },
    revive(data) {
      const workflowId = own(typeof data === "object" && data !== null ? data : {}, "workflowId");
      if (typeof workflowId !== "string") {
        throw new SerializationError("a workflow function has no id");
      }
      return mapGet(registered, workflowId) ?? stranger(workflowId);
    },
  };
}

/** A workflow of another bundle: it can be passed on and started, not called. */
function stranger(workflowId: string): object {
  const named = (): never => {
    throw new StepNotRegisteredError(`the workflow ${workflowId} is not part of this bundle`);
  };
  defineFixed(named, "workflowId", workflowId);
  return named;
}

function joined(first: readonly unknown[], second: readonly unknown[]): unknown[] {
  const all = list<unknown>();
  for (let i = 0; i < first.length; i++) push(all, first[i]);
  for (let i = 0; i < second.length; i++) push(all, second[i]);
  return all;
}

/** The function's own name: what follows the last `//` of its id. */
function nameOf(stepId: unknown): string {
  if (typeof stepId !== "string") return "step";
  let from = 0;
  for (let i = 0; i + 1 < stepId.length; i++) {
    if (stepId[i] === "/" && stepId[i + 1] === "/") from = i + 2;
  }
  return stringSlice(stepId, from);
}

function shown(stepId: unknown): string {
  if (typeof stepId !== "string") return `of the type ${typeof stepId}`;
  return jsonOf(stringSlice(stepId, 0, 200));
}
