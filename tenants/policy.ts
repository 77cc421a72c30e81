/**
 * What the engine asks about tenants, answered: the `Tenants` port.
 *
 * Owns the caches of standings (short-lived, so that a suspension takes hold within a second) and
 * of bundles (immutable, bounded in bytes). Decides nothing of a run.
 */
import { bundleHashOf, type BundleHash, type RunRef, type TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import type {
  TenantInUse,
  TenantStanding,
  TenantStatus,
  Tenants,
  UsageSample,
} from "../engine/ports/tenants.ts";
import type { FeedCaps, StoredBundle, World } from "../engine/ports/world.ts";
import { BatonError, isBatonError } from "../engine/errors.ts";
import { isKeyOf, offeredKey } from "./api-keys.ts";
import { NO_EGRESS } from "./egress-policy.ts";
import type { EgressRules } from "./egress/egress.ts";
import { Lru } from "./lru.ts";
import { Metering } from "./metering.ts";
import { quotaUsesOf, type QuotaUses } from "./quota-use.ts";
import { stepLimitsOf, tenantLimitsOf, type Quotas } from "./quota.ts";
import type { TenantRegistry } from "./registry.ts";
import { openedSecrets } from "./secrets.ts";
import type { Storage } from "./storage.ts";
import type { Tenant } from "./tenant.ts";
import type { UsageCounters } from "./usage.ts";
import type { Place, Vault } from "./vault.ts";

/** How old a standing may be when it is used. */
const STANDING_AGE_MS_MAX = 1000;
const STANDINGS_MAX = 10_000;
/** Open runs that are counted where there is no limit of them. */
const OPEN_RUNS_COUNTED_MAX = 1_000_000;
/** Sources kept over all bundles, in UTF-16 units. */
const BUNDLE_CACHE_UNITS_MAX = 64 * 1024 * 1024;

export interface PolicyParts {
  readonly world: Pick<World, "forTenant">;
  readonly registry: TenantRegistry;
  readonly vault: Vault;
  readonly usage: Pick<UsageCounters, "add">;
  readonly storage: Pick<Storage, "bytesOf">;
  readonly clock: Clock;
}

interface KnownTenant {
  readonly at: number;
  readonly tenant: Tenant | null;
  readonly standing: Omit<TenantStanding, "storage"> | null;
  readonly stepLimits: StepLimits | null;
  readonly egressRules: EgressRules | null;
  readonly quotas: Quotas | null;
}

/** Whose key a caller showed. What a suspended tenant may still do is the door's to say. */
export interface Caller {
  readonly tenantId: TenantId;
  readonly keyId: string;
  readonly status: TenantStatus;
}

export class TenantPolicy implements Tenants {
  readonly #parts: PolicyParts;
  readonly #standings = new Lru<TenantId, KnownTenant>(STANDINGS_MAX);
  readonly #bundles = new Lru<string, StoredBundle>(
    BUNDLE_CACHE_UNITS_MAX,
    (bundle) =>
      bundle.workflowCode.length +
      bundle.stepCode.length +
      bundle.manifest.length +
      bundle.guestLibrary.length,
  );

  readonly #metering: Metering;

  constructor(parts: PolicyParts) {
    this.#parts = parts;
    this.#metering = new Metering(parts.world, parts.clock);
  }

  async standingOf(tenantId: TenantId): Promise<TenantStanding | null> {
    const { standing, quotas } = await this.#known(tenantId);
    if (standing === null) return null;
    const storedBytesMax = quotas?.storedBytesMax ?? null;
    if (storedBytesMax === null) return { ...standing, storage: null };
    const usedBytes = await this.#parts.storage.bytesOf(tenantId, storedBytesMax);
    return { ...standing, storage: { usedBytes, allowedBytes: storedBytesMax } };
  }

  /** What an attempt of a sandboxed step may use; null if there is no such tenant. */
  async stepLimitsOf(tenantId: TenantId): Promise<StepLimits | null> {
    return (await this.#known(tenantId)).stepLimits;
  }

  async #known(tenantId: TenantId): Promise<KnownTenant> {
    const at = this.#parts.clock.now();
    const known = this.#standings.get(tenantId);
    if (known !== undefined && at - known.at < STANDING_AGE_MS_MAX) return known;
    const tenant = await this.#parts.registry.get(tenantId);
    const fresh =
      tenant === null
        ? { at, tenant: null, standing: null, stepLimits: null, egressRules: null, quotas: null }
        : this.#of(tenant, at);
    this.#standings.set(tenantId, fresh);
    return fresh;
  }

  #of(tenant: Tenant, at: number): KnownTenant {
    const quotas = this.#parts.registry.quotas(tenant);
    const standing = { status: tenant.status, limits: tenantLimitsOf(quotas) };
    const { socketsMax, egressBytesPerMinuteMax } = quotas;
    const egressRules = { policy: tenant.egress ?? NO_EGRESS, socketsMax, egressBytesPerMinuteMax };
    return { at, tenant, standing, stepLimits: stepLimitsOf(quotas), egressRules, quotas };
  }

  /** What this process knows of the tenant is read again when it is next needed. */
  forget(tenantId: TenantId): void {
    this.#standings.delete(tenantId);
    const prefix = `${tenantId}/`;
    this.#bundles.deleteWhere((key) => key.startsWith(prefix));
  }

  /** Who the caller is, by an API key; `API_KEY_REFUSED` whatever is wrong with it (T42). */
  async authenticate(key: string): Promise<Caller> {
    const offered = offeredKey(key);
    const known = offered === null ? null : await this.#known(offered.tenantId);
    const keys = known?.tenant?.apiKeys ?? [];
    if (offered !== null && isKeyOf(keys, offered, this.#parts.clock.now())) {
      const { tenantId, keyId } = offered;
      return { tenantId, keyId, status: known?.tenant?.status ?? "deleting" };
    }
    throw new BatonError("API_KEY_REFUSED", "the key is not one of a tenant's", { field: "key" });
  }

  /** What step code of the tenant reads in `process.env`. */
  async secretsOf(tenantId: TenantId): Promise<Readonly<Record<string, string>>> {
    const { tenant } = await this.#known(tenantId);
    if (tenant === null || Object.keys(tenant.secrets).length === 0) return {};
    return openedSecrets(tenant, await this.#parts.vault.forTenant(tenantId));
  }

  /** Where requests of the tenant's steps may go, and how much; null: there is no such tenant. */
  async egressRulesOf(tenantId: TenantId): Promise<EgressRules | null> {
    return (await this.#known(tenantId)).egressRules;
  }

  async bundleOf(tenantId: TenantId, deploymentId: string) {
    const bundle = await this.storedBundleOf(tenantId, deploymentId);
    if (bundle === null) return null;
    const { hash, workflowCode, guestLibrary } = bundle;
    return { tenantId, hash, workflowCode, guestLibrary };
  }

  /** A bundle with both sides, or null if the tenant has none of this hash. */
  async storedBundleOf(tenantId: TenantId, deploymentId: string): Promise<StoredBundle | null> {
    const hash = hashOrNull(deploymentId);
    if (hash === null) return null;
    const key = `${tenantId}/${hash}`;
    const known = this.#bundles.get(key);
    if (known !== undefined) return known;
    const stored = await this.#parts.world.forTenant(tenantId).bundles.get(hash);
    if (stored !== null) this.#bundles.set(key, stored);
    return stored;
  }

  async admitStart(tenantId: TenantId): Promise<() => void> {
    return this.#metering.admitStart(tenantId, await this.quotasOf(tenantId));
  }

  async admitHookPayload(run: RunRef): Promise<void> {
    this.#metering.admitHookPayload(run, await this.quotasOf(run.tenantId));
  }

  cpuWaitMs(tenantId: TenantId): number {
    // Whoever has passes has had its standing asked for.
    const quotas = this.#standings.get(tenantId)?.quotas ?? null;
    return quotas === null ? 0 : this.#metering.cpuWaitMs(tenantId, quotas);
  }

  /** The quotas that hold; `TENANT_NOT_FOUND`. */
  async quotasOf(tenantId: TenantId): Promise<Quotas> {
    const { quotas } = await this.#known(tenantId);
    if (quotas !== null) return quotas;
    throw new BatonError("TENANT_NOT_FOUND", "there is no such tenant", { field: "tenantId" });
  }

  /** How many live feeds clients of the tenant may have. */
  async feedCapsOf(tenantId: TenantId): Promise<FeedCaps> {
    const { feedsPerRunMax, feedsMax } = await this.quotasOf(tenantId);
    return { perRunMax: feedsPerRunMax, perTenantMax: feedsMax };
  }

  /** What the tenant uses of its quotas; what others than this part hold of it is `inUse`. */
  async quotaUses(tenantId: TenantId, inUse: TenantInUse): Promise<QuotaUses> {
    const quotas = await this.quotasOf(tenantId);
    const max = quotas.openRunsMax ?? OPEN_RUNS_COUNTED_MAX;
    return quotaUsesOf(quotas, {
      ...this.#metering.use(tenantId, quotas),
      openRunsMax: await this.#parts.world.forTenant(tenantId).runs.countOpen(max),
      runsDeliveredMax: inUse.runsDelivered,
      stepsMax: inUse.steps,
      liveHeapBytesMax: inUse.liveHeapBytes,
      snapshotBytesMax: inUse.snapshotBytes,
    });
  }

  /** Starts no longer find the bundle in the cache. */
  forgetBundle(tenantId: TenantId, hash: BundleHash): void {
    this.#bundles.delete(`${tenantId}/${hash}`);
  }

  count(tenantId: TenantId, sample: UsageSample): void {
    if (sample.cpuMs !== undefined) this.#metering.addCpu(tenantId, sample.cpuMs);
    this.#parts.usage.add(tenantId, sample);
  }

  async tokenHash(tenantId: TenantId, token: string): Promise<string> {
    return (await this.#parts.vault.forTenant(tenantId)).tokenHash(token);
  }

  async sealSnapshot(
    run: RunRef,
    plain: Uint8Array,
    boundTo: readonly string[],
  ): Promise<Uint8Array> {
    const keys = await this.#parts.vault.forTenant(run.tenantId);
    return keys.seal(snapshotPlace(run, boundTo), plain);
  }

  async openSnapshot(
    run: RunRef,
    sealed: Uint8Array,
    boundTo: readonly string[],
  ): Promise<Uint8Array | null> {
    const keys = await this.#parts.vault.forTenant(run.tenantId);
    try {
      return keys.open(snapshotPlace(run, boundTo), sealed);
    } catch (error) {
      // A snapshot is a cache: one that does not open is as good as none.
      if (isBatonError(error, "PAYLOAD_UNREADABLE")) return null;
      throw error;
    }
  }
}

function snapshotPlace(run: RunRef, boundTo: readonly string[]): Place {
  return { run, purpose: "snapshot", binding: boundTo };
}

function hashOrNull(deploymentId: string): BundleHash | null {
  try {
    return bundleHashOf(deploymentId);
  } catch {
    return null;
  }
}
