/**
 * What an operator does with tenants: the `tenants` of a Baton.
 *
 * Owns the shapes that leave here (no key's hash, no secret's value), and that what a call changed
 * holds in this process at once; elsewhere it holds within a second.
 */
import { BatonError } from "../engine/errors.ts";
import { tenantIdOf, type TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { TenantInUse, TenantStatus } from "../engine/ports/tenants.ts";
import type { Page, PageParams, StoredUse, World } from "../engine/ports/world.ts";
import {
  API_KEY_LABEL_CHARS_MAX,
  infoOf,
  newApiKey,
  withKey,
  withoutKey,
  type ApiKeyInfo,
  type IssuedApiKey,
} from "./api-keys.ts";
import { deleteTenant, type DeletionReceipt } from "./deletion.ts";
import { egressPolicySchema, type EgressPolicy, type EgressPolicyInput } from "./egress-policy.ts";
import type { Caller, TenantPolicy } from "./policy.ts";
import type { QuotaUses } from "./quota-use.ts";
import type { QuotaOverrides, Quotas } from "./quota.ts";
import type { TenantRegistry } from "./registry.ts";
import { withSecret, withoutSecret } from "./secrets.ts";
import { measured, storedBytesOf, type Storage } from "./storage.ts";
import type { Tenant, TenantRecord } from "./tenant.ts";
import type { Usage, UsageCounters } from "./usage.ts";
import type { RotationReport, Vault } from "./vault.ts";

export interface TenantInfo {
  readonly tenantId: string;
  readonly status: TenantStatus;
  /** Epoch ms. */
  readonly createdAt: number;
  /** Those that hold: what the record sets, over the defaults. */
  readonly quotas: Quotas;
  /** Null: nothing leaves. */
  readonly egress: EgressPolicy | null;
  readonly apiKeys: readonly ApiKeyInfo[];
  readonly secretNames: readonly string[];
}

export interface TenantUsage {
  /** Since the tenant was made, over all processes; a crash loses at most the last seconds. */
  readonly counted: Usage;
  /** Counted just now in what the World holds. */
  readonly stored: StoredUse;
  /** What of it the quota of stored bytes is about. */
  readonly storedBytes: number;
  /** What it uses of each of its quotas in this process, and what it is allowed. */
  readonly quotas: QuotaUses;
}

/** The file of the master keys. */
export interface KeyFile {
  add(): number;
  remove(version: number): Promise<void>;
}

export interface TenancyParts {
  readonly world: World;
  readonly registry: TenantRegistry;
  readonly policy: TenantPolicy;
  readonly vault: Vault;
  readonly usage: Pick<UsageCounters, "of" | "forget">;
  readonly storage: Pick<Storage, "forget">;
  readonly keyFile: KeyFile;
  readonly clock: Clock;
  readonly engine: {
    /** Has all open runs of the tenant looked at. How many. */
    recoverTenant(tenantId: TenantId): Promise<number>;
    /** Drops what the process holds of the tenant's runs. */
    forgetTenant(tenantId: TenantId): void;
    /** What of this process the tenant holds now. */
    inUse(tenantId: TenantId): TenantInUse;
  };
  /** A tenant was made, or its record changed: upkeep may have something to do. */
  readonly onChanged: () => void;
}

/** A rotated key's old text may go on working for so long at most. */
const KEY_OVERLAP_MS_MAX = 30 * 86_400_000;

export class Tenancy {
  readonly #parts: TenancyParts;
  readonly apiKeys: TenantApiKeys;
  readonly secrets: TenantSecrets;

  constructor(parts: TenancyParts) {
    this.#parts = parts;
    const change: Change = (id, of) => this.#change(id, of);
    this.apiKeys = new TenantApiKeys(parts, change);
    this.secrets = new TenantSecrets(parts, change);
  }

  /** Makes a tenant. `ENTITY_CONFLICT` if there is one of this id. */
  async create(
    tenantId: string,
    { quotas = {} }: { readonly quotas?: QuotaOverrides } = {},
  ): Promise<TenantInfo> {
    const made = await this.#parts.registry.create(tenantIdOf(tenantId), quotas);
    return this.#told(made);
  }

  /** Null if there is no such tenant. */
  async get(tenantId: string): Promise<TenantInfo | null> {
    const tenant = await this.#parts.registry.get(tenantIdOf(tenantId));
    return tenant === null ? null : this.#infoOf(tenant);
  }

  async list(params: PageParams = {}): Promise<Page<TenantInfo>> {
    const { data, cursor } = await this.#parts.registry.list(params);
    return { data: data.map((tenant) => this.#infoOf(tenant)), cursor };
  }

  /** Sets some quotas; the others stay. */
  async setQuotas(tenantId: string, quotas: QuotaOverrides): Promise<TenantInfo> {
    return this.#told(await this.#parts.registry.setQuotas(tenantIdOf(tenantId), quotas));
  }

  /** Where requests of its steps may go; null takes every permission back. */
  async setEgress(tenantId: string, policy: EgressPolicyInput | null): Promise<TenantInfo> {
    const egress = policy === null ? null : checkedPolicy(policy);
    return this.#infoOf(await this.#change(tenantId, (tenant) => ({ ...tenant, egress })));
  }

  /** Its messages stay, uncounted, and hooks take payloads; nothing of it runs or starts. */
  async suspend(tenantId: string): Promise<TenantInfo> {
    return this.#told(await this.#parts.registry.suspend(tenantIdOf(tenantId)));
  }

  /** Its runs go on: each open one is looked at, besides the messages that were kept. */
  async resume(id: string): Promise<TenantInfo> {
    const tenantId = tenantIdOf(id);
    const info = this.#told(await this.#parts.registry.resume(tenantId));
    await this.#parts.engine.recoverTenant(tenantId);
    return info;
  }

  /**
   * Destroys the tenant's data key, then everything of it. Whatever cuts it short, its data opens no
   * more; a call again, or the next start, finishes it.
   */
  async delete(tenantId: string): Promise<DeletionReceipt> {
    const { engine, onChanged: _, keyFile: _file, ...parts } = this.#parts;
    const forget = (id: TenantId): void => engine.forgetTenant(id);
    return deleteTenant({ ...parts, forget }, tenantIdOf(tenantId));
  }

  /**
   * Adds a master key of the next version to the key file of this process; its version. Where
   * processes have key files of their own, the operator gives the same line to each of them before
   * any of them rotates.
   */
  addMasterKey(): number {
    return this.#parts.keyFile.add();
  }

  /**
   * Wraps every tenant's data key with the newest master key of the key file. Where it was cut
   * short, it is called again.
   */
  rotateMasterKey(): Promise<RotationReport> {
    const { vault, registry } = this.#parts;
    return vault.rotateMasterKey(
      async (tenantId) => (await registry.get(tenantId))?.status !== "deleting",
    );
  }

  /** Takes a master key out of the file; `MASTER_KEY` while a data key is wrapped with it. */
  removeMasterKey(version: number): Promise<void> {
    return this.#parts.keyFile.remove(version);
  }

  /** What the tenant has used, and what it has stored; `TENANT_NOT_FOUND`. */
  async usage(tenantId: string): Promise<TenantUsage> {
    const { registry, usage, world, policy, engine } = this.#parts;
    const { tenantId: of } = await existing(registry, tenantId);
    const [counted, stored, quotas] = await Promise.all([
      usage.of(of),
      measured(world.tenants, of),
      policy.quotaUses(of, engine.inUse(of)),
    ]);
    const storedBytes = storedBytesOf(stored);
    return {
      counted,
      stored,
      storedBytes,
      quotas: {
        ...quotas,
        storedBytesMax: { ...quotas.storedBytesMax, used: storedBytes },
        bundlesMax: { ...quotas.bundlesMax, used: stored.bundles },
      },
    };
  }

  /** Whose API key this is; `API_KEY_REFUSED` whatever is wrong with it. */
  authenticate(key: string): Promise<Caller> {
    return this.#parts.policy.authenticate(key);
  }

  async #change(id: string, change: (tenant: Tenant) => TenantRecord): Promise<Tenant> {
    const tenantId = tenantIdOf(id);
    const tenant = await this.#parts.registry.change(tenantId, (known) => {
      if (known.status === "deleting") throw beingDeleted(tenantId);
      return change(known);
    });
    this.#parts.policy.forget(tenantId);
    return tenant;
  }

  #told(tenant: Tenant): TenantInfo {
    this.#parts.policy.forget(tenant.tenantId);
    this.#parts.onChanged();
    return this.#infoOf(tenant);
  }

  #infoOf(tenant: Tenant): TenantInfo {
    const { tenantId, status, createdAt, egress, apiKeys, secrets } = tenant;
    return {
      tenantId,
      status,
      createdAt,
      quotas: this.#parts.registry.quotas(tenant),
      egress,
      apiKeys: apiKeys.map(infoOf),
      secretNames: Object.keys(secrets).sort(),
    };
  }
}

