/**
 * One writer process per file. The lock is an exclusive transaction on a second, empty SQLite file,
 * held for life: the operating system frees it when the process dies, however it dies.
 */
import Database from "better-sqlite3";
import { BatonError } from "../../engine/errors.ts";

/** Returns what frees the lock. */
export function holdLock(path: string): () => void {
  const lock = new Database(`${path}-lock`, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (cause) {
    lock.close();
    throw new BatonError(
      "WORLD_LOCKED",
      `another process has ${path} open for writing; stop it, or open the World read-only`,
      { field: "path", used: path },
      cause,
    );
  }
  return () => {
    lock.close();
  };
}
