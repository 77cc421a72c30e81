/**
 * Orders that wait for one guest thread: each tenant's in the order they were given, tenants by
 * turns (turns.ts).
 *
 * Owns how much is handed to the thread ahead of its answers: enough that it need not wait for the
 * main thread, and no more, because what has been handed over is nobody's turn any more.
 */
import type { TenantId } from "../engine/ids.ts";
import type { Place } from "./place.ts";
import { Turns } from "./turns.ts";
import type { Turn } from "./turns.ts";
import type { AnswerTo, BundleSource, Order } from "./wire.ts";

/** Orders that the thread may have ahead, and what they may be expected to cost together. */
const AHEAD_ORDERS_MAX = 4;
const AHEAD_CPU_MS_MAX = 2;

interface Waiting {
  readonly order: Order;
  readonly source: BundleSource | null;
  readonly resolve: (answer: unknown) => void;
}

export class ThreadQueue {
  readonly #thread: Place;
  readonly #turns = new Turns<Waiting>();
  /** Handed over and not answered, with what was said of their cost. */
  readonly #ahead = new Map<Order, { readonly turn: Turn<Waiting>; costMs: number | null }>();
  #aheadMs = 0;

  constructor(thread: Place) {
    this.#thread = thread;
  }

  /** Orders that are not answered yet. */
  get size(): number {
    return this.#turns.size + this.#ahead.size;
  }

  /** The thread, as a heap of the tenant sees it. */
  placeFor(tenantId: TenantId, weight: number): Place {
    let source: BundleSource | null = null;
    return {
      order: <K extends Order["kind"]>(order: Extract<Order, { kind: K }>) => {
        // Costs nothing, and frees what others may wait for.
        if (order.kind === "close") return this.#thread.order(order);
        return new Promise<AnswerTo<K>>((resolve) => {
          const waiting = { order, source, resolve: resolve as (answer: unknown) => void };
          this.#turns.add(tenantId, weight, waiting);
          this.#pump();
        });
      },
      // With the order that needs it: the thread keeps only so many.
      supply: (next) => {
        source = next;
      },
      forget: (which) => this.#thread.forget(which),
    };
  }

  /** The thread says what an order cost it, CPU ms; before its answer. */
  note(order: Order, costMs: number): void {
    const ahead = this.#ahead.get(order);
    if (ahead !== undefined) ahead.costMs = costMs;
  }

  #pump(): void {
    while (this.#hasRoom()) {
      const turn = this.#turns.next();
      if (turn === null) return;
      const { order, source, resolve } = turn.item;
      this.#ahead.set(order, { turn, costMs: null });
      this.#aheadMs += turn.expectedMs;
      if (source !== null && "bundle" in order) this.#thread.supply(source);
      void this.#thread.order(order).then((answer) => {
        this.#settle(order);
        resolve(answer);
      });
    }
  }

  #hasRoom(): boolean {
    if (this.#ahead.size === 0) return true;
    return this.#ahead.size < AHEAD_ORDERS_MAX && this.#aheadMs < AHEAD_CPU_MS_MAX;
  }

  #settle(order: Order): void {
    const ahead = this.#ahead.get(order);
    if (ahead === undefined) return;
    this.#ahead.delete(order);
    this.#aheadMs = this.#ahead.size === 0 ? 0 : this.#aheadMs - ahead.turn.expectedMs;
    this.#turns.settle(ahead.turn, ahead.costMs);
    this.#pump();
  }
}
