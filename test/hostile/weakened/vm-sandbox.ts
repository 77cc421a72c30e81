/**
 * The sandbox as it must not be built: `node:vm` in the host's own realm, a library that trusts
 * what it finds, a host that believes every report and walks the guest's values itself.
 */
import { types } from "node:util";
import { createContext, runInContext } from "node:vm";
import type { Context } from "node:vm";
import type {
  BundleCode,
  Heap,
  HeapRequest,
  OpenOperation,
  OpenResult,
  PassResult,
  Sandbox,
} from "../../../engine/ports/sandbox.ts";
import { payloadOfText, textOfPayload } from "../../../engine/payload.ts";
import { SLOT_NONE } from "../../../engine/slots.ts";
import type { Slot } from "../../../engine/slots.ts";
import type { Ask, Report } from "../../../sandbox/protocol.ts";

/** Ends a control that would otherwise go on for ever, ms. */
const TIMEOUT_MS = 1500;
/** What the host's walk may visit before it counts as one that does not end. */
const WALK_CHARS_MAX = 100_000_000;
/** Printing a big integer costs more than its digits. */
const BIG_DIGIT_COST = 1000;

export interface VmSandboxOptions {
  /** All runs live in one context. */
  readonly shared: boolean;
}

export function vmSandbox({ shared }: VmSandboxOptions): Sandbox {
  const common = shared ? hostRealmContext() : null;
  return {
    async inspect(_bundle: BundleCode) {
      return { kind: "admitted", workflows: [], steps: [], sharesImage: true, notes: [] };
    },
    async open(request: HeapRequest): Promise<OpenResult> {
      return { kind: "opened", heap: new VmHeap(request, common ?? hostRealmContext()) };
    },
    async close() {},
  };
}

/** A context with what careless hosts pass in. */
function hostRealmContext(): Context {
  const context: Context = createContext(
    {
      hostCall: (name: string, value: unknown) => void `${name}${value as string}`,
      process,
      require: () => ({}),
      performance,
      __host_walk: (value: unknown) => void (walk(value) !== null && crashed.add(context)),
      __host_crash: () => void crashed.add(context),
    },
    { microtaskMode: "afterEvaluate" },
  );
  return context;
}

/** Contexts in which the host's own code let an error out. */
const crashed = new WeakSet<Context>();

/**
 * Reads a guest's value as a careless host does, and says how it went wrong: by what the value made
 * the host run, take or copy.
 */
function walk(root: unknown): string | null {
  let chars = 0;
  const seen = (value: unknown): string | null => {
    chars += 1;
    if (typeof value === "string") chars += value.length;
    if (typeof value === "bigint") chars += value.toString().length * BIG_DIGIT_COST;
    if (chars > WALK_CHARS_MAX) return "the walk has no end";
    if (typeof value === "string") return value.includes("\0") ? "the text ends early" : null;
    if (typeof value !== "object" || value === null) return null;
    if (types.isProxy(value)) return "a trap would run";
    if (types.isDate(value)) return Number.isNaN(value.getTime()) ? "toISOString throws" : null;
    if (types.isTypedArray(value)) return Object.hasOwn(value, "length") ? "a false length" : null;
    if (types.isMap(value)) return walkMap(value);
    if (Symbol.toStringTag in value) return "the kind is a lie";
    if (Object.hasOwn(value.constructor ?? {}, "classId")) return "the class is the value's choice";
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) {
        const why = seen(value[i]);
        if (why !== null) return why;
      }
      return null;
    }
    return fields(value);
  };
  const walkMap = (map: ReadonlyMap<unknown, unknown>) => {
    const kind = map.constructor.prototype as object;
    const isSubclass = Object.hasOwn(kind, "entries") && !Object.hasOwn(kind, "forEach");
    if (isSubclass) return "the iterator is the guest's";
    for (const [key, value] of map) {
      const why = seen(key) ?? seen(value);
      if (why !== null) return why;
    }
    return null;
  };
  const fields = (value: object) => {
    const copy: Record<string, unknown> = {};
    for (const key of Object.keys(value)) {
      if (key.length > 1 << 20) return "a key is longer than any text";
      if (Object.getOwnPropertyDescriptor(value, key)?.get) return "a getter would run";
      if (key === "toJSON") return "toJSON would run";
      const item = (value as Record<string, unknown>)[key];
      if (typeof item === "function") return "a guest's function crossed";
      copy[key] = item;
      if (Object.getPrototypeOf(copy) !== Object.prototype) return "the copy got another prototype";
      const why = seen(item);
      if (why !== null) return why;
    }
    return null;
  };
  try {
    return seen(root);
  } catch {
    return "the host ran out of stack";
  }
}

