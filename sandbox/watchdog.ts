/**
 * Ends work that will not end by itself, from outside its thread.
 *
 * S15  Only CPU time of the work's own thread convicts a run. Wall time replaces the thread and
 *     blames nobody: the machine was busy, stopped, or the thread hangs without running.
 */
import type { CpuClock } from "./cpu-clock.ts";
import { progressIn } from "./progress.ts";
import type { ProgressRecord } from "./progress.ts";

export type Verdict =
  | { readonly kind: "fine" }
  /** `usedMs`: CPU ms of the piece of work. */
  | { readonly kind: "cpu_overrun"; readonly work: ProgressRecord; readonly usedMs: number }
  | { readonly kind: "wall_overrun" };

/** A thread as the watchdog sees it. */
export interface Watched {
  readonly progress: SharedArrayBuffer;
  /** Null until the thread has said which it is. */
  readonly cpuClock: CpuClock | null;
  /** When the thread last took up or finished an order, wall ms of `performance.now`. */
  readonly stirredMs: number;
  readonly isBusy: boolean;
}

export interface WatchdogOptions {
  /** Between two looks, ms: how late a conviction may come. */
  readonly lookEveryMs: number;
  /** A busy thread that has finished nothing for so long is replaced, wall ms. */
  readonly wallMsMax: number;
}

export const WATCHDOG_DEFAULTS: WatchdogOptions = { lookEveryMs: 20, wallMsMax: 120_000 };

export function verdictOn(thread: Watched, nowMs: number, wallMsMax: number): Verdict {
  if (!thread.isBusy) return { kind: "fine" };
  const work = progressIn(thread.progress);
  const cpuMs = thread.cpuClock?.nowMs() ?? null;
  if (work !== null && cpuMs !== null) {
    const usedMs = cpuMs - work.cpuStartedMs;
    if (usedMs > work.cpuHardMs) return { kind: "cpu_overrun", work, usedMs };
  }
  return nowMs - thread.stirredMs > wallMsMax ? { kind: "wall_overrun" } : { kind: "fine" };
}

/** Looks at threads for as long as any of them is busy. */
export class Watchdog<T extends Watched> {
  readonly #options: WatchdogOptions;
  readonly #end: (thread: T, verdict: Exclude<Verdict, { kind: "fine" }>) => void;
  readonly #watched = new Set<T>();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    options: WatchdogOptions,
    end: (thread: T, verdict: Exclude<Verdict, { kind: "fine" }>) => void,
  ) {
    this.#options = options;
    this.#end = end;
  }

  /** The thread has something to do. */
  watch(thread: T): void {
    this.#watched.add(thread);
    this.#timer ??= setTimeout(() => this.#look(), this.#options.lookEveryMs);
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#watched.clear();
  }

  #look(): void {
    this.#timer = null;
    const nowMs = performance.now();
    for (const thread of this.#watched) {
      const verdict = verdictOn(thread, nowMs, this.#options.wallMsMax);
      if (verdict.kind !== "fine") this.#end(thread, verdict);
      if (!thread.isBusy) this.#watched.delete(thread);
    }
    if (this.#watched.size > 0) {
      this.#timer = setTimeout(() => this.#look(), this.#options.lookEveryMs);
    }
  }
}
