/** Vaults for tests: fixed ids, wrapped keys in memory. */
import { entityIdOf, runIdOf, tenantIdOf, type TenantId } from "../../engine/ids.ts";
import { parseMasterKeys } from "../../tenants/master-key-file.ts";
import {
  newWrappedKey,
  type MasterKeys,
  type WrappedKey,
  type WrappedKeys,
} from "../../tenants/keys.ts";
import { Vault } from "../../tenants/vault.ts";

export const ACME = tenantIdOf("acme");
export const ZETA = tenantIdOf("zeta");
export const RUN = runIdOf(`wrun_${"0".repeat(26)}`);
export const OTHER_RUN = runIdOf(`wrun_${"0".repeat(25)}1`);
export const STEP = entityIdOf(`step_${"0".repeat(26)}`);
export const OTHER_STEP = entityIdOf(`step_${"0".repeat(25)}1`);
export const HOOK = entityIdOf(`hook_${"0".repeat(26)}`);

/** Master keys of all-equal bytes, one per version. */
export function masterKeys(...fills: number[]): MasterKeys {
  const lines = fills.map((fill, n) => `${n + 1}:${Buffer.alloc(32, fill).toString("base64")}`);
  return parseMasterKeys(lines.join("\n"), "test");
}

export function keysInMemory(): WrappedKeys & { readonly kept: Map<TenantId, WrappedKey> } {
  const kept = new Map<TenantId, WrappedKey>();
  return {
    kept,
    get: (tenantId) => Promise.resolve(kept.get(tenantId) ?? null),
    add(tenantId, key) {
      if (kept.has(tenantId)) return Promise.resolve(false);
      kept.set(tenantId, key);
      return Promise.resolve(true);
    },
    destroy(tenantId) {
      kept.delete(tenantId);
      return Promise.resolve();
    },
    replace(tenantId, key) {
      if (!kept.has(tenantId)) return Promise.resolve(false);
      kept.set(tenantId, key);
      return Promise.resolve(true);
    },
    tenantIds: () => Promise.resolve([...kept.keys()]),
  };
}

/** A vault with data keys for `acme` and `zeta`. */
export function vaultOf(keys = masterKeys(7), wrapped = keysInMemory()): Vault {
  for (const tenantId of [ACME, ZETA]) wrapped.kept.set(tenantId, newWrappedKey(keys, tenantId));
  return new Vault(keys, wrapped);
}
