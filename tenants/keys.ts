/**
 * Keys: the operator's master key, and the data key of each tenant that it wraps.
 *
 * Owns the key file, the wrapping, and where wrapped keys are kept. Knows nothing of what is sealed
 * with them.
 *
 * T10  A master key is only ever made by an embedded start, into a file that did not exist, while no
 *      wrapped key exists: a lost key file never silently becomes a new one.
 * T11  A missing, malformed, readable-by-others or wrong master key stops the process (`MASTER_KEY`).
 * T12  Without its wrapped key nothing of a tenant opens: destroying it is what deletion means.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import { tuple } from "./tuple.ts";

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
  destroy(tenantId: TenantId): Promise<void>;
  /** Any one of them, to try the master key on; null if there is none. */
  sample(): Promise<{ readonly tenantId: TenantId; readonly key: WrappedKey } | null>;
}

/** Master keys from text: one per line, its version, a colon, and 32 bytes in base64. */
export function parseMasterKeys(text: string, source: string): MasterKeys {
  const byVersion = new Map<number, Uint8Array>();
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const [, version, encoded] = /^([1-9]\d{0,5}):([A-Za-z0-9+/]{43}=)$/.exec(line.trim()) ?? [];
    // The line itself may be most of a key: it is not repeated in the error.
    if (version === undefined || encoded === undefined || byVersion.has(Number(version))) {
      throw masterKeyError(`${source} holds lines of the form version:base64, each version once`);
    }
    byVersion.set(Number(version), Buffer.from(encoded, "base64"));
  }
  if (byVersion.size === 0) throw masterKeyError(`${source} holds no key`);
  return { byVersion, current: Math.max(...byVersion.keys()) };
}

/** Reads the key file. Refuses one that others than its owner could read. */
export function readMasterKeyFile(path: string): MasterKeys {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    throw masterKeyError(`the key file ${path} can be opened`, error);
  }
  try {
    const stat = fstatSync(descriptor);
    const uid = process.getuid?.();
    if (!stat.isFile()) throw masterKeyError(`${path} is a plain file`);
    if (uid !== undefined && (stat.mode & 0o077) !== 0) {
      throw masterKeyError(`the key file ${path} is readable by its owner alone (chmod 600)`);
    }
    if (uid !== undefined && stat.uid !== uid) {
      throw masterKeyError(`the key file ${path} belongs to the user of this process`);
    }
    return parseMasterKeys(readFileSync(descriptor, "utf8"), path);
  } finally {
    closeSync(descriptor);
  }
}

export interface OpenMasterKeys {
  readonly path: string;
  /** Only an embedded start may: a server's or a cluster's key comes from the operator. */
  readonly mayCreate: boolean;
  readonly wrappedKeys: WrappedKeys;
}

/** The master keys of a start, tried on a wrapped key if there is one. */
export async function openMasterKeys(options: OpenMasterKeys): Promise<MasterKeys> {
  const sample = await options.wrappedKeys.sample();
  if (sample === null && options.mayCreate) createKeyFileIfMissing(options.path);
  const keys = readMasterKeyFile(options.path);
  if (sample !== null) unwrapDataKey(keys, sample.tenantId, sample.key);
  return keys;
}

/** Written under another name first: a crash leaves either no key file or a whole one. */
function createKeyFileIfMissing(path: string): void {
  if (existsSync(path)) return;
  const fresh = `${path}.new-${randomBytes(8).toString("hex")}`;
  try {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    const descriptor = openSync(fresh, flags, 0o600);
    writeSync(descriptor, `1:${randomBytes(KEY_BYTES).toString("base64")}\n`);
    fsyncSync(descriptor);
    closeSync(descriptor);
    linkSync(fresh, path);
    const folder = openSync(dirname(path), constants.O_RDONLY);
    fsyncSync(folder);
    closeSync(folder);
  } catch (error) {
    // Another start was faster; its key is the one.
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw masterKeyError(`the key file ${path} can be made`, error);
  } finally {
    rmSync(fresh, { force: true });
  }
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
function masterKeyError(rule: string, cause?: unknown): BatonError {
  return new BatonError(
    "MASTER_KEY",
    `refusing to start unless ${rule}`,
    { field: "masterKey" },
    cause,
  );
}
