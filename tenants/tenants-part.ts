/**
 * The tenants' part of a Baton, put together: keys, the seal around the World, records, policy.
 *
 * Owns the checks of a start: the master key opens every data key, and every tenant's data key is
 * there. Decides nothing afterwards.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import type { Clock, Log } from "../engine/ports/host.ts";
import type { World } from "../engine/ports/world.ts";
import { wrappedKeyFiles } from "./key-files.ts";
import { limitFeeds } from "./limited-feeds.ts";
import {
  addMasterKey,
  openMasterKeys,
  readMasterKeyFile,
  removeMasterKey,
} from "./master-key-file.ts";
import { meterWorld } from "./metered-world.ts";
import { TenantPolicy } from "./policy.ts";
import type { Quotas } from "./quota.ts";
import { TenantRegistry } from "./registry.ts";
import { sealWorld } from "./sealed-world.ts";
import { Storage } from "./storage.ts";
import { Tenancy, type KeyFile, type TenancyParts } from "./tenancy.ts";
import { Upkeep } from "./upkeep.ts";
import { UsageCounters } from "./usage.ts";
import { Vault } from "./vault.ts";

export interface TenantsPartOptions {
  /** As it is opened, without a seal. */
  readonly world: World;
  readonly keyFolder: string;
  readonly mayCreateMasterKey: boolean;
  /** What a tenant has where its record sets nothing. */
  readonly defaults: Quotas;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether the embedded library's one tenant is made if it is not there. */
  readonly hasDefaultTenant: boolean;
}

export interface TenantsPart {
  /** Behind the seal, with the live feeds of each tenant's clients counted. */
  readonly world: World;
  readonly vault: Vault;
  readonly keyFile: KeyFile;
  readonly registry: TenantRegistry;
  readonly policy: TenantPolicy;
  readonly usage: UsageCounters;
  readonly storage: Storage;
}

/** Refuses with `MASTER_KEY` to start with keys that are not those of the data. */
export async function openTenantsPart(options: TenantsPartOptions): Promise<TenantsPart> {
  const { defaults, clock, log } = options;
  const { vault, keyFile } = await openKeys(options);
  const { tenants: records } = options.world;
  const storage = new Storage({ records, clock, log });
  const sealed = sealWorld(meterWorld(options.world, storage), vault);
  const registry = new TenantRegistry({ records, vault, clock, defaults });
  await assertKeysOfAll(registry, vault);
  if (options.hasDefaultTenant) await registry.ensureDefault();
  const usage = new UsageCounters({ records, clock, log });
  const policy = new TenantPolicy({ world: sealed, registry, vault, usage, storage, clock });
  const world = limitFeeds(sealed, (tenantId) => policy.feedCapsOf(tenantId));
  return { world, vault, keyFile, registry, policy, usage, storage };
}

/** The operator's surface and the upkeep of a Baton that runs; upkeep has begun. */
export function tend(
  part: TenantsPart,
  engine: TenancyParts["engine"],
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): { readonly tenancy: Tenancy; readonly upkeep: Upkeep } {
  const onChanged = (): void => upkeep.nudge();
  const tenancy = new Tenancy({ ...part, clock, engine, onChanged });
  const finishDeletion = (tenantId: TenantId) => tenancy.delete(tenantId);
  const upkeep = new Upkeep({ ...part, clock, log, finishDeletion });
  upkeep.nudge();
  return { tenancy, upkeep };
}

async function openKeys({
  keyFolder,
  mayCreateMasterKey,
}: TenantsPartOptions): Promise<{ readonly vault: Vault; readonly keyFile: KeyFile }> {
  await mkdir(keyFolder, { recursive: true, mode: 0o700 });
  const wrappedKeys = await wrappedKeyFiles(join(keyFolder, "tenants"));
  const path = join(keyFolder, "master.key");
  const keys = await openMasterKeys({ path, mayCreate: mayCreateMasterKey, wrappedKeys });
  return {
    vault: new Vault(keys, wrappedKeys, () => readMasterKeyFile(path)),
    keyFile: {
      add: () => addMasterKey(path),
      remove: (version) => removeMasterKey(path, version, wrappedKeys),
    },
  };
}

/** Data without its key means that the key folder is not the one it was written with. */
async function assertKeysOfAll(registry: TenantRegistry, vault: Vault): Promise<void> {
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<TenantRegistry["list"]>> = await registry.list(
      cursor === null ? { limit: 1000 } : { cursor, limit: 1000 },
    );
    for (const { tenantId, status } of page.data) {
      if (status === "deleting" || (await vault.hasDataKey(tenantId))) continue;
      const about = { field: "keyFolder", tenantId };
      throw new BatonError("MASTER_KEY", "a tenant has data and no data key", about);
    }
    cursor = page.cursor;
  } while (cursor !== null);
}
