/**
 * Builds a project again whenever its files change, for as long as someone develops it.
 *
 * Owns which folders are watched and when a build begins: a moment after the last change, and never
 * two at once. A build that is refused is told like one that succeeds; the watch goes on.
 */
import { watch, type FSWatcher } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { BatonError } from "../../engine/errors.ts";
import { buildBundle, type BuildRequest, type BuiltBundle } from "./build.ts";

export interface WatchRequest extends BuildRequest {
  /** Told of each bundle that differs from the last one that was told. */
  readonly onBuilt: (bundle: BuiltBundle) => void;
  /** Told why a build failed: `BUNDLE_REFUSED` for what is the project's, anything else for ours. */
  readonly onRefused: (error: unknown) => void;
  /** How long files must have been left alone before they are built; 100 ms. */
  readonly quietMs?: number;
}

export interface BundleWatch extends AsyncDisposable {
  /** Ends the watch; no one is told of anything after that. A build under way is waited for. */
  close(): Promise<void>;
}

const QUIET_MS = 100;
/** More is not a project but a disk; each folder holds a handle of the system. */
const FOLDERS_MAX = 4096;
/** What changes without a change to the source: other tools' output, and everything hidden. */
const UNWATCHED = /^(?:node_modules|dist|coverage|\..*)$/;

/** Starts with a build. Refuses a project that cannot be watched. */
export async function watchBundle(request: WatchRequest): Promise<BundleWatch> {
  const watching = new Watching(request);
  try {
    await watching.watchFolders();
  } catch (error) {
    await watching.close();
    throw error;
  }
  watching.changed(0);
  return watching;
}

class Watching implements BundleWatch {
  readonly #request: WatchRequest;
  readonly #watchers = new Map<string, FSWatcher>();
  #timer: NodeJS.Timeout | null = null;
  #building: Promise<void> | null = null;
  #isStale = false;
  #isClosed = false;
  /** Null: nothing was told yet, or the last that was told is a refusal. */
  #lastHash: string | null = null;

  constructor(request: WatchRequest) {
    this.#request = request;
  }

  /** A build is to begin once nothing has changed for so long. */
  changed(quietMs: number): void {
    if (this.#isClosed) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#begin(), quietMs);
  }

  async watchFolders(): Promise<void> {
    const folders = await foldersBelow(this.#request.projectRoot);
    if (this.#isClosed) return;
    for (const [folder, watcher] of this.#watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const folder of folders) if (!this.#watchers.has(folder)) this.#watch(folder);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
    await this.#building;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #watch(folder: string): void {
    const changed = (): void => this.changed(this.#request.quietMs ?? QUIET_MS);
    try {
      const watcher = watch(folder, (_kind, name) => {
        if (name === null || !UNWATCHED.test(name)) changed();
      });
      // Its folder is gone: the next look at the folders drops it.
      watcher.on("error", changed);
      this.#watchers.set(folder, watcher);
    } catch (error) {
      // It went away after it was listed.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }

  #begin(): void {
    this.#timer = null;
    if (this.#building !== null) {
      this.#isStale = true;
      return;
    }
    this.#building = this.#build().finally(() => {
      this.#building = null;
      if (!this.#isStale) return;
      this.#isStale = false;
      this.changed(0);
    });
  }

  async #build(): Promise<void> {
    const { onBuilt, onRefused } = this.#request;
    try {
      // First, so that whatever changes while it is built is seen.
      await this.watchFolders();
      const bundle = await buildBundle(this.#request);
      if (this.#isClosed || bundle.hash === this.#lastHash) return;
      this.#lastHash = bundle.hash;
      onBuilt(bundle);
    } catch (error) {
      this.#lastHash = null;
      if (!this.#isClosed) onRefused(error);
    }
  }
}

async function foldersBelow(root: string): Promise<Set<string>> {
  const folders = new Set([root]);
  for (const folder of folders) {
    const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
      if (folder === root) throw error;
      return [];
    });
    for (const entry of entries) {
      if (entry.isDirectory() && !UNWATCHED.test(entry.name)) folders.add(join(folder, entry.name));
    }
    if (folders.size > FOLDERS_MAX) {
      throw new BatonError("INVALID_ARGUMENT", "the project has too many folders to watch", {
        field: "projectRoot",
        used: folders.size,
        allowed: FOLDERS_MAX,
      });
    }
  }
  return folders;
}
