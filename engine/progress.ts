/**
 * Progress: how a delivery sleeps until something happened, and how all of them are told to end.
 *
 * Owns no state of a run. A notice that comes before the wait is not lost.
 */
import type { Clock } from "./ports/host.ts";

export class Progress {
  readonly #clock: Clock;
  #isNoticed = false;
  #wake: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Something happened: ends the wait that runs, or the next one at once. */
  notify(): void {
    this.#isNoticed = true;
    this.#wake?.();
  }

  /** Waits for a notice, at most until `untilMs` (epoch ms; null: for as long as it takes). */
  async wait(untilMs: number | null): Promise<void> {
    if (!this.#isNoticed) {
      await new Promise<void>((resolve) => {
        const cancel =
          untilMs === null
            ? () => undefined
            : this.#clock.setTimer(Math.max(0, untilMs - this.#clock.now()), resolve);
        this.#wake = () => {
          cancel();
          resolve();
        };
      });
    }
    this.#wake = null;
    this.#isNoticed = false;
  }
}

/** Whether the process is ending; deliveries then hand off as soon as they can. */
export class Stopping {
  readonly #listeners = new Set<() => void>();
  #hasBegun = false;

  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  begin(): void {
    this.#hasBegun = true;
    for (const listener of this.#listeners) listener();
  }

  /** Calls back when it begins; returns what ends that. */
  onBegin(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
