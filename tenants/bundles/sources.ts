/**
 * The tenant's files, named so that no path of a machine gets into a bundle.
 *
 * Owns where a file belongs: to the project (named relative to its root) or to a package (named
 * `name@version/path`), and keeps each file's text and transformed forms for one build.
 */
import { readFile, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { BatonError } from "../../engine/errors.ts";
import { concernsTransformer, transformFile, type TransformedFile } from "./transform.ts";
import type { BundleSide } from "./lift.ts";

/** A file of a build. */
export interface KnownFile {
  readonly path: string;
  /** The name that ids, maps and messages use. */
  readonly name: string;
  readonly isProject: boolean;
  readonly source: string;
  /** Null: the file holds nothing of the SDK and goes in as it is. */
  readonly transformed: { readonly [side in BundleSide]: TransformedFile } | null;
}

const CODE = /\.[mc]?[jt]sx?$/;

export class Sources {
  readonly root: string;
  readonly #files = new Map<string, Promise<KnownFile>>();
  readonly #packages = new Map<string, Promise<Package | null>>();
  /** Files whose text has been read so far, by path. */
  readonly known = new Map<string, KnownFile>();

  private constructor(root: string) {
    this.root = root;
  }

  static async at(projectRoot: string): Promise<Sources> {
    return new Sources(await realpath(projectRoot));
  }

  /** Reads and, where it concerns the transformer, transforms a file, once for the whole build. */
  file(path: string): Promise<KnownFile> {
    let file = this.#files.get(path);
    if (file === undefined) {
      file = this.#read(path);
      this.#files.set(path, file);
    }
    return file;
  }

  async #read(path: string): Promise<KnownFile> {
    const { name, specifier } = await this.#nameOf(path);
    const source = await readFile(path, "utf8");
    const isCode = CODE.test(path) && concernsTransformer(source);
    const known = {
      path,
      name,
      isProject: specifier === null,
      source,
      transformed: isCode
        ? await transformFile({ file: name, source, packageSpecifier: specifier })
        : null,
    };
    this.known.set(path, known);
    return known;
  }

  async #nameOf(path: string): Promise<{ name: string; specifier: string | null }> {
    const inner = relative(this.root, path);
    const isInside = !inner.startsWith("..") && !inner.split(sep).includes("node_modules");
    if (isInside) return { name: inner.split(sep).join("/"), specifier: null };
    const owner = await this.#packageOf(dirname(path));
    if (owner === null) {
      throw new BatonError(
        "BUNDLE_REFUSED",
        `a file outside of the project belongs to a package with a name: ${inner}`,
        { file: inner },
      );
    }
    const specifier = `${owner.name}@${owner.version}`;
    const rest = relative(owner.folder, path).split(sep).join("/");
    return { name: `${specifier}/${rest}`, specifier };
  }

  #packageOf(folder: string): Promise<Package | null> {
    let found = this.#packages.get(folder);
    if (found === undefined) {
      found = readPackage(folder).then((own) => {
        const parent = dirname(folder);
        return own ?? (parent === folder ? null : this.#packageOf(parent));
      });
      this.#packages.set(folder, found);
    }
    return found;
  }

  /** The code files that an entry names: itself, or all below a folder that hold a directive. */
  async entryFiles(entry: string): Promise<string[]> {
    const path = join(this.root, entry);
    const info = await stat(path).catch(() => null);
    if (info === null) {
      throw new BatonError("BUNDLE_REFUSED", `there is no entry ${entry}`, { field: "entries" });
    }
    if (!info.isDirectory()) return [await realpath(path)];
    const below = await readdir(path, { recursive: true });
    const files: string[] = [];
    for (const name of below.sort()) {
      if (!CODE.test(name) || /\.d\.[mc]?ts$/.test(name)) continue;
      if (name.split(sep).includes("node_modules")) continue;
      const file = await realpath(join(path, name));
      if (concernsTransformer(await readFile(file, "utf8"))) files.push(file);
    }
    return files;
  }
}

interface Package {
  readonly folder: string;
  readonly name: string;
  readonly version: string;
}

async function readPackage(folder: string): Promise<Package | null> {
  const text = await readFile(join(folder, "package.json"), "utf8").catch(() => null);
  if (text === null) return null;
  const { name, version } = JSON.parse(text) as { name?: unknown; version?: unknown };
  if (typeof name !== "string" || typeof version !== "string") return null;
  return { folder, name, version };
}
