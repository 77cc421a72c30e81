/**
 * What a tenant uses of each of its quotas, for the operator's eyes.
 *
 * Owns the list: every quota is in it. Those of one run, one heap or one value have no use of the
 * tenant's own; what they met is in its usage counters.
 */
import type { Quotas } from "./quota.ts";

type QuotaName = keyof Quotas;

export interface QuotaUse {
  /** Now, or in the present second or minute; null: not a use of the tenant as a whole. */
  readonly used: number | null;
  /** Null: no limit. */
  readonly allowed: number | null;
}

export type QuotaUses = { readonly [Name in QuotaName]: QuotaUse };

export function quotaUsesOf(
  quotas: Quotas,
  used: Partial<Readonly<Record<QuotaName, number | null>>>,
): QuotaUses {
  return Object.fromEntries(
    Object.entries(quotas).map(([name, allowed]) => [
      name,
      { used: used[name as QuotaName] ?? null, allowed },
    ]),
  ) as QuotaUses;
}
