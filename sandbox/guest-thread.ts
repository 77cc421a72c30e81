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
import { PendingOrders } from "./pending-orders.ts";
import type { Place } from "./place.ts";
import { progressBuffer } from "./progress.ts";
import type { Watched } from "./watchdog.ts";
import { lostAnswer } from "./wire.ts";
import type {
  Answer,
  AnswerTo,
  BundleRef,
  BundleSource,
  CostedAnswer,
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
  /** `cpuMs`: what the order cost the thread. */
  answered(order: Order, answer: Answer | null, cpuMs: number): void;
  died(thread: GuestThread, reason: string): void;
}

export class GuestThread implements Place, Watched {
  readonly progress = progressBuffer();
  cpuClock: CpuClock | null = null;
  stirredMs = performance.now();
  readonly #worker: Worker;
  readonly #events: ThreadEvents;
  readonly #pending = new PendingOrders();
  #unsent: NumberedOrder[] = [];
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
    this.#worker.on("message", (message: ThreadHello | CostedAnswer[]) => {
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

  order<K extends Order["kind"]>(order: Extract<Order, { kind: K }>): Promise<AnswerTo<K>> {
    if (this.#death !== null) {
      return Promise.resolve(lostAnswer(order, this.#death) as AnswerTo<K>);
    }
    if (!this.isBusy) {
      this.stirredMs = performance.now();
      this.#worker.ref();
    }
    const { number, answer } = this.#pending.add(order);
    this.#send({ number, order });
    this.#events.busy(this);
    return answer as Promise<AnswerTo<K>>;
  }

  supply(source: BundleSource): void {
    if (!this.#pending.isFirst(source)) return;
    void this.order({ kind: "bundle", source });
  }

  forget(source: BundleRef): void {
    this.#pending.forget(source);
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

  #take(answers: readonly CostedAnswer[]): void {
    this.stirredMs = performance.now();
    for (const { number, answer, cpuMs } of answers) {
      const order = this.#pending.orderOf(number);
      if (order === undefined) continue;
      this.#events.answered(order, answer, cpuMs);
      this.#pending.settle(number, answer);
    }
    // Not behind its death: a late answer must not let the process end before the thread has.
    if (this.#death === null && !this.isBusy) this.#worker.unref();
  }

  #die(reason: string, answerOf: (order: Order) => Answer | null = () => null): void {
    if (this.#death !== null) return;
    this.#death = reason;
    this.cpuClock?.close();
    this.cpuClock = null;
    this.#events.died(this, reason);
    this.#pending.loseAll(reason, answerOf);
  }
}
