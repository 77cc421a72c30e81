/**
 * Usage: what each tenant has used, over all processes and restarts.
 *
 * Owns the counters. What is counted gathers in memory and is added to the tenant's stored counters
 * after a while and at closing, so that a crash loses at most that while. What can be counted in the
 * World's rows (runs, events, bytes) is not counted here at all, but read there: see `storage.ts`.
 * Truth is the log; counters are for the operator's eyes, never for a decision of a run.
 *
 * T70  A counted sample is stored once, also where several processes count one tenant, except that a
 *      write without an answer may be stored twice.
 */
import { z } from "zod";
import type { TenantId } from "../engine/ids.ts";
import type { Clock, Log } from "../engine/ports/host.ts";
import type { UsageSample } from "../engine/ports/tenants.ts";
import type { StoredTenant, TenantRecords } from "../engine/ports/world.ts";

/** A tenant's counters. Sums, but for `heapBytesPeak`. */
export type Usage = Required<UsageSample>;

const NONE: Usage = {
  passes: 0,
  cpuMs: 0,
  events: 0,
  stepAttempts: 0,
  egressBytes: 0,
  heapLimitBreaches: 0,
  cpuLimitBreaches: 0,
  unregisteredSteps: 0,
  replayChecks: 0,
  replayMismatches: 0,
  heapBytesPeak: 0,
};
const NAMES = Object.keys(NONE) as readonly (keyof Usage)[];

/** A counter that a later build added is 0; one that this build does not know is left out. */
const storedSchema = z.record(z.string(), z.number().min(0));

/** How long counted use stays in memory only. */
export const FLUSH_MS = 10_000;
/** Writers that meet this often in a row are not a coincidence; the next flush tries again. */
const FLUSH_ATTEMPTS_MAX = 5;

/** The counters after one more sample. */
export function addSample(usage: Usage, sample: UsageSample): Usage {
  const sum = { ...usage };
  for (const name of NAMES) {
    const more = sample[name] ?? 0;
    sum[name] = name === "heapBytesPeak" ? Math.max(sum[name], more) : sum[name] + more;
  }
  return sum;
}

export interface UsageParts {
  readonly records: Pick<TenantRecords, "getUsage" | "putUsage">;
  readonly clock: Clock;
  readonly log: Log;
}

export class UsageCounters {
  readonly #parts: UsageParts;
  /** Counted, and not stored yet. */
  readonly #pending = new Map<TenantId, Usage>();
  #cancelTimer: (() => void) | null = null;
  #flushing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: UsageParts) {
    this.#parts = parts;
  }

  add(tenantId: TenantId, sample: UsageSample): void {
    this.#pending.set(tenantId, addSample(this.#pending.get(tenantId) ?? NONE, sample));
    if (this.#isClosed) return;
    this.#cancelTimer ??= this.#parts.clock.setTimer(FLUSH_MS, () => void this.flush());
  }

  /** What was stored, and what this process has counted since. */
  async of(tenantId: TenantId): Promise<Usage> {
    await this.#flushing;
    const stored = countersOf(await this.#parts.records.getUsage(tenantId));
    return addSample(stored, this.#pending.get(tenantId) ?? NONE);
  }

  /** The tenant is gone, and so is what it used. */
  forget(tenantId: TenantId): void {
    this.#pending.delete(tenantId);
  }

  /** Stores what was counted. What cannot be stored now stays counted. */
  flush(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#flushing = this.#flushing.then(async () => {
      // Those of now: what cannot be stored is counted again, and is for the next flush.
      const tenantIds = [...this.#pending.keys()];
      for (const tenantId of tenantIds) await this.#flushOne(tenantId);
    });
    return this.#flushing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
  }

  async #flushOne(tenantId: TenantId): Promise<void> {
    const counted = this.#pending.get(tenantId);
    if (counted === undefined) return;
    this.#pending.delete(tenantId);
    try {
      if (await this.#store(tenantId, counted)) return;
    } catch (error) {
      this.#parts.log.warn({ tenantId, error: String(error) }, "counted use was not stored");
    }
    this.add(tenantId, counted);
  }

  async #store(tenantId: TenantId, counted: Usage): Promise<boolean> {
    const { records } = this.#parts;
    for (let attempt = 0; attempt < FLUSH_ATTEMPTS_MAX; attempt++) {
      const stored = await records.getUsage(tenantId);
      const body = JSON.stringify(addSample(countersOf(stored), counted));
      if (await records.putUsage(tenantId, body, stored?.revision ?? 0)) return true;
    }
    return false;
  }
}

function countersOf(stored: StoredTenant | null): Usage {
  if (stored === null) return NONE;
  const parsed = storedSchema.safeParse(JSON.parse(stored.body));
  return parsed.success ? addSample(NONE, parsed.data) : NONE;
}
