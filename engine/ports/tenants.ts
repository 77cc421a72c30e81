/**
 * What the engine asks the tenants' part: limits, standing, bundles, and where use is counted.
 */
import type { RunRef, TenantId } from "../ids.ts";
import type { BundleCode, HeapLimits } from "./sandbox.ts";

export type TenantStatus = "active" | "suspended" | "deleting";

export interface TenantLimits {
  readonly heap: HeapLimits;
  /** A run is warned at, and failed past, so many events; null: no limit. */
  readonly eventsWarn: number | null;
  readonly eventsMax: number | null;
  /** Of all streams of a run together; null: no limit. */
  readonly streamBytesPerRunMax: number | null;
}

export interface TenantStanding {
  readonly status: TenantStatus;
  readonly limits: TenantLimits;
}

/** One observation; added to the tenant's counters. */
export interface UsageSample {
  readonly passes?: number;
  readonly cpuMs?: number;
  readonly events?: number;
  readonly stepAttempts?: number;
  /** Sent and received by steps' requests. */
  readonly egressBytes?: number;
  readonly heapLimitBreaches?: number;
  readonly cpuLimitBreaches?: number;
  /** Deliveries of steps that nothing here can run. */
  readonly unregisteredSteps?: number;
  /** Resumes that were compared with a cold replay, and those that it contradicted. */
  readonly replayChecks?: number;
  readonly replayMismatches?: number;
  /** The largest heap seen; kept as a maximum, not as a sum. */
  readonly heapBytesPeak?: number;
}

export interface Tenants {
  /** Null if there is no such tenant. */
  standingOf(tenantId: TenantId): Promise<TenantStanding | null>;
  /** The code of a bundle, or null if the tenant has none of this hash. */
  bundleOf(tenantId: TenantId, deploymentId: string): Promise<BundleCode | null>;
  count(tenantId: TenantId, sample: UsageSample): void;
  /** What hook tokens are looked up by: keyed by the tenant, so equal tokens of two differ. */
  tokenHash(tenantId: TenantId, token: string): Promise<string>;
  /** Seals a heap image for storage, bound to everything it must match. */
  sealSnapshot(run: RunRef, plain: Uint8Array, boundTo: readonly string[]): Promise<Uint8Array>;
  /** Null if it does not open: wrong key, other run, slot, digest or fingerprint, or damage. */
  openSnapshot(
    run: RunRef,
    sealed: Uint8Array,
    boundTo: readonly string[],
  ): Promise<Uint8Array | null>;
}
