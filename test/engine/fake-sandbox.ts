/**
 * A sandbox without wasm: workflows are TypeScript functions over a small guest API, driven by the
 * same events as real heaps. An image is the list of events that the heap was fed.
 */
import type { EntityId, EntityKind } from "../../engine/ids.ts";
import type {
  AdmissionReport,
  Completion,
  GuestEvent,
  Heap,
  HeapImage,
  HeapRequest,
  OpenOperation,
  OpenResult,
  PassResult,
  Sandbox,
  SnapshotPosition,
} from "../../engine/ports/sandbox.ts";
import { SLOT_NONE } from "../../engine/slots.ts";
import type { Slot } from "../../engine/slots.ts";
import { bytes, idOf, textOf } from "./log-of.ts";

/** What a fake workflow may do; the names are the guest library's. */
export interface Guest {
  readonly input: string;
  /** The guest clock, epoch ms. */
  now(): number;
  step(name: string, input?: string): Promise<string>;
  /** A step whose arguments cannot be encoded. */
  badStep(name: string): Promise<string>;
  sleep(ms: number): Promise<void>;
  sleepUntil(atMs: number): Promise<void>;
  hook(token: string, more?: { awaitsConflict?: boolean; retentionMs?: number }): GuestHook;
  setAttributes(changes: Record<string, string | null>): Promise<void>;
}

export interface GuestHook {
  /** The next payload; rejects once the hook met a conflict. */
  next(): Promise<string>;
  /** The run that holds the token, or null once the hook is this run's. */
  conflict(): Promise<string | null>;
  dispose(): void;
}

export type Program = (guest: Guest) => Promise<string>;

export class StepError extends Error {}

interface Settle {
  resolve(value: string): void;
  reject(error: Error): void;
}

interface HookSide {
  readonly payloads: string[];
  readonly takers: Settle[];
  readonly conflictTakers: Settle[];
  conflict: string | null | undefined;
}

interface Open {
  operation: OpenOperation;
  settle: Settle | null;
}

export interface FakeSandboxOptions {
  readonly programs: Readonly<Record<string, Program>>;
  /** Answers a pass in the heap's place; null: the heap answers. */
  readonly interfere?: (heap: { run: string; pass: number; cold: boolean }) => PassResult | null;
}

export interface FakeSandbox extends Sandbox {
  readonly opened: { cold: number; restored: number };
  /** Events that all heaps together were fed. */
  fedCount(): number;
  /** Grows while any heap is at work. */
  activity(): number;
  openHeapCount(): number;
}

export function createFakeSandbox(options: FakeSandboxOptions): FakeSandbox {
  const opened = { cold: 0, restored: 0 };
  const passes = new Map<string, number>();
  let fed = 0;
  let turns = 0;
  let open = 0;
  return {
    opened,
    fedCount: () => fed,
    activity: () => turns,
    openHeapCount: () => open,
    inspect: async (): Promise<AdmissionReport> => ({
      kind: "admitted",
      workflows: Object.keys(options.programs),
      steps: [],
      sharesImage: true,
      notes: [],
    }),
    open: async (request): Promise<OpenResult> => {
      const program = options.programs[request.workflowName];
      if (program === undefined) throw new Error(`no program ${request.workflowName}`);
      const cold = request.image === undefined;
      const heap = new FakeHeap(request, program, {
        onFed: () => (fed += 1),
        onTurn: () => (turns += 1),
        onClose: () => (open -= 1),
        interfere: () => {
          const pass = (passes.get(request.run.runId) ?? 0) + 1;
          passes.set(request.run.runId, pass);
          return options.interfere?.({ run: request.run.runId, pass, cold }) ?? null;
        },
      });
      open += 1;
      opened[cold ? "cold" : "restored"] += 1;
      if (request.image !== undefined) await heap.restore(request.image);
      return { kind: "opened", heap };
    },
    close: async () => undefined,
  };
}

interface HeapHooks {
  onFed(): void;
  onTurn(): void;
  onClose(): void;
  interfere(): PassResult | null;
}

