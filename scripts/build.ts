/**
 * Builds what cannot run from source: code that runs inside heaps, and entries of threads and
 * child processes (Node 20 starts no worker thread from a `.ts` file). With `--package` it also
 * emits the JavaScript and types that npm ships.
 *
 * `sandbox/guest/<name>.guest.ts`     →  dist/guest/<name>.js      one script, no imports
 * `sandbox/guest/shims/<name>.shim.ts`  →  dist/shims/<name>.js    what bundles import of the SDK
 * `<folder>/…/<name>.entry.ts`        →  dist/entries/<name>.mjs   packages stay external
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { basename } from "node:path";
import { build } from "esbuild";

async function buildParts(): Promise<void> {
  const guests = find(["sandbox/guest"], ".guest.ts");
  const shims = find(["sandbox/guest/shims"], ".shim.ts");
  const entries = find(["sandbox", "worlds", "tenants"], ".entry.ts");
  await Promise.all([
    build({
      entryPoints: named(guests, ".guest.ts"),
      outdir: "dist/guest",
      bundle: true,
      minify: true,
      format: "iife",
      globalName: "__baton_guest",
      platform: "neutral",
      mainFields: ["module", "main"],
      target: "es2022",
      logLevel: "warning",
    }),
    build({
      entryPoints: named(shims, ".shim.ts"),
      outdir: "dist/shims",
      bundle: true,
      format: "esm",
      platform: "neutral",
      target: "es2022",
      logLevel: "warning",
    }),
    build({
      entryPoints: named(entries, ".entry.ts"),
      outdir: "dist/entries",
      outExtension: { ".js": ".mjs" },
      bundle: true,
      format: "esm",
      platform: "node",
      packages: "external",
      target: "node20",
      sourcemap: true,
      logLevel: "warning",
    }),
  ]);
}

function find(folders: string[], ending: string): string[] {
  return folders.filter(existsSync).flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(ending))
      .map((file) => `${folder}/${file}`),
  );
}

function named(files: string[], ending: string): { in: string; out: string }[] {
  return files.map((file) => ({ in: file, out: basename(file, ending) }));
}

await buildParts();
if (process.argv.includes("--package")) {
  execFileSync("npx", ["tsc", "-p", "tsconfig.build.json"], { stdio: "inherit" });
}
