/**
 * Usage: what each tenant has used since this process began.
 *
 * Owns counters in memory, and their form as plain data. Truth is the log; what is counted here is
 * for the operator's eyes and for fairness, never for a decision of a run.
 */
import type { TenantId } from "../engine/ids.ts";
import type { UsageSample } from "../engine/ports/tenants.ts";

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

/** The counters after one more sample. */
export function addSample(usage: Usage, sample: UsageSample): Usage {
  const sum = (name: keyof Usage): number => usage[name] + (sample[name] ?? 0);
  return {
    passes: sum("passes"),
    cpuMs: sum("cpuMs"),
    events: sum("events"),
    stepAttempts: sum("stepAttempts"),
    egressBytes: sum("egressBytes"),
    heapLimitBreaches: sum("heapLimitBreaches"),
    cpuLimitBreaches: sum("cpuLimitBreaches"),
    unregisteredSteps: sum("unregisteredSteps"),
    replayChecks: sum("replayChecks"),
    replayMismatches: sum("replayMismatches"),
    heapBytesPeak: Math.max(usage.heapBytesPeak, sample.heapBytesPeak ?? 0),
  };
}

export class UsageCounters {
  readonly #byTenant = new Map<TenantId, Usage>();

  add(tenantId: TenantId, sample: UsageSample): void {
    this.#byTenant.set(tenantId, addSample(this.of(tenantId), sample));
  }

  of(tenantId: TenantId): Usage {
    return this.#byTenant.get(tenantId) ?? NONE;
  }
}
