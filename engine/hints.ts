/**
 * Hints: who in this process waits for something, by name, and who tells them.
 *
 * Owns the listeners and no fact. Whoever is told looks, and looks now and then without being told,
 * so a hint that never comes costs time and nothing else.
 */
export class Hints {
  readonly #listeners = new Map<string, Set<() => void>>();

  /** Calls back at each hint; returns what ends that, and says whether it was the last listener. */
  listen(key: string, onHint: () => void): () => boolean {
    const listeners = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, listeners);
    listeners.add(onHint);
    return () => {
      listeners.delete(onHint);
      const isLast = listeners.size === 0;
      if (isLast) this.#listeners.delete(key);
      return isLast;
    };
  }

  has(key: string): boolean {
    return this.#listeners.has(key);
  }

  announce(key: string): void {
    for (const listener of this.#listeners.get(key) ?? []) listener();
  }
}
