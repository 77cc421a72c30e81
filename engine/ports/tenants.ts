/**
 * What the engine asks the tenants' part: limits, standing, bundles, and where use is counted.
 */
import type { RunRef, TenantId } from "../ids.ts";
import type { TenantDeliveries } from "./queue.ts";
import type { BundleCode, HeapLimits } from "./sandbox.ts";

export type TenantStatus = "active" | "suspended" | "deleting";

export interface TenantLimits {
  readonly heap: HeapLimits;
  /** A run is warned at, and failed past, so many events; null: no limit. */
  readonly eventsWarn: number | null;
  readonly eventsMax: number | null;
  /** Of all streams of a run together; null: no limit. */
  readonly streamBytesPerRunMax: number | null;
  /** Of the CPU, next to other tenants'. */
  readonly cpuWeight: number;
  /** Of all its runs together, live between deliveries; null: no limit. */
  readonly liveHeapBytesMax: number | null;
  readonly snapshotBytesMax: number | null;
  /** Of its runs at once, in one process. */
  readonly deliveries: TenantDeliveries;
}

export interface TenantStanding {
  readonly status: TenantStatus;
  readonly limits: TenantLimits;
  /** What it has stored, as far as this process knows; null: no limit. */
  readonly storage: TenantStorage | null;
}

export interface TenantStorage {
  readonly usedBytes: number;
  /** From here on no run starts; from twice as much on, running runs fail. */
  readonly allowedBytes: number;
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

/** What of one process a tenant holds now. */
export interface TenantInUse {
  /** Of its runs, in flight. */
  readonly runsDelivered: number;
  /** Bodies that run. */
  readonly steps: number;
  /** Of heaps that rest between deliveries. */
  readonly liveHeapBytes: number;
  /** Null: not known here. */
  readonly snapshotBytes: number | null;
}

export interface Tenants {
  /** Null if there is no such tenant. */
  standingOf(tenantId: TenantId): Promise<TenantStanding | null>;
  /** The code of a bundle, or null if the tenant has none of this hash. */
  bundleOf(tenantId: TenantId, deploymentId: string): Promise<BundleCode | null>;
  count(tenantId: TenantId, sample: UsageSample): void;
  /**
   * Asked before a run is made; `QUOTA_EXCEEDED` if the tenant may not start one now. What it resolves
   * to is called once the start is written or given up.
   */
  admitStart(tenantId: TenantId): Promise<() => void>;
  /** Asked before a payload from outside is written; `QUOTA_EXCEEDED` if it is one too many. */
  admitHookPayload(run: RunRef): Promise<void>;
  /** How long the tenant's passes have to wait for CPU, ms; 0: not at all. */
  cpuWaitMs(tenantId: TenantId): number;
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
