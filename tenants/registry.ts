/**
 * The registry: which tenants there are, and their standing.
 *
 * Owns every write of tenants' records. A write names the revision it was made from, so of two
 * writers one reads again and decides anew.
 *
 * T18  A tenant has a data key before it has a record: an active tenant can always be sealed for.
 */
import { BatonError } from "../engine/errors.ts";
import { tenantIdOf, type TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { TenantStatus } from "../engine/ports/tenants.ts";
import type { Page, PageParams, TenantRecords } from "../engine/ports/world.ts";
import { quotaOverridesSchema, quotasOf, type QuotaOverrides, type Quotas } from "./quota.ts";
import {
  DEFAULT_TENANT,
  bodyOf,
  newRecord,
  tenantOf,
  type Tenant,
  type TenantRecord,
} from "./tenant.ts";
import type { Vault } from "./vault.ts";

/** Writers that meet this often in a row are not a coincidence. */
const CHANGE_ATTEMPTS_MAX = 8;

export interface RegistryParts {
  readonly records: TenantRecords;
  readonly vault: Vault;
  readonly clock: Clock;
  /** What a tenant has where its record sets nothing. */
  readonly defaults: Quotas;
}

export class TenantRegistry {
  readonly #parts: RegistryParts;

  constructor(parts: RegistryParts) {
    this.#parts = parts;
  }

  /** Makes a tenant. Refuses with `ENTITY_CONFLICT` if there is one of this id. */
  async create(tenantId: TenantId, overrides: QuotaOverrides = {}): Promise<Tenant> {
    const { records, vault, clock } = this.#parts;
    const quotas = this.#checked(overrides);
    const record = newRecord({ quotas, createdAt: clock.now() });
    // Looked at first: a tenant that is being deleted must not get a key again.
    const isTaken = (await records.get(tenantId)) !== null;
    if (!isTaken) await vault.createDataKey(tenantId);
    if (isTaken || !(await records.put(tenantId, bodyOf(record), 0))) {
      throw new BatonError("ENTITY_CONFLICT", `there is a tenant ${tenantId} already`, {
        field: "tenantId",
        used: tenantId,
      });
    }
    return { tenantId, revision: 1, ...record };
  }

  /** The embedded library's tenant; made by the first start. */
  async ensureDefault(): Promise<Tenant> {
    const tenantId = tenantIdOf(DEFAULT_TENANT);
    const known = await this.get(tenantId);
    if (known !== null) return known;
    try {
      return await this.create(tenantId);
    } catch (error) {
      const made = await this.get(tenantId);
      if (made === null) throw error;
      return made;
    }
  }

  async get(tenantId: TenantId): Promise<Tenant | null> {
    const stored = await this.#parts.records.get(tenantId);
    return stored === null ? null : tenantOf(stored);
  }

  async list(params: PageParams = {}): Promise<Page<Tenant>> {
    const page = await this.#parts.records.list(params);
    return { data: page.data.map(tenantOf), cursor: page.cursor };
  }

  quotas(tenant: Tenant): Quotas {
    return quotasOf(this.#parts.defaults, tenant.quotas);
  }

  /** Its messages stay, uncounted, until it is resumed. */
  suspend(tenantId: TenantId): Promise<Tenant> {
    return this.change(tenantId, (tenant) => withStatus(tenant, "suspended"));
  }

  resume(tenantId: TenantId): Promise<Tenant> {
    return this.change(tenantId, (tenant) => withStatus(tenant, "active"));
  }

  /** Sets some quotas; the others stay. */
  setQuotas(tenantId: TenantId, overrides: QuotaOverrides): Promise<Tenant> {
    return this.change(tenantId, (tenant) => ({
      ...tenant,
      quotas: this.#checked({ ...tenant.quotas, ...overrides }),
    }));
  }

  #checked(overrides: QuotaOverrides): QuotaOverrides {
    const parsed = quotaOverridesSchema.safeParse(overrides);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      const field = issue?.path.join(".") ?? "quotas";
      throw new BatonError("INVALID_ARGUMENT", `${field}: ${issue?.message ?? "wrong"}`, { field });
    }
    quotasOf(this.#parts.defaults, parsed.data);
    return parsed.data;
  }

  /**
   * Writes what `change` makes of the present record. It is asked again if another writer was
   * faster, so it must not do anything but decide; what it throws is thrown, and nothing written.
   */
  async change(tenantId: TenantId, change: (tenant: Tenant) => TenantRecord): Promise<Tenant> {
    for (let attempt = 0; attempt < CHANGE_ATTEMPTS_MAX; attempt++) {
      const tenant = await this.get(tenantId);
      if (tenant === null) {
        throw new BatonError("TENANT_NOT_FOUND", `there is no tenant ${tenantId}`, {
          field: "tenantId",
          used: tenantId,
        });
      }
      const body = bodyOf(change(tenant));
      if (await this.#parts.records.put(tenantId, body, tenant.revision)) {
        return tenantOf({ tenantId, revision: tenant.revision + 1, body });
      }
    }
    throw new BatonError("ENTITY_CONFLICT", "the tenant's record is being written by others", {
      field: "tenantId",
      used: tenantId,
    });
  }
}

/** A tenant that is being deleted stays so: its key may be gone already. */
function withStatus(tenant: Tenant, status: TenantStatus): TenantRecord {
  if (tenant.status === "deleting") {
    throw new BatonError("TENANT_SUSPENDED", `the tenant ${tenant.tenantId} is being deleted`, {
      field: "tenantId",
      used: tenant.tenantId,
    });
  }
  return { ...tenant, status };
}
