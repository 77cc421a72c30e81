/**
 * Heaps that stay live between the deliveries of their runs: a bounded cache of this process.
 *
 * Owns the heaps it holds: what is put in is closed here, unless it is taken out first.
 *
 * E42  A heap is held by one delivery or by the cache, never by two.
 * E43  Eviction starts with the tenant that holds most, and with its run that rested longest; past
 *      its own limit a tenant's heaps give way to its own.
 */
import type { RunRef, TenantId } from "./ids.ts";
import type { RunLog } from "./log.ts";
import type { Heap } from "./ports/sandbox.ts";

export interface LiveHeap {
  readonly heap: Heap;
  /** The log that the heap has consumed whole. */
  readonly log: RunLog;
  /** Slot of the newest stored snapshot of the run that is known; 0 if none. */
  readonly snapshotSlot: number;
  readonly heapBytes: number;
}

interface Entry extends LiveHeap {
  readonly tenantId: TenantId;
}

export class LiveHeaps {
  readonly #entries = new Map<string, Entry>();
  readonly #bytesByTenant = new Map<TenantId, number>();
  readonly #bytesMax: number;
  #bytes = 0;
  #isClosed = false;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get heapCount(): number {
    return this.#entries.size;
  }

  /** Takes the run's heap out; from now on it is the caller's to close. */
  take(run: RunRef): LiveHeap | null {
    const key = keyOf(run);
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    this.#remove(key, entry);
    return entry;
  }

  /** Bytes of the tenant's heaps. */
  bytesOf(tenantId: TenantId): number {
    return this.#bytesByTenant.get(tenantId) ?? 0;
  }

  /** `tenantBytesMax`: what the run's tenant may hold; null: no limit of its own. */
  put(run: RunRef, live: LiveHeap, tenantBytesMax: number | null = null): void {
    const ownMax = tenantBytesMax ?? Number.POSITIVE_INFINITY;
    if (this.#isClosed || live.heapBytes > Math.min(this.#bytesMax, ownMax)) {
      live.heap.close();
      return;
    }
    this.take(run)?.heap.close();
    this.#entries.set(keyOf(run), { ...live, tenantId: run.tenantId });
    this.#count(run.tenantId, live.heapBytes);
    while (this.bytesOf(run.tenantId) > ownMax) this.#evictOf(run.tenantId);
    while (this.#bytes > this.#bytesMax) this.#evictOf(this.#largest());
  }

  dropTenant(tenantId: TenantId): void {
    for (const [key, entry] of this.#entries) {
      if (entry.tenantId !== tenantId) continue;
      this.#remove(key, entry);
      entry.heap.close();
    }
  }

  /** Closes all; what is put in later is closed at once. */
  close(): void {
    this.#isClosed = true;
    for (const [key, entry] of this.#entries) {
      this.#remove(key, entry);
      entry.heap.close();
    }
  }

  #largest(): TenantId | null {
    let largest: TenantId | null = null;
    for (const [tenantId, bytes] of this.#bytesByTenant) {
      if (largest === null || bytes > (this.#bytesByTenant.get(largest) ?? 0)) largest = tenantId;
    }
    return largest;
  }

  #evictOf(tenantId: TenantId | null): void {
    for (const [key, entry] of this.#entries) {
      if (entry.tenantId !== tenantId) continue;
      this.#remove(key, entry);
      entry.heap.close();
      return;
    }
  }

  #remove(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#count(entry.tenantId, -entry.heapBytes);
  }

  #count(tenantId: TenantId, bytes: number): void {
    this.#bytes += bytes;
    const held = (this.#bytesByTenant.get(tenantId) ?? 0) + bytes;
    if (held === 0) this.#bytesByTenant.delete(tenantId);
    else this.#bytesByTenant.set(tenantId, held);
  }
}

function keyOf(run: RunRef): string {
  return `${run.tenantId}/${run.runId}`;
}
