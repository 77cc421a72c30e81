/**
 * One guest thread from outside: its orders, its answers, its death.
 *
 * Orders of one turn of the event loop go in one message. When the thread dies, every order that
 * has no answer yet is answered as lost, or as its executioner says.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { cpuClockOf } from "./cpu-clock.ts";
import type { CpuClock } from "./cpu-clock.ts";
import type { Place } from "./place.ts";
import { progressBuffer } from "./progress.ts";
import type { Watched } from "./watchdog.ts";
import { lostAnswer } from "./wire.ts";
import type {
  Answer,
  AnswerTo,
  BundleRef,
  BundleSource,
  NumberedAnswer,
  NumberedOrder,
  Order,
  ThreadData,
  ThreadHello,
} from "./wire.ts";

const ENTRY = createRequire(import.meta.url).resolve("#built/entries/guest-thread.mjs");
/** Room for the deepest recursion that the engine's own stack limit lets a guest reach. */
const STACK_MB = 8;
/** Of the thread's JavaScript, which holds texts on their way; heaps are outside of it. */
const OLD_GENERATION_MB = 512;

export interface ThreadEvents {
  /** The thread got something to do. */
  busy(thread: GuestThread): void;
  answered(order: Order, answer: Answer | null): void;
  died(thread: GuestThread, reason: string): void;
}

interface Pending {
  readonly order: Order;
  readonly resolve: (answer: Answer | null) => void;
}

export class GuestThread implements Place, Watched {
  readonly progress = progressBuffer();
  cpuClock: CpuClock | null = null;
  stirredMs = performance.now();
  readonly #worker: Worker;
  readonly #events: ThreadEvents;
  readonly #pending = new Map<number, Pending>();
  readonly #sources = new Set<string>();
  #unsent: NumberedOrder[] = [];
  #lastNumber = 0;
  #death: string | null = null;

  constructor(module: WebAssembly.Module, events: ThreadEvents) {
    this.#events = events;
    this.#worker = new Worker(ENTRY, {
      env: {},
      execArgv: [],
      workerData: { module, progress: this.progress } satisfies ThreadData,
      resourceLimits: { stackSizeMb: STACK_MB, maxOldGenerationSizeMb: OLD_GENERATION_MB },
    });
    this.#worker.unref();
    this.#worker.on("message", (message: ThreadHello | NumberedAnswer[]) => {
      if (Array.isArray(message)) this.#take(message);
      else this.cpuClock = cpuClockOf(message.threadId);
    });
    this.#worker.on("error", (error) => this.#die(`the thread failed: ${error.message}`));
    this.#worker.on("exit", () => this.#die("the thread ended"));
  }

  get isBusy(): boolean {
    return this.#pending.size > 0;
  }

  get isAlive(): boolean {
    return this.#death === null;
  }

  get queued(): number {
    return this.#pending.size;
  }

  order<K extends Order["kind"]>(order: Extract<Order, { kind: K }>): Promise<AnswerTo<K>> {
    if (this.#death !== null) {
      return Promise.resolve(lostAnswer(order, this.#death) as AnswerTo<K>);
    }
    if (!this.isBusy) {
      this.stirredMs = performance.now();
      this.#worker.ref();
    }
    const number = ++this.#lastNumber;
    const answer = new Promise<Answer | null>((resolve) => {
      this.#pending.set(number, { order, resolve });
    });
    this.#send({ number, order });
    this.#events.busy(this);
    return answer as Promise<AnswerTo<K>>;
  }

  supply(source: BundleSource): void {
    const key = keyOf(source);
    if (this.#sources.has(key)) return;
    this.#sources.add(key);
    void this.order({ kind: "bundle", source: plainSource(source) });
  }

  forget(source: BundleRef): void {
    this.#sources.delete(keyOf(source));
  }

  /** Ends the thread. `answerOf` may answer what was in progress; null: it is lost. */
  kill(reason: string, answerOf: (order: Order) => Answer | null = () => null): Promise<number> {
    this.#die(reason, answerOf);
    return this.#worker.terminate();
  }

  #send(order: NumberedOrder): void {
    this.#unsent.push(order);
    if (this.#unsent.length > 1) return;
    process.nextTick(() => {
      const orders = this.#unsent;
      this.#unsent = [];
      if (this.#death === null) this.#worker.postMessage(orders, []);
    });
  }

  #take(answers: readonly NumberedAnswer[]): void {
    this.stirredMs = performance.now();
    for (const { number, answer } of answers) {
      const pending = this.#pending.get(number);
      if (pending === undefined) continue;
      this.#pending.delete(number);
      this.#events.answered(pending.order, answer);
      pending.resolve(answer);
    }
    if (!this.isBusy) this.#worker.unref();
  }

  #die(reason: string, answerOf: (order: Order) => Answer | null = () => null): void {
    if (this.#death !== null) return;
    this.#death = reason;
    this.cpuClock?.close();
    this.cpuClock = null;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    this.#events.died(this, reason);
    for (const { order, resolve } of pending) {
      resolve(answerOf(order) ?? lostAnswer(order, reason));
    }
  }
}

function keyOf({ tenantId, hash }: BundleRef): string {
  return `${tenantId}/${hash}`;
}

/** Only what is needed: the caller's object may carry more than may be copied to a thread. */
function plainSource({ tenantId, hash, workflowCode, guestLibrary }: BundleSource): BundleSource {
  return { tenantId, hash, workflowCode, guestLibrary };
}
