/**
 * The deletion of a tenant: its data key first, then everything that it opened.
 *
 * Owns the order, and the receipt. Each step may be done again, so a deletion that was cut short
 * anywhere is simply begun again: the record, which says "deleting", goes last.
 *
 * T46  A tenant's data key is destroyed before anything else of it is removed, and while its record
 *      says "deleting": from then on nothing of it opens, and nothing can be sealed for it.
 * T47  A receipt is given only after everything that it covers is gone.
 */
import type { TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { World } from "../engine/ports/world.ts";
import type { TenantPolicy } from "./policy.ts";
import type { TenantRegistry } from "./registry.ts";
import type { Storage } from "./storage.ts";
import type { Tenant, TenantRecord } from "./tenant.ts";
import type { UsageCounters } from "./usage.ts";
import type { Vault } from "./vault.ts";

export interface DeletionReceipt {
  readonly tenantId: string;
  /** Epoch ms, by when all that `covers` names was gone. */
  readonly deletedAt: number;
  /** What is gone from every file of the World and of the key folder. */
  readonly covers: readonly string[];
  /** What no deletion reaches, for whoever has to answer for it. */
  readonly cannotReach: readonly string[];
}

export interface DeletionParts {
  readonly world: World;
  readonly registry: TenantRegistry;
  readonly policy: TenantPolicy;
  readonly vault: Vault;
  readonly clock: Clock;
  readonly usage: Pick<UsageCounters, "forget">;
  readonly storage: Pick<Storage, "forget">;
  /** Drops what the process holds of the tenant in memory. */
  readonly forget: (tenantId: TenantId) => void;
}

const COVERS = [
  "its data key",
  "its API keys, secrets, egress policy, quotas and usage",
  "its runs: events, steps, waits, hooks, attributes, messages",
  "its payloads, blobs, streams and snapshots",
  "its bundles and aliases",
] as const;

const CANNOT_REACH = [
  "backups of the World: what is sealed in them opens no more; names, ids, times, attributes and the code of bundles stay readable",
  "copies of the key folder: with the master key, one of them opens a backup of the World",
  "blocks that a file system or disk keeps of files that were overwritten",
  "the memory of running processes, until their caches turn over",
  "log lines and metrics, and what its steps have sent to others",
] as const;

const CANNOT_REACH_AT_ONCE =
  "other processes on this World: they hold the data key in memory for up to a second more, and what they write in it stays, unreadable";

/** Deletes the tenant, or goes on with a deletion that was cut short. */
export async function deleteTenant(
  parts: DeletionParts,
  tenantId: TenantId,
): Promise<DeletionReceipt> {
  const { world, registry, policy, vault, clock } = parts;
  await registry.change(tenantId, emptied);
  policy.forget(tenantId);
  await vault.destroyDataKey(tenantId);
  parts.forget(tenantId);
  await world.tenants.purge(tenantId);
  // Now, since deliveries that were under way may have left something of it.
  policy.forget(tenantId);
  parts.usage.forget(tenantId);
  parts.storage.forget(tenantId);
  parts.forget(tenantId);
  const isShared = world.capabilities.isShared ?? true;
  return {
    tenantId,
    deletedAt: clock.now(),
    covers: COVERS,
    cannotReach: isShared ? [...CANNOT_REACH, CANNOT_REACH_AT_ONCE] : CANNOT_REACH,
  };
}

/** Of a tenant that is being deleted only that much is kept. */
function emptied(tenant: Tenant): TenantRecord {
  return { ...tenant, status: "deleting", apiKeys: [], secrets: {}, egress: null };
}
