/**
 * A bounded cache that forgets what was not used for longest.
 *
 * Owns nothing but memory: whoever fills it must be able to make every value again.
 */

export class Lru<K, V> {
  readonly #weightMax: number;
  readonly #weigh: (value: V) => number;
  readonly #entries = new Map<K, { readonly value: V; readonly weight: number }>();
  #weight = 0;

  /** `weigh` says what one value counts for; without it every value counts 1. */
  constructor(weightMax: number, weigh: (value: V) => number = () => 1) {
    this.#weightMax = weightMax;
    this.#weigh = weigh;
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Keeps the value, unless it alone is heavier than the whole cache may be. */
  set(key: K, value: V): void {
    this.delete(key);
    const weight = this.#weigh(value);
    if (weight > this.#weightMax) return;
    this.#entries.set(key, { value, weight });
    this.#weight += weight;
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#weightMax) return;
      this.delete(oldest);
    }
  }

  delete(key: K): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#weight -= entry.weight;
  }

  deleteWhere(matches: (key: K) => boolean): void {
    for (const key of this.#entries.keys()) if (matches(key)) this.delete(key);
  }
}
