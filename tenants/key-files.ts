/**
 * Wrapped data keys in files: one per tenant, in a folder apart from the data and left out of
 * backups, so that destroying a key destroys what it opens wherever copies of the data lie.
 *
 * Owns the folder. A key is written to a new name, made durable, then linked to its place, so that
 * a crash leaves either no key or a whole one. A key that is destroyed is first moved to a name that
 * nobody looks up, so that a crash leaves no damaged key behind; what is left of it is overwritten
 * by the next opening of the folder.
 *
 * T45  Of one tenant's key one thing happens at a time here: a key that is wrapped anew does not
 *      come back after it was destroyed.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { BatonError } from "../engine/errors.ts";
import { tenantIdOf, type TenantId } from "../engine/ids.ts";
import { wrappedKeySchema, type WrappedKey, type WrappedKeys } from "./keys.ts";

const ENDING = ".key";
const NEW = ".new-";
const GONE = ".gone-";
/** A key that is being written is in its place long before. */
const FRESH_MS = 60_000;

/** The keys of a folder, which is made, readable by its owner alone, if it is not there. */
export async function wrappedKeyFiles(folder: string): Promise<WrappedKeys> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await clearLeftovers(folder);
  const pathOf = (tenantId: TenantId): string => join(folder, `${tenantId}${ENDING}`);
  const inTurn = turns();
  return {
    get: (tenantId) => readKey(pathOf(tenantId)),
    add: (tenantId, key) =>
      withFresh(folder, key, async (fresh) => {
        // Unlike a rename, a link fails where the name is taken.
        const isAdded = await unless("EEXIST", link(fresh, pathOf(tenantId)));
        await syncFolder(folder);
        return isAdded;
      }),
    replace: (tenantId, key) =>
      inTurn(tenantId, async () => {
        if ((await readKey(pathOf(tenantId))) === null) return false;
        return withFresh(folder, key, async (fresh) => {
          await moveOver(fresh, pathOf(tenantId));
          await syncFolder(folder);
          return true;
        });
      }),
    destroy: (tenantId) =>
      inTurn(tenantId, async () => {
        const gone = join(folder, nameFrom(GONE));
        if (!(await unless("ENOENT", rename(pathOf(tenantId), gone)))) return;
        await syncFolder(folder);
        await overwriteAndRemove(gone);
        await syncFolder(folder);
      }),
    async tenantIds() {
      const names = (await readdir(folder)).filter((name) => name.endsWith(ENDING));
      return names.map((name) => tenantIdOf(name.slice(0, -ENDING.length)));
    },
  };
}

/** One after another for each tenant. */
function turns() {
  const last = new Map<TenantId, Promise<unknown>>();
  return async <T>(tenantId: TenantId, act: () => Promise<T>): Promise<T> => {
    const before = last.get(tenantId) ?? Promise.resolve();
    const mine = before.then(act, act);
    last.set(tenantId, mine);
    try {
      return await mine;
    } finally {
      if (last.get(tenantId) === mine) last.delete(tenantId);
    }
  };
}

/** What processes that died have left: each may hold a key of a tenant that was deleted since. */
async function clearLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (name.startsWith(GONE)) await overwriteAndRemove(path);
    if (!name.startsWith(NEW)) continue;
    const found = await stat(path).catch(() => null);
    // Another process may just be writing it.
    if (found === null || Date.now() - found.mtimeMs < FRESH_MS) continue;
    // With two names it is a tenant's key by now, and only this name of it is left over.
    if (found.nlink > 1) await rm(path, { force: true });
    else await overwriteAndRemove(path);
  }
}

async function withFresh<T>(
  folder: string,
  key: WrappedKey,
  use: (path: string) => Promise<T>,
): Promise<T> {
  const fresh = join(folder, nameFrom(NEW));
  await writeDurably(fresh, JSON.stringify(wrappedKeySchema.parse(key)));
  try {
    return await use(fresh);
  } finally {
    await rm(fresh, { force: true });
  }
}

function nameFrom(start: string): string {
  return `${start}${randomBytes(8).toString("hex")}`;
}

/** False if it failed for this reason. */
async function unless(code: string, act: Promise<void>): Promise<boolean> {
  try {
    await act;
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === code) return false;
    throw error;
  }
}

async function readKey(path: string): Promise<WrappedKey | null> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return null;
  try {
    return wrappedKeySchema.parse(JSON.parse(text));
  } catch (error) {
    throw new BatonError(
      "MASTER_KEY",
      `the wrapped key ${path} is damaged`,
      { field: path },
      error,
    );
  }
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Puts a file in the place of another, whose bytes are then overwritten. */
async function moveOver(fresh: string, path: string): Promise<void> {
  const old = await open(path, "r+");
  try {
    await rename(fresh, path);
    await overwrite(old);
  } finally {
    await old.close();
  }
}

async function overwriteAndRemove(path: string): Promise<void> {
  const file = await open(path, "r+").catch((error: NodeJS.ErrnoException) => {
    // Another process clears up as well.
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (file === null) return;
  try {
    await overwrite(file);
  } finally {
    await file.close();
  }
  await rm(path, { force: true });
}

async function overwrite(file: FileHandle): Promise<void> {
  const { size } = await file.stat();
  await file.write(randomBytes(size), 0, size, 0);
  await file.sync();
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
