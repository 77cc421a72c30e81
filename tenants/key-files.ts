/**
 * Wrapped data keys in files: one per tenant, in a folder apart from the data and left out of
 * backups, so that destroying a key destroys what it opens wherever copies of the data lie.
 *
 * Owns the folder. A key is written to a new name, made durable, then linked to its place, so that
 * a crash leaves either no key or a whole one.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { BatonError } from "../engine/errors.ts";
import { tenantIdOf, type TenantId } from "../engine/ids.ts";
import { wrappedKeySchema, type WrappedKey, type WrappedKeys } from "./keys.ts";

const ENDING = ".key";

/** The keys of a folder, which is made, readable by its owner alone, if it is not there. */
export async function wrappedKeyFiles(folder: string): Promise<WrappedKeys> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const pathOf = (tenantId: TenantId): string => join(folder, `${tenantId}${ENDING}`);
  return {
    get: (tenantId) => readKey(pathOf(tenantId)),
    async add(tenantId, key) {
      const fresh = join(folder, `.new-${randomBytes(8).toString("hex")}`);
      await writeDurably(fresh, JSON.stringify(wrappedKeySchema.parse(key)));
      try {
        // Unlike a rename, a link fails where the name is taken.
        await link(fresh, pathOf(tenantId));
        await syncFolder(folder);
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
        throw error;
      } finally {
        await rm(fresh, { force: true });
      }
    },
    destroy: (tenantId) => overwriteAndRemove(pathOf(tenantId), folder),
    async sample() {
      const name = (await readdir(folder)).find((file) => file.endsWith(ENDING));
      if (name === undefined) return null;
      const key = await readKey(join(folder, name));
      return key === null ? null : { tenantId: tenantIdOf(name.slice(0, -ENDING.length)), key };
    },
  };
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

async function overwriteAndRemove(path: string, folder: string): Promise<void> {
  const file = await open(path, "r+").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (file === null) return;
  try {
    const { size } = await file.stat();
    await file.write(randomBytes(size), 0, size, 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await rm(path);
  await syncFolder(folder);
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