class FakeHeap implements Heap {
  readonly #program: Program;
  readonly #hooks: HeapHooks;
  readonly #open = new Map<string, Open>();
  readonly #hookSides = new Map<EntityId, HookSide>();
  readonly #history: GuestEvent[] = [];
  #ordinal = 0;
  #clock = 0;
  #completion: Completion | null = null;
  #isClosed = false;

  constructor(request: HeapRequest, program: Program, hooks: HeapHooks) {
    this.#program = program;
    this.#hooks = hooks;
    this.#clock = request.createdAt;
  }

  get consumedSlot(): Slot {
    return this.#history.at(-1)?.slot ?? SLOT_NONE;
  }

  async restore(image: HeapImage): Promise<void> {
    const events = JSON.parse(textOf(image.image), revive) as GuestEvent[];
    for (const event of events) await this.#feed(event);
  }

  async pass(events: readonly GuestEvent[]): Promise<PassResult> {
    if (this.#isClosed) throw new Error("a closed heap is not used");
    const instead = this.#hooks.interfere();
    if (instead !== null) return instead;
    for (const event of events) {
      if (event.slot <= this.consumedSlot) throw new Error("events are fed in slot order, once");
      const diverged = await this.#feed(event);
      if (diverged !== null) return diverged;
      this.#hooks.onFed();
    }
    return {
      kind: "quiet",
      operations: [...this.#open.values()].map((one) => one.operation),
      completion: this.#completion,
      awaitedHooks: [...this.#hookSides].filter(([, h]) => h.takers.length > 0).map(([id]) => id),
      console: [],
      usage: { cpuMs: 1, heapBytes: 1_000 },
    };
  }

  async snapshot(position: SnapshotPosition): Promise<HeapImage> {
    const image = bytes(JSON.stringify(this.#history, spell));
    return { ...position, fingerprint: "f".repeat(64), image };
  }

  close(): void {
    if (this.#isClosed) throw new Error("a heap is closed once");
    this.#isClosed = true;
    this.#hooks.onClose();
  }

  async #feed(event: GuestEvent): Promise<PassResult | null> {
    const diverged = this.#divergence(event);
    if (diverged !== null) return { kind: "diverged", divergence: diverged };
    this.#history.push(event);
    this.#take(event);
    this.#hooks.onTurn();
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    return null;
  }

  #divergence(event: GuestEvent) {
    const { asked, correlationId, slot } = event;
    if (asked === null || correlationId === null) return null;
    const operation = this.#open.get(correlationId)?.operation;
    const found = `${event.eventType} ${correlationId} ${asked.stepName ?? ""}`;
    if (operation === undefined) return { slot, found, expected: "nothing" };
    const isStep = operation.kind === "step" || operation.kind === "unserializable_step";
    if (asked.stepName !== undefined && isStep && operation.stepName !== asked.stepName) {
      return { slot, found, expected: operation.stepName };
    }
    return null;
  }

  #take(event: GuestEvent): void {
    const { payload, correlationId: id } = event;
    const text = payload === null ? "" : textOf(payload);
    const moveClock = () => (this.#clock = Math.max(this.#clock, event.createdAt));
    switch (event.eventType) {
      case "run_created":
        void this.#runProgram(text);
        return;
      case "step_completed":
      case "wait_completed":
      case "attr_set": {
        const settle = this.#close(id);
        if (settle === undefined || settle === null) return;
        if (event.eventType !== "attr_set") moveClock();
        settle.resolve(text);
        return;
      }
      case "step_failed": {
        const settle = this.#close(id);
        if (settle === undefined || settle === null) return;
        moveClock();
        settle.reject(new StepError(text));
        return;
      }
      case "hook_created":
      case "hook_conflict":
      case "hook_received":
      case "hook_disposed":
        this.#takeHook(event, text, moveClock);
        return;
      default:
        return;
    }
  }

  #takeHook(event: GuestEvent, text: string, moveClock: () => void): void {
    const id = event.correlationId;
    const side = id === null ? undefined : this.#hookSides.get(id);
    if (side === undefined || id === null) return;
    if (event.eventType === "hook_received") {
      const taker = side.takers.shift();
      if (taker === undefined) side.payloads.push(text);
      else {
        moveClock();
        taker.resolve(text);
      }
    } else if (event.eventType === "hook_disposed") {
      this.#close(id);
      this.#open.delete(`dispose ${id}`);
    } else {
      side.conflict = event.conflictingRunId;
      if (side.conflict !== null) this.#close(id);
      for (const taker of side.conflictTakers.splice(0)) taker.resolve(side.conflict ?? "");
      if (side.conflict === null) return;
      moveClock();
      for (const taker of side.takers.splice(0)) taker.reject(new Error("conflict"));
    }
  }

  #close(id: EntityId | null): Settle | null | undefined {
    if (id === null) return undefined;
    const settle = this.#open.get(id)?.settle;
    this.#open.delete(id);
    return settle;
  }

  async #runProgram(input: string): Promise<void> {
    try {
      const output = await this.#program(this.#guest(input));
      this.#completion = { kind: "completed", output: bytes(output) };
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.#completion = { kind: "failed", error: bytes(text), errorCode: "USER_ERROR" };
    }
  }

  #guest(input: string): Guest {
    const sleepUntil = (atMs: number) =>
      this.#ask("wait", (correlationId) => ({
        kind: "wait",
        correlationId,
        resumeAt: atMs,
      })).then(() => undefined);
    return {
      input,
      now: () => this.#clock,
      step: (stepName, text = "") =>
        this.#ask("step", (correlationId) => ({
          kind: "step",
          correlationId,
          stepName,
          input: bytes(text),
        })),
      badStep: (stepName) =>
        this.#ask("step", (correlationId) => ({
          kind: "unserializable_step",
          correlationId,
          stepName,
          error: bytes("cannot be encoded"),
        })),
      sleep: (ms) => sleepUntil(this.#clock + ms),
      sleepUntil,
      hook: (token, more = {}) => this.#hook(token, more),
      setAttributes: (changes) =>
        this.#ask("attr", (correlationId) => ({
          kind: "set_attributes",
          correlationId,
          changes: Object.entries(changes).map(([key, value]) => ({ key, value })),
        })).then(() => undefined),
    };
  }

  #hook(token: string, more: { awaitsConflict?: boolean; retentionMs?: number }): GuestHook {
    const id = this.#draw("hook");
    const side: HookSide = { payloads: [], takers: [], conflictTakers: [], conflict: undefined };
    this.#hookSides.set(id, side);
    this.#open.set(id, {
      settle: null,
      operation: {
        kind: "hook",
        correlationId: id,
        token,
        metadata: null,
        isWebhook: false,
        isSystem: false,
        force: false,
        retentionMs: more.retentionMs ?? 0,
        awaitsConflict: more.awaitsConflict ?? false,
      },
    });
    return {
      next: () => {
        const payload = side.payloads.shift();
        if (payload !== undefined) return Promise.resolve(payload);
        return new Promise((resolve, reject) => side.takers.push({ resolve, reject }));
      },
      conflict: () =>
        side.conflict === undefined
          ? new Promise((resolve, reject) =>
              side.conflictTakers.push({ resolve: (text) => resolve(text || null), reject }),
            )
          : Promise.resolve(side.conflict),
      dispose: () => {
        this.#open.set(`dispose ${id}`, {
          settle: null,
          operation: { kind: "dispose_hook", correlationId: id },
        });
      },
    };
  }

  #ask(kind: EntityKind, make: (id: EntityId) => OpenOperation): Promise<string> {
    const id = this.#draw(kind);
    return new Promise((resolve, reject) => {
      this.#open.set(id, { operation: make(id), settle: { resolve, reject } });
    });
  }

  #draw(kind: EntityKind): EntityId {
    const id = idOf(kind, ++this.#ordinal);
    return id;
  }
}

function spell(_key: string, value: unknown): unknown {
  return value instanceof Uint8Array ? { bytes: textOf(value) } : value;
}

function revive(_key: string, value: unknown): unknown {
  const isBytes = typeof value === "object" && value !== null && "bytes" in value;
  return isBytes ? bytes(String(value.bytes)) : value;
}
