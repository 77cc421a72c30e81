/**
 * Orders that wait for CPU, of all guest threads of a process: each tenant's for one thread in the
 * order they were given, tenants by turns (turns.ts).
 *
 * Owns how much is handed to threads ahead of their answers: enough that no core need wait for the
 * main thread, and no more. What has been handed over is nobody's turn any more, and threads that
 * run beyond the number of cores only take time from each other, by the system's turns and not ours.
 *
 * S34  At most as many threads as there are cores have short work at one time. One whose work turns
 *      out to be long keeps its thread and gives its place to others.
 */
import type { TenantId } from "../engine/ids.ts";
import type { Place } from "./place.ts";
import { Turns } from "./turns.ts";
import type { Turn } from "./turns.ts";
import type { AnswerTo, BundleSource, Order } from "./wire.ts";

/** Orders that one thread may have ahead, and what they may be expected to cost together. */
const AHEAD_ORDERS_MAX = 4;
const AHEAD_CPU_MS_MAX = 2;
/** Wall ms without an answer after which what a thread does counts as long. */
const LONG_MS = 10;

interface Waiting {
  readonly thread: ThreadState;
  readonly order: Order;
  readonly source: BundleSource | null;
  readonly resolve: (answer: unknown) => void;
}

interface ThreadState {
  readonly place: Place;
  /** Handed over and not answered, with what was said of their cost. */
  readonly ahead: Map<Order, { readonly turn: Turn<Waiting>; costMs: number | null }>;
  waitingCount: number;
  expectedMs: number;
  /** Its work is long. */
  isLong: boolean;
  timer: NodeJS.Timeout | null;
}

/** A thread as a heap of one tenant sees it. */
export interface HeapSeat {
  readonly tenantId: TenantId;
  readonly weight: number;
}

export class GuestCpu<T extends Place> {
  readonly #cores: number;
  readonly #turns = new Turns<Waiting>();
  readonly #threads = new WeakMap<T, ThreadState>();
  /** Threads that have short work. */
  readonly #active = new Set<ThreadState>();

  constructor(cores: number) {
    this.#cores = cores;
  }

  /** Orders for the thread that are not answered yet. */
  loadOf(thread: T): number {
    const state = this.#stateOf(thread);
    return state.waitingCount + state.ahead.size;
  }

  /** Where the heap gives its orders. */
  placeOn(thread: T, { tenantId, weight }: HeapSeat): Place {
    const state = this.#stateOf(thread);
    let source: BundleSource | null = null;
    return {
      order: <K extends Order["kind"]>(order: Extract<Order, { kind: K }>) => {
        // Costs nothing, and frees what others may wait for.
        if (order.kind === "close") return thread.order(order);
        return new Promise<AnswerTo<K>>((resolve) => {
          const settle = resolve as (answer: unknown) => void;
          state.waitingCount += 1;
          this.#turns.add(tenantId, weight, { thread: state, order, source, resolve: settle });
          this.#pump();
        });
      },
      // With the order that needs it: the thread keeps only so many.
      supply: (next) => {
        source = next;
      },
      forget: (which) => thread.forget(which),
    };
  }

  /** The thread says what an order cost it, CPU ms; before its answer. */
  note(thread: T, order: Order, costMs: number): void {
    const ahead = this.#stateOf(thread).ahead.get(order);
    if (ahead !== undefined) ahead.costMs = costMs;
  }

  #stateOf(thread: T): ThreadState {
    const known = this.#threads.get(thread);
    if (known !== undefined) return known;
    const state: ThreadState = {
      place: thread,
      ahead: new Map(),
      waitingCount: 0,
      expectedMs: 0,
      isLong: false,
      timer: null,
    };
    this.#threads.set(thread, state);
    return state;
  }

  #pump(): void {
    for (;;) {
      const turn = this.#turns.next(({ thread }) => this.#canTake(thread));
      if (turn === null) return;
      this.#hand(turn);
    }
  }

  #canTake(thread: ThreadState): boolean {
    if (thread.ahead.size === 0) return this.#active.size < this.#cores;
    if (thread.isLong || thread.ahead.size >= AHEAD_ORDERS_MAX) return false;
    return thread.expectedMs < AHEAD_CPU_MS_MAX;
  }

  #hand(turn: Turn<Waiting>): void {
    const { thread, order, source, resolve } = turn.item;
    thread.waitingCount -= 1;
    thread.ahead.set(order, { turn, costMs: null });
    thread.expectedMs += turn.expectedMs;
    this.#active.add(thread);
    this.#time(thread);
    if (source !== null && "bundle" in order) thread.place.supply(source);
    void thread.place.order(order).then((answer) => {
      this.#settle(thread, order);
      resolve(answer);
    });
  }

  /** Between two answers of a thread lies one piece of work. */
  #time(thread: ThreadState): void {
    if (thread.timer !== null) {
      thread.timer.refresh();
      return;
    }
    thread.timer = setTimeout(() => {
      if (thread.ahead.size === 0) return;
      thread.isLong = true;
      this.#active.delete(thread);
      this.#pump();
    }, LONG_MS);
    thread.timer.unref();
  }

  #settle(thread: ThreadState, order: Order): void {
    const ahead = thread.ahead.get(order);
    if (ahead === undefined) return;
    thread.ahead.delete(order);
    this.#turns.settle(ahead.turn, ahead.costMs);
    thread.isLong = false;
    if (thread.ahead.size === 0) {
      thread.expectedMs = 0;
      this.#active.delete(thread);
    } else {
      thread.expectedMs -= ahead.turn.expectedMs;
      this.#active.add(thread);
      thread.timer?.refresh();
    }
    this.#pump();
  }
}
