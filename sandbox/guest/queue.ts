/** A queue whose front is taken in constant time, and whose storage does not grow with its past. */
import { list, push } from "./primordials.ts";

const TAKEN_MAX = 1000;

export class Queue<T> {
  #items = list<T | undefined>();
  #from = 0;

  get size(): number {
    return this.#items.length - this.#from;
  }

  add(value: T): void {
    push(this.#items, value);
  }

  /** Undefined: it is empty. */
  take(): T | undefined {
    if (this.#from === this.#items.length) return undefined;
    const value = this.#items[this.#from];
    this.#items[this.#from] = undefined;
    this.#from += 1;
    if (this.#from === this.#items.length || this.#from > TAKEN_MAX) this.#compact();
    return value;
  }

  #compact(): void {
    const rest = list<T | undefined>();
    for (let i = this.#from; i < this.#items.length; i++) push(rest, this.#items[i]);
    this.#items = rest;
    this.#from = 0;
  }
}
