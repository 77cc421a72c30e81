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

/**
 * Memory of all heaps together. Asking waits; nothing is killed to make room.
 *
 * S33  Of those that wait for memory, the tenant that holds least of it is next, and of one tenant
 *      the first that asked: a tenant that fills the memory only keeps itself waiting.
 */
export class MemoryBudget {
  readonly #bytesMax: number;
  readonly #threads: number;
  /** By tenant, in the order in which they began to wait. */
  readonly #waiting = new Map<TenantId, (() => void)[]>();
  readonly #bytesByTenant = new Map<TenantId, number>();
  #heapBytes = 0;
  /** The largest limit seen: each thread may grow one heap so far at a time. */
  #largestHeap = 0;

  constructor(bytesMax: number, threads: number) {
    this.#bytesMax = bytesMax;
    this.#threads = threads;
  }

  /** Resolves once the heap has room. A heap alone always has. */
  reserve(tenantId: TenantId, heapBytesMax: number): Promise<Reservation> {
    this.#largestHeap = Math.max(this.#largestHeap, heapBytesMax);
    return new Promise((resolve) => {
      const queue = this.#waiting.get(tenantId) ?? [];
      queue.push(() => resolve(this.#taken(tenantId)));
      this.#waiting.set(tenantId, queue);
      this.#admit();
    });
  }

  #taken(tenantId: TenantId): Reservation {
    let bytes = 0;
    const hold = (next: number): void => {
      this.#heapBytes += next - bytes;
      const ofTenant = (this.#bytesByTenant.get(tenantId) ?? 0) + next - bytes;
      if (ofTenant === 0) this.#bytesByTenant.delete(tenantId);
      else this.#bytesByTenant.set(tenantId, ofTenant);
      bytes = next;
    };
    hold(HEAP_BYTES_ASSUMED);
    return {
      note: (linearBytes) => {
        hold(Math.max(linearBytes - UNTOUCHED_BYTES, 0));
        this.#admit();
      },
      release: () => {
        hold(0);
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
    while (this.#waiting.size > 0 && this.#hasRoom()) {
      const tenantId = this.#poorest();
      const queue = this.#waiting.get(tenantId) ?? [];
      queue.shift()?.();
      if (queue.length === 0) this.#waiting.delete(tenantId);
    }
  }

  /** Of the tenants that wait. */
  #poorest(): TenantId {
    const [first, ...others] = this.#waiting.keys();
    const bytesOf = (tenantId: TenantId) => this.#bytesByTenant.get(tenantId) ?? 0;
    return others.reduce(
      (poorest, other) => (bytesOf(other) < bytesOf(poorest) ? other : poorest),
      first as TenantId,
    );
  }
}

export interface Reservation {
  /** `linearBytes`: all of the heap's linear memory. */
  note(linearBytes: number): void;
  release(): void;
}
