/**
 * A clock that stands still until a test moves it.
 *
 * Owns the order of timers: by time, then by the order in which they were set.
 */
import type { Clock } from "../../engine/ports/host.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

/** The time at which a held clock starts, epoch ms. */
export const HELD_START_MS = 1_800_000_000_000;

export class HeldClock implements Clock {
  #now: number;
  #nextOrder = 0;
  readonly #timers = new Set<Timer>();

  constructor(startMs: number = HELD_START_MS) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, delayMs), order: this.#nextOrder++, callback };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  /** When the next timer fires; null: there is none. */
  get nextTimerAt(): number | null {
    return this.#next(Number.POSITIVE_INFINITY)?.at ?? null;
  }

  /**
   * Moves time on by so many ms and fires what falls due, in order. `settle` runs after each timer,
   * so that what the timer set off can set timers of its own.
   */
  async advance(ms: number, settle: () => Promise<void> = turn): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (let timer = this.#next(end); timer !== null; timer = this.#next(end)) {
      this.#timers.delete(timer);
      this.#now = Math.max(this.#now, timer.at);
      timer.callback();
      await settle();
    }
    this.#now = end;
    await settle();
  }

  #next(end: number): Timer | null {
    let first: Timer | null = null;
    for (const timer of this.#timers) {
      if (timer.at > end) continue;
      const isEarlier =
        first === null ||
        timer.at < first.at ||
        (timer.at === first.at && timer.order < first.order);
      if (isEarlier) first = timer;
    }
    return first;
  }
}

async function turn(): Promise<void> {
  await new Promise<void>((resolve) => {
    setImmediate(resolve);
  });
}
