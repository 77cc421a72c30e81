/**
 * The model: the same workflow source, run by Node instead of by a heap, fed from a log.
 *
 * Independent of the engine and of the guest library: the bundle is built with its own small
 * `workflow` module, and V8 runs the code. A promise settles only by an event, one event at a time,
 * all jobs drained in between; so what the code asks for, and when, is a function of the log alone.
 * A real run must have asked for the same.
 *
 * Entity ids come from the shared pure function of the run's seed, since ids are in the log.
 */
import vm from "node:vm";
import { parse } from "devalue";
import type { RunEvent, RunEventOf } from "../../../engine/events.ts";
import type { EntityId } from "../../../engine/ids.ts";
import { textOfPayload } from "../../../engine/payload.ts";
import type { Payload } from "../../../engine/payload.ts";
import { EntityIds } from "../../../sandbox/guest/entity-ids.ts";
import type { Shims } from "../../../tenants/bundles/side-build.ts";
import { quiet } from "../virtual-clock.ts";
import { ModelSignals } from "./model-signals.ts";

/** What the code asked for, in the order asked. */
export type Asked =
  | {
      readonly kind: "step";
      readonly id: EntityId;
      readonly stepName: string;
      readonly args: unknown[];
    }
  | { readonly kind: "wait"; readonly id: EntityId; readonly resumeAt: number }
  | { readonly kind: "hook"; readonly id: EntityId; readonly token: string }
  | { readonly kind: "attr"; readonly id: EntityId }
  | { readonly kind: "dispose"; readonly id: EntityId };

export type ModelEnd =
  | { readonly kind: "returned"; readonly value: unknown }
  | { readonly kind: "threw"; readonly error: unknown };

/** The module that the SDK's names mean in the model's bundle. */
export const MODEL_SHIMS: Shims = {
  workflow: `
    const current = () => globalThis[Symbol.for("baton.model")];
    export const sleep = (until) => current().sleep(until);
    export const createHook = (options) => current().createHook(options);
    export const createWebhook = (options) => current().createHook({ token: "webhook" });
    export const getWritable = () => ({ isWritable: true });
    export const setAttributes = (changes) => current().setAttributes(changes);`,
  "workflow/api": `
    const current = () => globalThis[Symbol.for("baton.model")];
    export const start = ({ workflowId }, args) =>
      current().step("__builtin_start", [{ workflowId }, args]);`,
  "workflow/errors": "export const FatalError = Error;",
  "@workflow/errors": "export const FatalError = Error;",
  "@workflow/serde": "export const WORKFLOW_SERIALIZE = Symbol.for('workflow-serialize');",
};

type WorkflowFunction = (...args: unknown[]) => Promise<unknown>;

/** A bundle in a realm of its own, whose clock and API are those of the model that runs now. */
export class ModelBundle {
  readonly #global: Record<string | symbol, unknown>;
  readonly #workflows = new Map<string, WorkflowFunction>();
  readonly errorOf: (name: string, message: string) => Error;

  constructor(code: string) {
    const context = vm.createContext({});
    const run = (source: string): unknown => vm.runInContext(source, context);
    this.#global = run("globalThis") as Record<string | symbol, unknown>;
    this.#global["__private_workflows"] = this.#workflows;
    this.#global[Symbol.for("workflow-class-registry")] = new Map();
    this.#global[Symbol.for("baton.guest")] = { declareSteps: () => undefined };
    this.#global[Symbol.for("WORKFLOW_USE_STEP")] =
      (stepId: string) =>
      (...args: unknown[]) =>
        this.#current().step(stepId, args);
    run(`AbortController = class {
      signal = globalThis[Symbol.for("baton.model")].signals.made();
      abort(reason) { this.signal.trip(reason); }
    };
    Response = class {};
    Date = class extends Date {
      constructor(...given) { super(...(given.length === 0 ? [Date.now()] : given)); }
      static now() { return globalThis[Symbol.for("baton.model")].now(); }
    };`);
    this.errorOf = run(`(name, message) => {
      const error = new Error(message);
      error.name = name;
      return error;
    }`) as (name: string, message: string) => Error;
    run(code);
  }

  #current(): Model {
    return this.#global[Symbol.for("baton.model")] as Model;
  }

  /** Starts a run in the model; only one at a time is fed. */
  start(events: readonly RunEvent[]): Model {
    const created = events[0];
    if (created?.eventType !== "run_created") throw new Error("a log begins with `run_created`");
    const model = new Model(this, created);
    this.#global[Symbol.for("baton.model")] = model;
    const workflow = this.#workflows.get(created.eventData.workflowName);
    if (workflow === undefined) throw new Error(`no ${created.eventData.workflowName}`);
    const args = valueOf(created.eventData.input, this) as unknown[];
    model.begin(workflow(...args));
    return model;
  }

  /** Handles that a payload holds, as those of the model that runs now. */
  get revivers(): Readonly<Record<string, (data: Data) => unknown>> {
    const model = this.#current();
    return {
      Instance: ({ data }) => runHandle(model, (data as { runId: string }).runId),
      AbortSignal: (data) => model.signals.revived(data),
      AbortController: (data) => {
        const signal = model.signals.revived(data);
        return { signal, abort: (reason: unknown) => signal.trip(reason) };
      },
      Request: ({ method }) => ({
        method,
        respondWith: () => model.step("__builtin_respond_with", []),
      }),
    };
  }
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Data = Readonly<Record<string, unknown>>;

