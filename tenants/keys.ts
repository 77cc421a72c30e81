/**
 * Keys: the operator's master keys, and the data key of each tenant that they wrap.
 *
 * Owns the wrapping, and the contract of where wrapped keys are kept. Knows nothing of what is
 * sealed with them.
 *
 * T12  Without its wrapped key nothing of a tenant opens: destroying it is what deletion means.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import { tuple } from "./tuple.ts";

export const MASTER_KEY_BYTES = 32;
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The master keys by version. New data keys are wrapped with the highest. */
export interface MasterKeys {
  readonly byVersion: ReadonlyMap<number, Uint8Array>;
  readonly current: number;
}

/** A tenant's data key, wrapped. Plain data, to be kept apart from what it opens. */
export const wrappedKeySchema = z.strictObject({
  masterVersion: z.number().int().min(1),
  /** Of the data key; raised by its rotation. */
  keyVersion: z.number().int().min(1).max(0xffff_ffff),
  /** Nonce, ciphertext and tag, base64. */
  wrapped: z.base64().length(4 * Math.ceil((NONCE_BYTES + KEY_BYTES + TAG_BYTES) / 3)),
});
export type WrappedKey = z.infer<typeof wrappedKeySchema>;

export interface DataKey {
  readonly version: number;
  /** 32 bytes. */
  readonly bytes: Uint8Array;
}

/** Where wrapped keys are kept. */
export interface WrappedKeys {
  get(tenantId: TenantId): Promise<WrappedKey | null>;
  /** False if the tenant has one already: a data key is never written over. */
  add(tenantId: TenantId, key: WrappedKey): Promise<boolean>;
  /** Puts the same data key, wrapped anew, in the place of a key; false if there is none by now. */
  replace(tenantId: TenantId, key: WrappedKey): Promise<boolean>;
  /** No error if there is none. What a crash cut short is finished by the next start. */
  destroy(tenantId: TenantId): Promise<void>;
  /** Of all tenants that have a key. */
  tenantIds(): Promise<readonly TenantId[]>;
}

/** A fresh data key for a tenant, wrapped. */
export function newWrappedKey(keys: MasterKeys, tenantId: TenantId, keyVersion = 1): WrappedKey {
  return wrapDataKey(keys, tenantId, { version: keyVersion, bytes: randomBytes(KEY_BYTES) });
}

/** Wraps a data key with the current master key: also how master keys are rotated. */
export function wrapDataKey(keys: MasterKeys, tenantId: TenantId, key: DataKey): WrappedKey {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", masterOf(keys, keys.current), nonce);
  cipher.setAAD(wrappingContext(tenantId, keys.current, key.version));
  const sealed = Buffer.concat([
    nonce,
    cipher.update(key.bytes),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  return {
    masterVersion: keys.current,
    keyVersion: key.version,
    wrapped: sealed.toString("base64"),
  };
}

/** The data key, or `MASTER_KEY` if no key we have wrapped it. */
export function unwrapDataKey(keys: MasterKeys, tenantId: TenantId, key: WrappedKey): DataKey {
  const sealed = Buffer.from(key.wrapped, "base64");
  const master = masterOf(keys, key.masterVersion);
  const decipher = createDecipheriv("aes-256-gcm", master, sealed.subarray(0, NONCE_BYTES));
  decipher.setAAD(wrappingContext(tenantId, key.masterVersion, key.keyVersion));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  try {
    const body = sealed.subarray(NONCE_BYTES, sealed.length - TAG_BYTES);
    const bytes = Buffer.concat([decipher.update(body), decipher.final()]);
    return { version: key.keyVersion, bytes };
  } catch (error) {
    throw masterKeyError("the master key is the one that wrapped the data keys", error);
  }
}

function masterOf(keys: MasterKeys, version: number): Uint8Array {
  const key = keys.byVersion.get(version);
  if (key === undefined) throw masterKeyError(`master key version ${version} is there`);
  return key;
}

function wrappingContext(tenantId: TenantId, masterVersion: number, keyVersion: number): Buffer {
  return tuple("baton-data-key", tenantId, String(masterVersion), String(keyVersion));
}

/** `rule` is what has to hold and does not. */
export function masterKeyError(rule: string, cause?: unknown): BatonError {
  return new BatonError(
    "MASTER_KEY",
    `refusing to start unless ${rule}`,
    { field: "masterKey" },
    cause,
  );
}
