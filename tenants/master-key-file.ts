/**
 * The operator's master keys as a file: read, made once, and changed when they are rotated.
 *
 * Owns the file's form (`version:base64` lines) and that it is never seen half written. A change
 * writes a new file and moves it into place; what stood in the old one is overwritten.
 *
 * T10  A master key is only ever made by an embedded start, into a file that did not exist, while no
 *      wrapped key exists: a lost key file never silently becomes a new one.
 * T11  A missing, malformed, readable-by-others or wrong master key stops the process (`MASTER_KEY`):
 *      at its start every wrapped key is tried.
 * T44  A master key is taken out of the file only when no data key is wrapped with it any more.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import type { MasterKeys, WrappedKeys } from "./keys.ts";
import { MASTER_KEY_BYTES, masterKeyError, unwrapDataKey } from "./keys.ts";

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
  return parseMasterKeys(readPrivately(path), path);
}

export interface OpenMasterKeys {
  readonly path: string;
  /** Only an embedded start may: a server's or a cluster's key comes from the operator. */
  readonly mayCreate: boolean;
  readonly wrappedKeys: WrappedKeys;
}

/** The master keys of a start, tried on every wrapped key. */
export async function openMasterKeys(options: OpenMasterKeys): Promise<MasterKeys> {
  const { path, mayCreate, wrappedKeys } = options;
  const tenantIds = await wrappedKeys.tenantIds();
  if (tenantIds.length === 0 && mayCreate) createKeyFileIfMissing(path);
  const keys = readMasterKeyFile(path);
  for (const tenantId of tenantIds) {
    const wrapped = await wrappedKeys.get(tenantId);
    if (wrapped !== null) unwrapDataKey(keys, tenantId, wrapped);
  }
  return keys;
}

/** Adds a fresh master key of the next version, which new data keys are wrapped with. Its version. */
export function addMasterKey(path: string): number {
  const text = readPrivately(path);
  const version = parseMasterKeys(text, path).current + 1;
  replaceFile(
    path,
    `${text.endsWith("\n") || text === "" ? text : `${text}\n`}${freshLine(version)}`,
  );
  return version;
}

/** Takes an old master key out, once no data key needs it. */
export async function removeMasterKey(
  path: string,
  version: number,
  wrappedKeys: WrappedKeys,
): Promise<void> {
  const text = readPrivately(path);
  const keys = parseMasterKeys(text, path);
  if (!keys.byVersion.has(version)) throw masterKeyError(`${path} holds version ${version}`);
  if (version === keys.current) {
    throw masterKeyError(`version ${version} is not the one that new data keys are wrapped with`);
  }
  for (const tenantId of await wrappedKeys.tenantIds()) {
    const wrapped = await wrappedKeys.get(tenantId);
    if (wrapped?.masterVersion === version) {
      throw masterKeyError(`no data key is wrapped with version ${version}; rotate first`);
    }
  }
  const kept = text.split("\n").filter((line) => !line.trim().startsWith(`${version}:`));
  replaceFile(path, kept.join("\n"));
}

function freshLine(version: number): string {
  return `${version}:${randomBytes(MASTER_KEY_BYTES).toString("base64")}\n`;
}

function readPrivately(path: string): string {
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
    return readFileSync(descriptor, "utf8");
  } finally {
    closeSync(descriptor);
  }
}

/** Written under another name first: a crash leaves either no key file or a whole one. */
function createKeyFileIfMissing(path: string): void {
  if (existsSync(path)) return;
  const fresh = freshName(path);
  try {
    writeDurably(fresh, freshLine(1));
    linkSync(fresh, path);
    syncFolder(path);
  } catch (error) {
    // Another start was faster; its key is the one.
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw masterKeyError(`the key file ${path} can be made`, error);
  } finally {
    rmSync(fresh, { force: true });
  }
}

/** The new text in the file's place, durably; then the old one's bytes are overwritten. */
function replaceFile(path: string, text: string): void {
  const fresh = freshName(path);
  const old = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    writeDurably(fresh, text);
    renameSync(fresh, path);
    syncFolder(path);
    writeSync(old, randomBytes(fstatSync(old).size), 0, undefined, 0);
    fsyncSync(old);
  } finally {
    closeSync(old);
    rmSync(fresh, { force: true });
  }
}

function freshName(path: string): string {
  return `${path}.new-${randomBytes(8).toString("hex")}`;
}

function writeDurably(path: string, text: string): void {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const descriptor = openSync(path, flags, 0o600);
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function syncFolder(path: string): void {
  const folder = openSync(dirname(path), constants.O_RDONLY);
  fsyncSync(folder);
  closeSync(folder);
}
