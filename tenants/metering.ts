/**
 * Quotas that are met at the door or by the minute: starts, hook payloads, CPU.
 *
 * Owns what this process counts for them, and the errors that name the quota, what is used and what
 * is allowed. What the limits are is the caller's to say (quota.ts).
 */
import { BatonError } from "../engine/errors.ts";
import type { RunRef, TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { World } from "../engine/ports/world.ts";
import { OpenRuns } from "./open-runs.ts";
import type { Quotas } from "./quota.ts";
import { CpuMinutes, Rates } from "./rates.ts";

/** What of its quotas a tenant uses now, by their names. */
export interface MeteredUse {
  readonly startsPerSecondMax: number;
  readonly cpuMsPerMinuteMax: number;
}

export class Metering {
  readonly #clock: Clock;
  readonly #starts = new Rates();
  readonly #payloads = new Rates();
  readonly #cpu = new CpuMinutes();
  readonly #openRuns: OpenRuns;

  constructor(world: Pick<World, "forTenant">, clock: Clock) {
    this.#clock = clock;
    this.#openRuns = new OpenRuns(world, clock);
  }

  /** Resolves to what is called once the start is written or given up; `QUOTA_EXCEEDED`. */
  async admitStart(
    tenantId: TenantId,
    { openRunsMax, startsPerSecondMax }: Quotas,
  ): Promise<() => void> {
    if (openRunsMax !== null) {
      const used = await this.#openRuns.take(tenantId, openRunsMax);
      if (used !== null) throw exceeded("openRunsMax", { used, allowed: openRunsMax });
    }
    const end = () => {
      if (openRunsMax !== null) this.#openRuns.end(tenantId);
    };
    if (startsPerSecondMax !== null) {
      const now = this.#clock.now();
      const retryAfterMs = this.#starts.take(tenantId, startsPerSecondMax, now);
      if (retryAfterMs !== null) {
        end();
        const used = this.#starts.used(tenantId, startsPerSecondMax, now);
        throw exceeded("startsPerSecondMax", { used, allowed: startsPerSecondMax, retryAfterMs });
      }
    }
    return end;
  }

  /** Counts a payload for a hook of the run; `QUOTA_EXCEEDED`. */
  admitHookPayload(
    { tenantId, runId }: RunRef,
    { hookPayloadsPerRunPerSecondMax: allowed }: Quotas,
  ): void {
    if (allowed === null) return;
    const key = `${tenantId}/${runId}`;
    const now = this.#clock.now();
    const retryAfterMs = this.#payloads.take(key, allowed, now);
    if (retryAfterMs === null) return;
    const used = this.#payloads.used(key, allowed, now);
    throw exceeded("hookPayloadsPerRunPerSecondMax", { used, allowed, retryAfterMs });
  }

  addCpu(tenantId: TenantId, cpuMs: number): void {
    this.#cpu.add(tenantId, cpuMs, this.#clock.now());
  }

  /** How long the tenant's passes wait for the minute to have CPU left, ms. */
  cpuWaitMs(tenantId: TenantId, { cpuMsPerMinuteMax }: Quotas): number {
    if (cpuMsPerMinuteMax === null) return 0;
    return this.#cpu.waitMs(tenantId, cpuMsPerMinuteMax, this.#clock.now());
  }

  use(tenantId: TenantId, { startsPerSecondMax }: Quotas): MeteredUse {
    const now = this.#clock.now();
    return {
      startsPerSecondMax: this.#starts.used(tenantId, startsPerSecondMax ?? 0, now),
      cpuMsPerMinuteMax: Math.round(this.#cpu.usedMs(tenantId, now)),
    };
  }
}

function exceeded(
  field: keyof Quotas,
  details: { readonly used: number; readonly allowed: number; readonly retryAfterMs?: number },
): BatonError {
  return new BatonError("QUOTA_EXCEEDED", `the tenant's quota ${field} is used up`, {
    field,
    ...details,
  });
}
