/**
 * The life of one worker: what it has to do with the outside ends in one moment.
 *
 * Owns that moment. What a dead worker asks of the World or the clock is never answered, as nothing
 * of a process runs on after its death.
 */
import type { Clock } from "../ports/host.ts";

export class Life {
  readonly #onEnd = new Set<() => void>();
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  end(): void {
    this.#isOver = true;
    for (const callback of this.#onEnd) callback();
    this.#onEnd.clear();
  }

  /** Calls back when it ends; returns what takes that back. */
  onEnd(callback: () => void): () => void {
    this.#onEnd.add(callback);
    return () => void this.#onEnd.delete(callback);
  }

  /** The clock as the worker has it: its timers die with it. */
  clock(clock: Clock): Clock {
    return {
      now: () => clock.now(),
      setTimer: (delayMs, callback) => {
        if (this.#isOver) return () => undefined;
        const takeBack = clock.setTimer(delayMs, () => {
          forget();
          callback();
        });
        const forget = this.onEnd(takeBack);
        return () => {
          forget();
          takeBack();
        };
      },
    };
  }
}

/** What is asked of nobody. */
export function neverAnswered<T>(): Promise<T> {
  return new Promise<T>(() => undefined);
}