interface ModelHook {
  readonly id: EntityId;
  readonly token: string;
  readonly payloads: unknown[];
  readonly awaiting: Waiting[];
  conflict: { readonly promise: Promise<unknown>; readonly settle: (value: unknown) => void };
  awaitsConflict: boolean;
  isClosed: boolean;
}

/** A run's handle: whatever is asked of it is a step. */
function runHandle(model: Model, runId: string): object {
  const ask = (field: string) => model.step("__builtin_run_field", [runId, field]);
  return {
    runId,
    get returnValue() {
      return ask("returnValue");
    },
    get status() {
      return ask("status");
    },
    cancel: () => model.step("__builtin_run_cancel", [runId]),
  };
}

export class Model {
  readonly #bundle: ModelBundle;
  readonly #ids: EntityIds;
  #ordinal = 0;
  #now: number;
  readonly #waiting = new Map<EntityId, Waiting>();
  readonly #hooks = new Map<EntityId, ModelHook>();
  readonly #settled = new Set<EntityId>();
  /** Everything asked so far. */
  readonly asked = new Map<string, Asked>();
  readonly signals: ModelSignals<ModelHook>;
  end: ModelEnd | null = null;

  constructor(bundle: ModelBundle, created: RunEventOf<"run_created">) {
    this.#bundle = bundle;
    this.#ids = new EntityIds(created.eventData.seed, created.createdAt);
    this.#now = created.createdAt;
    this.signals = new ModelSignals(created.runId, {
      hook: () => this.#openHook("signal"),
      next: (hook) => this.#next(hook),
      dispose: (hook) => this.#dispose(hook.id),
      step: (stepName) => this.step(stepName, []),
    });
  }

  /** A run ends once the aborts that its code asked for have been told. */
  begin(result: Promise<unknown>): void {
    const end = async (is: ModelEnd) => {
      await this.signals.told();
      this.end = is;
    };
    result.then(
      (value) => end({ kind: "returned", value }),
      (error: unknown) => end({ kind: "threw", error }),
    );
  }

  now(): number {
    return this.#now;
  }