type Change = (tenantId: string, change: (tenant: Tenant) => TenantRecord) => Promise<Tenant>;

/** API keys of tenants. The text of a key is told once, by the call that makes it. */
export class TenantApiKeys {
  readonly #parts: TenancyParts;
  readonly #change: Change;

  constructor(parts: TenancyParts, change: Change) {
    this.#parts = parts;
    this.#change = change;
  }

  /** A new key. Its text is stored nowhere: keep it now or issue another. */
  async issue(
    tenantId: string,
    { label = "" }: { readonly label?: string } = {},
  ): Promise<IssuedApiKey> {
    const now = this.#parts.clock.now();
    const made = newApiKey(tenantIdOf(tenantId), { label: checkedLabel(label), createdAt: now });
    await this.#change(tenantId, (tenant) => withKey(tenant, made.stored, now));
    return made.issued;
  }

  /** Also those that have expired and were not replaced yet. */
  async list(tenantId: string): Promise<readonly ApiKeyInfo[]> {
    return (await existing(this.#parts.registry, tenantId)).apiKeys.map(infoOf);
  }

  /** A new key in the place of one, which stops working now or `overlapMs` from now. */
  async rotate(
    tenantId: string,
    keyId: string,
    { overlapMs = 0 }: { readonly overlapMs?: number } = {},
  ): Promise<IssuedApiKey> {
    if (!Number.isSafeInteger(overlapMs) || overlapMs < 0 || overlapMs > KEY_OVERLAP_MS_MAX) {
      throw new BatonError("INVALID_ARGUMENT", "an overlap of keys is a number of milliseconds", {
        field: "overlapMs",
        used: overlapMs,
        allowed: KEY_OVERLAP_MS_MAX,
      });
    }
    const now = this.#parts.clock.now();
    const { apiKeys } = await existing(this.#parts.registry, tenantId);
    const label = apiKeys.find((key) => key.keyId === keyId)?.label ?? "";
    const made = newApiKey(tenantIdOf(tenantId), { label, createdAt: now });
    await this.#change(tenantId, (tenant) => {
      const ended = withoutKey(tenant, keyId, overlapMs === 0 ? null : now + overlapMs);
      return withKey(ended, made.stored, now);
    });
    return made.issued;
  }

  async revoke(tenantId: string, keyId: string): Promise<void> {
    await this.#change(tenantId, (tenant) => withoutKey(tenant, keyId, null));
  }
}

/** Secrets of tenants, by the name under which step code reads them in `process.env`. */
export class TenantSecrets {
  readonly #parts: TenancyParts;
  readonly #change: Change;