class VmHeap implements Heap {
  consumedSlot: Slot = SLOT_NONE;
  readonly #context: Context;
  #operations: OpenOperation[] = [];

  constructor(request: HeapRequest, context: Context) {
    this.#context = context;
    this.#eval(`${request.bundle.guestLibrary}
      globalThis.__dispatch = __baton_guest.boot(hostCall);`);
    this.#eval(request.bundle.workflowCode);
    this.#dispatch(
      JSON.stringify({
        t: "init",
        runId: request.run.runId,
        workflowName: request.workflowName,
        createdAt: request.createdAt,
        seed: Buffer.from(request.seed).toString("hex"),
      }),
      null,
    );
  }

  async pass(events: Parameters<Heap["pass"]>[0]): Promise<PassResult> {
    for (const event of events) {
      const command = { t: "event", type: event.eventType, id: event.correlationId };
      const text = event.payload === null ? null : textOfPayload(event.payload);
      this.#dispatch(JSON.stringify({ ...command, slot: event.slot, at: event.createdAt }), text);
      // What the host itself settles, such as a dynamic import, comes a turn later.
      for (let turn = 0; turn < 3; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
        this.#eval("0");
      }
      this.consumedSlot = event.slot;
    }
    if (crashed.has(this.#context)) throw new Error("the host's own code crashed");
    const report = JSON.parse(this.#dispatch(`{"t":"report"}`, null)) as Report;
    return this.#take(report);
  }

  async snapshot(): Promise<null> {
    return null;
  }

  close(): void {}

  #take(report: Report): PassResult {
    for (const ask of report.asked) this.#operations.push(operationOf(ask));
    const closed = new Set(report.closed);
    this.#operations = this.#operations.filter(({ correlationId }) => !closed.has(correlationId));
    const { done } = report;
    return {
      kind: "quiet",
      operations: this.#operations,
      completion:
        done === null
          ? null
          : done.ok
            ? { kind: "completed", output: payloadOfText(done.text) }
            : {
                kind: "failed",
                error: payloadOfText(done.text),
                errorCode: (done.code ?? "USER_ERROR") as "USER_ERROR",
              },
      awaitedHooks: report.awaited as never,
      console: report.console as never,
      usage: { cpuMs: 0, heapBytes: 0 },
    };
  }

  #dispatch(command: string, text: string | null): string {
    const args = `${JSON.stringify(command)}, ${text === null ? "null" : JSON.stringify(text)}`;
    return this.#eval(`__dispatch(${args})`) as string;
  }

  #eval(code: string): unknown {
    return runInContext(code, this.#context, { timeout: TIMEOUT_MS });
  }
}

function operationOf(ask: Ask): OpenOperation {
  const correlationId = ask.id as OpenOperation["correlationId"];
  switch (ask.k) {
    case "step":
      return {
        kind: "step",
        correlationId,
        stepName: ask.name,
        input: payloadOfText("input" in ask ? ask.input : ask.error),
      };
    case "wait":
      return { kind: "wait", correlationId, resumeAt: ask.at };
    case "hook":
      return {
        kind: "hook",
        correlationId,
        token: ask.token,
        metadata: null,
        isWebhook: ask.webhook,
        isSystem: ask.system,
        force: ask.force,
        retentionMs: ask.retentionMs,
        awaitsConflict: ask.conflict,
      };
    case "attr":
      return { kind: "set_attributes", correlationId, changes: ask.changes };
    default:
      return { kind: "dispose_hook", correlationId };
  }
}
