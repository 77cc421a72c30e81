/**
 * How much each tenant has stored: measured in the World's rows now and then, and counted on in
 * between by what this process writes.
 *
 * Owns the estimate that the quota of stored bytes is held against. It is made again from the rows
 * after every start and every few minutes, sooner where the quota is near; what other processes wrote
 * since the last measurement is not in it.
 *
 * T71  An estimate is never below what the last measurement found and this process wrote since.
 */
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import type { Clock, Log } from "../engine/ports/host.ts";
import type { StoredUse, StoredUsePage, TenantRecords } from "../engine/ports/world.ts";

/** How old a measurement may be while there is room. */
export const MEASURED_MS = 600_000;
/** How old it may be while there is none: room that was made is then soon seen. */
export const MEASURED_WHEN_OVER_MS = 5_000;
/** Running runs may write up to so many times the quota; past it only their ends are written. */
const HARD_FACTOR = 2;

const NOTHING: StoredUse = {
  runs: 0,
  openRuns: 0,
  events: 0,
  eventBytes: 0,
  blobBytes: 0,
  streamBytes: 0,
  snapshotBytes: 0,
  bundles: 0,
  bundleBytes: 0,
};
const NAMES = Object.keys(NOTHING) as readonly (keyof StoredUse)[];

/** Counts all that the World holds of a tenant, page by page. */
export async function measured(
  records: Pick<TenantRecords, "measure">,
  tenantId: TenantId,
): Promise<StoredUse> {
  const sum = { ...NOTHING };
  let cursor: string | null = null;
  do {
    const page: StoredUsePage =
      cursor === null ? await records.measure(tenantId) : await records.measure(tenantId, cursor);
    for (const name of NAMES) sum[name] += page.use[name];
    cursor = page.cursor;
  } while (cursor !== null);
  return sum;
}

/** What counts as stored. Snapshots do not: they are a cache with a quota of its own. */
export function storedBytesOf(use: StoredUse): number {
  return use.eventBytes + use.blobBytes + use.streamBytes + use.bundleBytes;
}

interface Estimate {
  measuredBytes: number;
  /** Written by this process since. */
  writtenBytes: number;
  atMs: number;
  allowed: number;
  /** The measurement that runs. */
  running: Promise<void> | null;
}

export interface StorageParts {
  readonly records: Pick<TenantRecords, "measure">;
  readonly clock: Clock;
  readonly log: Log;
}

export class Storage {
  readonly #parts: StorageParts;
  readonly #estimates = new Map<TenantId, Estimate>();

  constructor(parts: StorageParts) {
    this.#parts = parts;
  }

  /** What is stored of a tenant that may store so much; measured first if this process has not yet. */
  async bytesOf(tenantId: TenantId, allowed: number): Promise<number> {
    const known = this.#estimates.get(tenantId);
    if (known === undefined) {
      const fresh = { measuredBytes: 0, writtenBytes: 0, atMs: 0, allowed, running: null };
      this.#estimates.set(tenantId, fresh);
      await this.#measure(tenantId, fresh);
      return bytesIn(fresh);
    }
    known.allowed = allowed;
    if (known.atMs === 0) await this.#measure(tenantId, known);
    else if (this.#isStale(known)) void this.#measure(tenantId, known);
    return bytesIn(known);
  }

  /** This process wrote so much. */
  wrote(tenantId: TenantId, bytes: number): void {
    const known = this.#estimates.get(tenantId);
    if (known !== undefined) known.writtenBytes += bytes;
  }

  /** Refuses what a tenant writes that is past the hard limit, by what is known of it. */
  assertNotFull(tenantId: TenantId): void {
    const known = this.#estimates.get(tenantId);
    if (known === undefined) return;
    const used = bytesIn(known);
    const allowed = known.allowed * HARD_FACTOR;
    if (used < allowed) return;
    throw new BatonError("STORED_BYTES_EXCEEDED", "the tenant has stored all that it may", {
      field: "storedBytesMax",
      used,
      allowed,
    });
  }

  forget(tenantId: TenantId): void {
    this.#estimates.delete(tenantId);
  }

  #isStale(estimate: Estimate): boolean {
    const age = this.#parts.clock.now() - estimate.atMs;
    return age >= (bytesIn(estimate) < estimate.allowed ? MEASURED_MS : MEASURED_WHEN_OVER_MS);
  }

  #measure(tenantId: TenantId, estimate: Estimate): Promise<void> {
    estimate.running ??= this.#measureNow(tenantId, estimate)
      .catch((error: unknown) => {
        // What was known stays; the next look measures again.
        this.#parts.log.warn({ tenantId, error: String(error) }, "stored bytes were not measured");
      })
      .finally(() => {
        estimate.running = null;
      });
    return estimate.running;
  }

  async #measureNow(tenantId: TenantId, estimate: Estimate): Promise<void> {
    const before = estimate.writtenBytes;
    const use = await measured(this.#parts.records, tenantId);
    estimate.measuredBytes = storedBytesOf(use);
    // What was written meanwhile may be counted twice, and never not at all.
    estimate.writtenBytes -= before;
    estimate.atMs = this.#parts.clock.now();
  }
}

function bytesIn({ measuredBytes, writtenBytes }: Estimate): number {
  return measuredBytes + writtenBytes;
}
