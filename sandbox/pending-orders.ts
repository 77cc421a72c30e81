/**
 * Orders that a place has not answered yet, and the sources that it was given: what the main side
 * must remember of a place that may be gone at any instant.
 */
import { bundleKey, lostAnswer } from "./wire.ts";
import type { Answer, BundleRef, Order } from "./wire.ts";

interface Pending {
  readonly order: Order;
  readonly resolve: (answer: Answer | null) => void;
}

export class PendingOrders {
  readonly #pending = new Map<number, Pending>();
  readonly #supplied = new Set<string>();
  #lastNumber = 0;

  get size(): number {
    return this.#pending.size;
  }

  add(order: Order): { readonly number: number; readonly answer: Promise<Answer | null> } {
    const number = ++this.#lastNumber;
    const answer = new Promise<Answer | null>((resolve) => {
      this.#pending.set(number, { order, resolve });
    });
    return { number, answer };
  }

  orderOf(number: number): Order | undefined {
    return this.#pending.get(number)?.order;
  }

  settle(number: number, answer: Answer | null): void {
    this.#pending.get(number)?.resolve(answer);
    this.#pending.delete(number);
  }

  /** Answers all: as `answerOf` says, or as lost. */
  loseAll(reason: string, answerOf: (order: Order) => Answer | null): void {
    const all = [...this.#pending.values()];
    this.#pending.clear();
    for (const { order, resolve } of all) resolve(answerOf(order) ?? lostAnswer(order, reason));
  }

  /** Whether the source must be handed over now; from here on it counts as handed over. */
  isFirst(source: BundleRef): boolean {
    const key = bundleKey(source);
    if (this.#supplied.has(key)) return false;
    this.#supplied.add(key);
    return true;
  }

  forget(source: BundleRef): void {
    this.#supplied.delete(bundleKey(source));
  }
}
