/**
 * A tenant's record as it is stored: JSON in the World, parsed here and nowhere else.
 *
 * What stands in it is plain to whoever holds the store, but for secrets, which are sealed, and API
 * keys, of which only a hash is kept.
 */
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import type { StoredTenant } from "../engine/ports/world.ts";
import type { TenantStatus } from "../engine/ports/tenants.ts";
import { egressPolicySchema } from "./egress-policy.ts";
import { quotaOverridesSchema } from "./quota.ts";

/** The embedded library's one tenant. */
export const DEFAULT_TENANT = "default";

/** Epoch ms. */
const instant = z.number().int().min(0);

const apiKeySchema = z.strictObject({
  keyId: z.string().regex(/^[0-9a-f]{16}$/),
  /** SHA-256 of the key's secret part, its tenant and its id, in hexadecimal digits. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  /** For people. */
  label: z.string().max(100),
  createdAt: instant,
  /** From then on it is refused; null: never. */
  expiresAt: instant.nullable(),
});
export type StoredApiKey = z.infer<typeof apiKeySchema>;

const recordSchema = z.strictObject({
  version: z.literal(1),
  status: z.enum(["active", "suspended", "deleting"]) satisfies z.ZodType<TenantStatus>,
  /** What differs from the defaults. */
  quotas: quotaOverridesSchema,
  createdAt: instant,
  apiKeys: z.array(apiKeySchema).default([]),
  /** Sealed values, base64, by the name under which step code reads them. */
  secrets: z.record(z.string(), z.base64()).default({}),
  /** Null: every request of a step is refused. */
  egress: egressPolicySchema.nullable().default(null),
});
export type TenantRecord = z.infer<typeof recordSchema>;

/** A record with its id and the revision that the next write has to name. */
export interface Tenant extends TenantRecord {
  readonly tenantId: TenantId;
  readonly revision: number;
}

export function newRecord(of: Pick<TenantRecord, "quotas" | "createdAt">): TenantRecord {
  return { version: 1, status: "active", apiKeys: [], secrets: {}, egress: null, ...of };
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
  const { version, status, quotas, createdAt, apiKeys, secrets, egress } = record;
  const plain = { version, status, quotas, createdAt, apiKeys, secrets, egress };
  return JSON.stringify(recordSchema.parse(plain));
}