  /** Asked for, and neither settled nor closed by the events fed so far, in the order asked. */
  open(): readonly Asked[] {
    return [...this.asked.values()].filter(({ id }) => !this.#settled.has(id));
  }

  step(stepName: string, args: unknown[]): Promise<unknown> {
    this.signals.leave(args);
    const id = this.#draw("step");
    this.asked.set(id, { kind: "step", id, stepName, args });
    return this.#promise(id);
  }

  sleep(until: number | string | Date): Promise<unknown> {
    const resumeAt = deadlineOf(until, this.#now);
    const id = this.#draw("wait");
    this.asked.set(id, { kind: "wait", id, resumeAt });
    return this.#promise(id);
  }

  setAttributes(_changes: unknown): Promise<unknown> {
    const id = this.#draw("attr");
    this.asked.set(id, { kind: "attr", id });
    return this.#promise(id);
  }

  createHook({ token }: { token: string }): unknown {
    const hook = this.#openHook(token);
    const next = () => this.#next(hook);
    return {
      token,
      // oxlint-disable-next-line unicorn/no-thenable -- a hook is one, by the SDK's definition
      then: (...handlers: Parameters<Promise<unknown>["then"]>) => next().then(...handlers),
      getConflict: () => {
        hook.awaitsConflict = true;
        return hook.conflict.promise;
      },
      dispose: () => this.#dispose(hook.id),
      async *[Symbol.asyncIterator]() {
        for (;;) yield await next();
      },
    };
  }

  #openHook(token: string): ModelHook {
    const id = this.#draw("hook");
    this.asked.set(id, { kind: "hook", id, token });
    let settle: (value: unknown) => void = () => undefined;
    const promise = new Promise((resolve) => (settle = resolve));
    const hook: ModelHook = {
      id,
      token,
      payloads: [],
      awaiting: [],
      conflict: { promise, settle },
      awaitsConflict: false,
      isClosed: false,
    };
    this.#hooks.set(id, hook);
    return hook;
  }

  #next(hook: ModelHook): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (hook.payloads.length > 0) resolve(hook.payloads.shift());
      else hook.awaiting.push({ resolve, reject });
    });
  }

  #dispose(id: EntityId): void {
    this.asked.set(`dispose ${id}`, { kind: "dispose", id });
  }

  /** Feeds one event and lets the code run until it is quiet. */
  async feed(event: RunEvent): Promise<void> {
    this.#settle(event);
    await quiet();
  }

  #settle(event: RunEvent): void {
    const id = event.correlationId;
    if (id === null) return;
    switch (event.eventType) {
      case "step_completed":
        return this.#resume(id, event.createdAt, (waiting) => {
          waiting.resolve(valueOf(event.eventData.result, this.#bundle));
        });
      case "step_failed":
        return this.#resume(id, event.createdAt, (waiting) => {
          waiting.reject(valueOf(event.eventData.error, this.#bundle));
        });
      case "wait_completed":
        return this.#resume(id, event.createdAt, (waiting) => waiting.resolve(undefined));
      case "attr_set":
        // An attribute resumes its code, but says nothing of the time.
        return this.#resume(id, 0, (waiting) => waiting.resolve(undefined));
      case "hook_created":
        this.#hooks.get(id)?.conflict.settle(null);
        return;
      case "hook_conflict":
        return this.#conflict(id, event.createdAt);
      case "hook_received":
        return this.#receive(id, event.createdAt, event.eventData.payload);
      case "hook_disposed":
        if (event.eventData.forceClaimedBy !== undefined) this.#claimed(id, event.createdAt);
        return this.#close(id);
      default:
        return;
    }
  }

  #resume(id: EntityId, createdAt: number, settle: (waiting: Waiting) => void): void {
    const waiting = this.#waiting.get(id);
    // Whatever follows an entity's end is inert.
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    this.#settled.add(id);
    this.#now = Math.max(this.#now, createdAt);
    settle(waiting);
  }

  #receive(id: EntityId, createdAt: number, payload: Payload): void {
    const hook = this.#hooks.get(id);
    if (hook === undefined || hook.isClosed) return;
    const value = valueOf(payload, this.#bundle);
    const awaiting = hook.awaiting.shift();
    if (awaiting === undefined) {
      hook.payloads.push(value);
      return;
    }
    this.#now = Math.max(this.#now, createdAt);
    awaiting.resolve(value);
  }

  /** Another run took the token; whoever awaits the hook hears of it. */
  #claimed(id: EntityId, createdAt: number): void {
    const hook = this.#hooks.get(id);
    if (hook === undefined || hook.isClosed || this.asked.has(`dispose ${id}`)) return;
    if (hook.awaiting.length > 0) this.#now = Math.max(this.#now, createdAt);
    const error = this.#bundle.errorOf("HookForceClaimedError", "the token was taken");
    for (const { reject } of hook.awaiting.splice(0)) reject(error);
  }

  #conflict(id: EntityId, createdAt: number): void {
    const hook = this.#hooks.get(id);
    if (hook === undefined || hook.isClosed) return;
    this.#close(id);
    if (hook.awaiting.length > 0 || hook.awaitsConflict) {
      this.#now = Math.max(this.#now, createdAt);
    }
    hook.conflict.settle({ isConflict: true });
    const error = this.#bundle.errorOf("HookConflictError", "the token is taken");
    for (const { reject } of hook.awaiting.splice(0)) reject(error);
  }

  #close(id: EntityId): void {
    const hook = this.#hooks.get(id);
    if (hook !== undefined) hook.isClosed = true;
    this.#settled.add(id);
  }

  #draw(kind: "step" | "wait" | "hook" | "attr"): EntityId {
    return this.#ids.at(kind, this.#ordinal++);
  }

  #promise(id: EntityId): Promise<unknown> {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }
}

/** The value of a payload, with errors made in the realm of the model's bundle. */
export function valueOf(payload: Payload, bundle: ModelBundle | null): unknown {
  const made = (name: string) => (data: { name?: string; message?: string }) => {
    const text = data.message ?? "";
    return bundle?.errorOf(data.name ?? name, text) ?? { name: data.name ?? name, message: text };
  };
  const names = ["Error", "TypeError", "RangeError", "AggregateError", "FatalError"];
  const others = ["RetryableError", "SerializationError", "HookConflictError", "DOMException"];
  const revivers = Object.fromEntries([...names, ...others].map((name) => [name, made(name)]));
  const handles = bundle?.revivers ?? {};
  const data = Object.fromEntries(HANDLES.map((tag) => [tag, (of: unknown) => of]));
  return parse(textOfPayload(payload), { ...revivers, ...data, ...handles }) as unknown;
}

/** What crosses as data wherever nobody uses it. */
const HANDLES = [
  "Instance",
  "AbortSignal",
  "AbortController",
  "ReadableStream",
  "WritableStream",
  "Request",
  "Response",
  "Headers",
  "WorkflowFunction",
];

const UNITS: Readonly<Record<string, number>> = { h: 3_600_000, d: 86_400_000 };

/** The few forms of durations that the simulated workflows use. */
function deadlineOf(until: number | string | Date, now: number): number {
  if (typeof until === "number") {
    if (!Number.isSafeInteger(until) || until > 8.64e15) throw new TypeError("not a duration");
    return now + until;
  }
  if (typeof until !== "string") return until.getTime();
  const match = /^(\d+)([hd])$/.exec(until);
  if (match === null) throw new TypeError("not a duration");
  return now + Number(match[1]) * (UNITS[match[2] ?? ""] ?? Number.NaN);
}
