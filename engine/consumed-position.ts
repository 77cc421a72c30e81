/**
 * Consumed positions: up to where this process last drove a run to rest.
 *
 * Lets a wake with nothing new be acknowledged after one tail read (spec: "Wake with nothing new").
 *
 * E40  A position is recorded only once its delivery's writes had committed and its messages were
 *      out, and is forgotten as soon as a delivery of the run begins.
 * E41  A run whose next wait is due is never at rest.
 */
import type { RunRef } from "./ids.ts";
import type { Slot } from "./slots.ts";

export interface ConsumedPosition {
  readonly slot: Slot;
  /** The earliest deadline of an open wait, epoch ms. */
  readonly nextDueMs: number | null;
}

export class ConsumedPositions {
  readonly #positions = new Map<string, ConsumedPosition>();
  readonly #countMax: number;

  constructor(countMax: number) {
    this.#countMax = countMax;
  }

  /** The position if a wake at `nowMs` may rely on it. */
  restingAt(run: RunRef, nowMs: number): Slot | null {
    const position = this.#positions.get(keyOf(run));
    if (position === undefined) return null;
    if (position.nextDueMs !== null && position.nextDueMs <= nowMs) return null;
    return position.slot;
  }

  record(run: RunRef, position: ConsumedPosition): void {
    const key = keyOf(run);
    this.#positions.delete(key);
    this.#positions.set(key, position);
    if (this.#positions.size <= this.#countMax) return;
    const [oldest] = this.#positions.keys();
    if (oldest !== undefined) this.#positions.delete(oldest);
  }

  forget(run: RunRef): void {
    this.#positions.delete(keyOf(run));
  }
}

function keyOf(run: RunRef): string {
  return `${run.tenantId}/${run.runId}`;
}
