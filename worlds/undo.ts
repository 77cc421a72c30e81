/**
 * Maps of what lives only in memory, but changes within a transaction: if the transaction fails,
 * they go back with it.
 *
 * Owns the journal. Values are immutable; a change is a replacement.
 */
export class Journal {
  readonly #undo: (() => void)[] = [];

  note(undo: () => void): void {
    this.#undo.push(undo);
  }

  commit(): void {
    this.#undo.length = 0;
  }

  rollback(): void {
    for (let undo = this.#undo.pop(); undo !== undefined; undo = this.#undo.pop()) undo();
  }
}

export class JournaledMap<K, V> {
  readonly #map = new Map<K, V>();
  readonly #journal: Journal;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  get(key: K): V | undefined {
    return this.#map.get(key);
  }

  has(key: K): boolean {
    return this.#map.has(key);
  }

  values(): Iterable<V> {
    return this.#map.values();
  }

  set(key: K, value: V): void {
    this.#noteOld(key);
    this.#map.set(key, value);
  }

  delete(key: K): void {
    this.#noteOld(key);
    this.#map.delete(key);
  }

  #noteOld(key: K): void {
    const had = this.#map.has(key);
    const old = this.#map.get(key);
    this.#journal.note(() => {
      if (had) this.#map.set(key, old as V);
      else this.#map.delete(key);
    });
  }
}
