/**
 * Builds what cannot run from source: code that runs inside heaps, and entries of threads and
 * child processes (Node 20 starts no worker thread from a `.ts` file). With `--package` it also
 * emits the JavaScript and types that npm ships; `--out` puts all of it into another folder.
 *
 * `sandbox/guest/<name>.guest.ts`     →  dist/guest/<name>.js      one script, no imports
 * `sandbox/guest/shims/<name>.shim.ts`  →  dist/shims/<name>.js    what bundles import of the SDK
 * `<folder>/…/<name>.entry.ts`        →  dist/entries/<name>.mjs   packages stay external
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, readdirSync } from "node:fs";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const { values } = parseArgs({
  options: { package: { type: "boolean" }, out: { type: "string", default: "dist" } },
});
const OUT = values.out;
/** Types without code, which the compiler does not copy. */
const TYPES = ["tenants/bundles/workflow-sdk.d.ts"];

async function buildParts(): Promise<void> {
  const guests = find(["sandbox/guest"], ".guest.ts");
  const shims = find(["sandbox/guest/shims"], ".shim.ts");
  const entries = find(["sandbox", "worlds", "tenants"], ".entry.ts");
  await Promise.all([
    build({
      entryPoints: named(guests, ".guest.ts"),
      outdir: `${OUT}/guest`,
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
      outdir: `${OUT}/shims`,
      bundle: true,
      format: "esm",
      platform: "neutral",
      target: "es2022",
      logLevel: "warning",
    }),
    build({
      entryPoints: named(entries, ".entry.ts"),
      outdir: `${OUT}/entries`,
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
if (values.package === true) {
  execFileSync("npx", ["tsc", "-p", "tsconfig.build.json", "--outDir", OUT], { stdio: "inherit" });
  for (const file of TYPES) copyFileSync(file, `${OUT}/${file}`);
}
