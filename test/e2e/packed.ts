/** The package as npm would install it, in a project's folder beside everything it depends on. */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

interface Manifest {
  readonly files: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
}

export const MANIFEST = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;

/** Builds the package into a folder of its own, so that nothing else that is built is touched. */
export function packed(): string {
  const folder = mkdtempSync(join(tmpdir(), "baton-package-"));
  const out = join(folder, "dist");
  execFileSync("npm", ["run", "--silent", "build", "--", "--package", "--out", out]);
  const files = ["package.json", ...MANIFEST.files].filter((file) => file !== "dist");
  for (const file of files)
    if (existsSync(file)) cpSync(file, join(folder, file), { recursive: true });
  return folder;
}

/** A project that has the package installed; `from` is copied into it. */
export class Project implements Disposable {
  readonly folder: string;

  constructor(pack: string, from?: string) {
    this.folder = mkdtempSync(join(tmpdir(), "baton-project-"));
    if (from !== undefined) cpSync(from, this.folder, { recursive: true });
    const modules = join(this.folder, "node_modules");
    mkdirSync(modules);
    for (const name of readdirSync("node_modules")) {
      if (!name.startsWith(".")) symlinkSync(resolve("node_modules", name), join(modules, name));
    }
    cpSync(pack, join(modules, "baton"), { recursive: true });
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
