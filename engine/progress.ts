/**
 * Progress: how a delivery sleeps until something happened, and how all of them are told to end.
 *
 * Owns no state of a run. A notice that comes before the wait is not lost.
 */
import { STOP_GRACE_MS } from "./limits.ts";
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

/** What is told of the end of the process; each at once if it has come to that already. */
export interface StopListener {
  readonly onBegin?: () => void;
  /** The grace is over. */
  readonly onCut: () => void;
}

/**
 * Whether the process is ending: deliveries hand off as soon as they can, and bodies that may run
 * again elsewhere are cut short once they have had a grace.
 */
export class Stopping {
  readonly #clock: Clock;
  readonly #listeners = new Set<StopListener>();
  #hasBegun = false;
  #isCut = false;
  #cancelGrace = (): void => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#cancelGrace = this.#clock.setTimer(STOP_GRACE_MS, () => {
      this.#isCut = true;
      for (const listener of this.#listeners) listener.onCut();
    });
    for (const listener of this.#listeners) listener.onBegin?.();
  }

  /** Nothing is under way any more. */
  end(): void {
    this.#cancelGrace();
  }

  /** Returns what ends it. */
  listen(listener: StopListener): () => void {
    this.#listeners.add(listener);
    if (this.#hasBegun) listener.onBegin?.();
    if (this.#isCut) listener.onCut();
    return () => this.#listeners.delete(listener);
  }
}
