/**
 * Virtual time: a clock that only moves when everything that could happen now has happened.
 *
 * What runs under it uses real promises and no real timers. Between two timers the scheduler waits
 * until the microtask queue is empty, which one macrotask tells: all microtasks run before it. So a
 * simulation is a function of its seed.
 */
import type { Clock } from "../../engine/ports/host.ts";
import type { Draws } from "./draws.ts";

interface Timer {
  readonly atMs: number;
  /** Breaks ties of equal times; drawn, so that equal times come in every order. */
  readonly rank: number;
  readonly callback: () => void;
  isCancelled: boolean;
}

export interface VirtualClock extends Clock {
  /** Resolves `delayMs` later. */
  sleep(delayMs: number): Promise<void>;
  /**
   * Runs timers in order of time until `isDone` says so or none is left or `untilMs` is past.
   * Answers how it ended.
   */
  run(options: RunOptions): Promise<"done" | "idle" | "time" | "steps">;
  /** Timers run so far. */
  readonly steps: number;
}

export interface RunOptions {
  readonly untilMs: number;
  readonly stepsMax: number;
  readonly isDone: () => boolean;
}

export function virtualClock(startMs: number, draws: Draws): VirtualClock {
  const heap = timerHeap();
  let nowMs = startMs;
  let steps = 0;
  const setTimer = (delayMs: number, callback: () => void) => {
    if (!(delayMs >= 0)) throw new Error(`a timer's delay is a number from 0, not ${delayMs}`);
    const timer: Timer = {
      atMs: nowMs + delayMs,
      rank: draws.next(),
      callback,
      isCancelled: false,
    };
    heap.push(timer);
    return () => void (timer.isCancelled = true);
  };
  return {
    now: () => nowMs,
    setTimer,
    sleep: (delayMs) => new Promise((resolve) => setTimer(delayMs, resolve)),
    get steps() {
      return steps;
    },
    run: async ({ untilMs, stepsMax, isDone }) => {
      const lastStep = steps + stepsMax;
      for (;;) {
        await quiet();
        if (isDone()) return "done";
        let timer = heap.pop();
        while (timer?.isCancelled === true) timer = heap.pop();
        if (timer === null) return "idle";
        if (timer.atMs > untilMs) {
          heap.push(timer);
          return "time";
        }
        if (steps >= lastStep) {
          heap.push(timer);
          return "steps";
        }
        steps++;
        nowMs = timer.atMs;
        timer.callback();
      }
    },
  };
}

/** Resolves once no microtask is left. */
export function quiet(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.rank < b.rank);
}

/** A binary heap, least time first. */
function timerHeap() {
  const timers: Timer[] = [];
  const at = (index: number) => timers[index] as Timer;
  const swap = (i: number, j: number) => {
    const held = at(i);
    timers[i] = at(j);
    timers[j] = held;
  };
  return {
    push: (timer: Timer) => {
      let index = timers.push(timer) - 1;
      while (index > 0) {
        const parent = (index - 1) >> 1;
        if (!isBefore(at(index), at(parent))) break;
        swap(index, parent);
        index = parent;
      }
    },
    pop: (): Timer | null => {
      const least = timers[0];
      const last = timers.pop();
      if (least === undefined || last === undefined) return null;
      if (timers.length === 0) return least;
      timers[0] = last;
      let index = 0;
      for (;;) {
        let child = 2 * index + 1;
        if (child >= timers.length) break;
        if (child + 1 < timers.length && isBefore(at(child + 1), at(child))) child++;
        if (!isBefore(at(child), at(index))) break;
        swap(index, child);
        index = child;
      }
      return least;
    },
  };
}
