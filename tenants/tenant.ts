/**
 * A tenant's record as it is stored: JSON in the World, parsed here and nowhere else.
 */
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import type { StoredTenant } from "../engine/ports/world.ts";
import type { TenantStatus } from "../engine/ports/tenants.ts";
import { quotaOverridesSchema } from "./quota.ts";

/** The embedded library's one tenant. */
export const DEFAULT_TENANT = "default";

const recordSchema = z.strictObject({
  version: z.literal(1),
  status: z.enum(["active", "suspended", "deleting"]) satisfies z.ZodType<TenantStatus>,
  /** What differs from the defaults. */
  quotas: quotaOverridesSchema,
  /** Epoch ms. */
  createdAt: z.number().int().min(0),
});
export type TenantRecord = z.infer<typeof recordSchema>;

/** A record with its id and the revision that the next write has to name. */
export interface Tenant extends TenantRecord {
  readonly tenantId: TenantId;
  readonly revision: number;
}

export function tenantOf(stored: StoredTenant): Tenant {
  try {
    const record = recordSchema.parse(JSON.parse(stored.body));
    return { tenantId: stored.tenantId, revision: stored.revision, ...record };
  } catch (error) {
    const field = `tenant ${stored.tenantId}`;
    throw new BatonError(
      "WORLD_VERSION",
      "a stored tenant record has a known form",
      { field },
      error,
    );
  }
}

export function bodyOf(record: TenantRecord): string {
  const { version, status, quotas, createdAt } = record;
  return JSON.stringify(recordSchema.parse({ version, status, quotas, createdAt }));
}
