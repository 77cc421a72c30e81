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
  setForEach,
  setHas,
  setSize,
  stringSlice,
} from "./primordials.ts";
import { addField, noFields } from "./realm.ts";
import type { Kind, Reduced } from "./realm.ts";

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

// oxlint-disable-next-line typescript/no-extraneous-class
class ReturnsItsArgument {
  constructor(value: object) {
    // oxlint-disable-next-line no-constructor-return -- so a subclass's private field lands on it
    return value;
  }
}

/**
 * What a proxy stands for, in a private field on the proxy itself. Not a WeakMap: the engine drops
 * a dead key's entry only when it collects cycles, so a workflow that makes a proxy for each call
 * would seem to grow.
 */
class TargetStamp extends ReturnsItsArgument {
  #target: StepTarget;

  private constructor(proxy: object, target: StepTarget) {
    super(proxy);
    this.#target = target;
  }

  static put(proxy: object, target: StepTarget): object {
    return new TargetStamp(proxy, target);
  }

  static of(value: object): StepTarget | undefined {
    return #target in value ? value.#target : undefined;
  }
}

export class Steps implements Kind {
  readonly tag = "StepFunction";
  readonly #guest: Guest;
  /** What the bundle declares; if it declares nothing, any well-formed id is taken. */
  readonly #declared = new SetConstructor<string>();
  readonly #seen = new SetConstructor<string>();

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  /** The value under `Symbol.for("WORKFLOW_USE_STEP")`. */
  readonly useStep = (stepId: string, closureVars?: () => unknown): StepFunction => {
    if (this.#guest.run === null && typeof stepId === "string") setAdd(this.#seen, stepId);
    return this.#proxyOf({
      ...plainTarget(stepId),
      closureVars: typeof closureVars === "function" ? closureVars : null,
    });
  };

  /** Names the bundle's steps; afterwards any other id is unknown at the call. Load time only. */
  declare(stepIds: readonly string[]): void {
    for (let i = 0; i < stepIds.length; i++) {
      if (typeof stepIds[i] === "string") setAdd(this.#declared, stepIds[i]!);
    }
  }

  /** The steps that were named while the bundle loaded. */
  names(): readonly string[] {
    const names = list<string>();
    setForEach(this.#declared, (name) => push(names, name));
    setForEach(this.#seen, (name) => {
      if (!setHas(this.#declared, name)) push(names, name);
    });
    return names;
  }

  /** Calls a step of the library's own, whatever the bundle declares. */
  callBuiltin(stepId: string, args: unknown[]): Promise<unknown> {
    return this.#ask(plainTarget(stepId), undefined, args);
  }

  reduce(value: object): Reduced | null {
    const target = typeof value === "function" ? TargetStamp.of(value) : undefined;
    if (target === undefined) return null;
    const fields = addField(noFields(), "stepId", target.stepId);
    if (target.closureVars !== null) {
      addField(fields, "closureVars", apply(target.closureVars, undefined, []));
    }
    if (target.bound) {
      const keeps = isRegistered(target.boundThis, this.#guest.realm);
      addField(fields, "boundThis", keeps ? target.boundThis : undefined);
      addField(fields, "boundArgs", joined(target.boundArgs, list()));
    }
    return { tag: "StepFunction", fields };
  }

  revive(data: unknown): StepFunction {
    const fields = typeof data === "object" && data !== null ? data : {};
    const stepId = own(fields, "stepId");
    if (typeof stepId !== "string") throw new SerializationError("a step function has no id");
    const captured = own(fields, "closureVars");
    const boundArgs = own(fields, "boundArgs");
    return this.#proxyOf({
      stepId,
      closureVars: captured === undefined ? null : () => captured,
      bound: hasOwn(fields, "boundArgs"),
      boundThis: own(fields, "boundThis"),
      boundArgs: isArray(boundArgs) ? boundArgs : list(),
    });
  }

  #proxyOf(target: StepTarget): StepFunction {
    const call = (self: unknown, args: unknown[]): Promise<unknown> =>
      this.#call(target, self, args);
    const proxy = function (this: unknown, ...args: unknown[]): Promise<unknown> {
      return call(this, args);
    } as StepFunction;
    TargetStamp.put(proxy, target);
    defineFixed(proxy, "stepId", target.stepId);
    define(proxy, "name", nameOf(target.stepId), false);
    const bind = (self: unknown, ...args: unknown[]): StepFunction =>
      this.#proxyOf({
        ...target,
        bound: true,
        // The first `bind` decides, as it does for functions.
        boundThis: target.bound ? target.boundThis : self,
        boundArgs: joined(target.boundArgs, args),
      });
    define(proxy, "bind", bind, false);
    return proxy;
  }

  #call(target: StepTarget, self: unknown, args: unknown[]): Promise<unknown> {
    if (this.#isKnown(target.stepId)) return this.#ask(target, self, args);
    return rejected(new StepNotRegisteredError(`no step ${shown(target.stepId)} is registered`));
  }

  #ask(target: StepTarget, self: unknown, args: unknown[]): Promise<unknown> {
    const guest = this.#guest;
    try {
      const { promise, settle } = settlement<unknown>(guest);
      let input: string | null = null;
      let error: string | null = null;
      try {
        input = this.#inputOf(target, self, args);
      } catch (thrown) {
        error = textOfThrown(guest, thrown);
      }
      guest.operations.open<"step">({ kind: "step", name: target.stepId, input, error, settle });
      return promise;
    } catch (thrown) {
      return rejected(thrown);
    }
  }

  #inputOf(target: StepTarget, self: unknown, args: unknown[]): string {
    const input = {};
    define(input, "args", joined(target.boundArgs, args));
    if (target.closureVars !== null) {
      define(input, "closureVars", apply(target.closureVars, undefined, []));
    }
    const thisVal = target.bound ? target.boundThis : self;
    if (isRegistered(thisVal, this.#guest.realm)) define(input, "thisVal", thisVal);
    return textOfValue(this.#guest, input, "step arguments");
  }

  #isKnown(stepId: unknown): boolean {
    if (typeof stepId !== "string") return false;
    if (stepId.length === 0 || stepId.length > STEP_NAME_CHARS_MAX) return false;
    return setSize(this.#declared) === 0 || setHas(this.#declared, stepId);
  }
}

function plainTarget(stepId: string): StepTarget {
  return { stepId, closureVars: null, bound: false, boundThis: undefined, boundArgs: list() };
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
