/**
 * Who lives where, who is watched more closely, and whether there is room. Pure: time and sizes
 * are arguments.
 *
 * S16  A run is failed by the watchdog only after the same event overran twice, the second time on
 *     the penalty thread.
 */
import type { RunId, TenantId } from "../engine/ids.ts";

/** How long a tenant whose code overran starts its heaps on the penalty thread, ms. */
export const PENALTY_MS = 60_000;
/** Suspicions kept; the oldest goes first, which at worst gives one more try. */
const SUSPICIONS_MAX = 10_000;

export interface RunKey {
  readonly tenantId: TenantId;
  readonly runId: RunId;
}

/** Remembers overruns, bounded in number and time. */
export class Conduct {
  /** Slot of the event that overran once, by run; null where no event was being fed. */
  readonly #suspicions = new Map<string, number | null>();
  readonly #penalties = new Map<TenantId, number>();

  /** Whether this is the second overrun of the run at that event. */
  overran(run: RunKey, slot: number | null, nowMs: number): boolean {
    this.penalize(run.tenantId, nowMs);
    const key = `${run.tenantId}/${run.runId}`;
    const isSecond = this.#suspicions.has(key) && this.#suspicions.get(key) === slot;
    this.#suspicions.delete(key);
    if (isSecond) return true;
    this.#suspicions.set(key, slot);
    if (this.#suspicions.size > SUSPICIONS_MAX) {
      const [oldest] = this.#suspicions.keys();
      this.#suspicions.delete(oldest as string);
    }
    return false;
  }

  penalize(tenantId: TenantId, nowMs: number): void {
    this.#penalties.set(tenantId, nowMs + PENALTY_MS);
  }

  /** Whether the tenant's heaps start on the penalty thread. */
  isPenalized(tenantId: TenantId, nowMs: number): boolean {
    const untilMs = this.#penalties.get(tenantId);
    if (untilMs === undefined) return false;
    if (nowMs < untilMs) return true;
    this.#penalties.delete(tenantId);
    return false;
  }
}

/** Counted for a heap before it says how large it is: a small bundle's. */
const HEAP_BYTES_ASSUMED = 2 << 20;
/** Of linear memory, what no heap touches: all but the top of the C stack. */
const UNTOUCHED_BYTES = 4 << 20;

/** Memory of all heaps together. Asking waits, in order; nothing is killed to make room. */
export class MemoryBudget {
  readonly #bytesMax: number;
  readonly #threads: number;
  readonly #waiting: (() => void)[] = [];
  #heapBytes = 0;
  /** The largest limit seen: each thread may grow one heap so far at a time. */
  #largestHeap = 0;

  constructor(bytesMax: number, threads: number) {
    this.#bytesMax = bytesMax;
    this.#threads = threads;
  }

  /** Resolves once the heap has room. A heap alone always has. */
  reserve(heapBytesMax: number): Promise<Reservation> {
    this.#largestHeap = Math.max(this.#largestHeap, heapBytesMax);
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#taken()));
      this.#admit();
    });
  }

  #taken(): Reservation {
    let bytes = HEAP_BYTES_ASSUMED;
    this.#heapBytes += bytes;
    return {
      note: (linearBytes) => {
        const touched = Math.max(linearBytes - UNTOUCHED_BYTES, 0);
        this.#heapBytes += touched - bytes;
        bytes = touched;
        this.#admit();
      },
      release: () => {
        this.#heapBytes -= bytes;
        bytes = 0;
        this.#admit();
      },
    };
  }

  #hasRoom(): boolean {
    if (this.#heapBytes === 0) return true;
    const growth = this.#threads * this.#largestHeap;
    return this.#heapBytes + HEAP_BYTES_ASSUMED + growth <= this.#bytesMax;
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#hasRoom()) this.#waiting.shift()?.();
  }
}

export interface Reservation {
  /** `linearBytes`: all of the heap's linear memory. */
  note(linearBytes: number): void;
  release(): void;
}