  constructor(parts: TenancyParts, change: Change) {
    this.#parts = parts;
    this.#change = change;
  }

  /** Attempts that begin from now on see the value. It is told by no call again. */
  async set(tenantId: string, name: string, value: string): Promise<void> {
    await existing(this.#parts.registry, tenantId);
    const keys = await this.#parts.vault.forTenant(tenantIdOf(tenantId));
    await this.#change(tenantId, (tenant) => withSecret(tenant, keys, { name, value }));
  }

  /** The names. */
  async list(tenantId: string): Promise<readonly string[]> {
    return Object.keys((await existing(this.#parts.registry, tenantId)).secrets).sort();
  }

  /** Takes a secret away, if it is there. */
  async delete(tenantId: string, name: string): Promise<void> {
    await this.#change(tenantId, (tenant) => withoutSecret(tenant, name));
  }
}

async function existing(registry: TenantRegistry, id: string): Promise<Tenant> {
  const tenantId: TenantId = tenantIdOf(id);
  const tenant = await registry.get(tenantId);
  if (tenant === null) {
    throw new BatonError("TENANT_NOT_FOUND", `there is no tenant ${tenantId}`, {
      field: "tenantId",
      used: tenantId,
    });
  }
  if (tenant.status === "deleting") throw beingDeleted(tenantId);
  return tenant;
}

function beingDeleted(tenantId: TenantId): BatonError {
  return new BatonError("TENANT_SUSPENDED", `the tenant ${tenantId} is being deleted`, {
    field: "tenantId",
    used: tenantId,
  });
}

function checkedLabel(label: string): string {
  if (label.length <= API_KEY_LABEL_CHARS_MAX) return label;
  throw new BatonError("INVALID_ARGUMENT", "a key's label is short", {
    field: "label",
    used: label.length,
    allowed: API_KEY_LABEL_CHARS_MAX,
  });
}

function checkedPolicy(policy: EgressPolicyInput): EgressPolicy {
  const parsed = egressPolicySchema.safeParse(policy);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const field = ["egress", ...(issue?.path ?? [])].join(".");
  throw new BatonError("INVALID_ARGUMENT", `${field}: ${issue?.message ?? "wrong"}`, { field });
}
