/**
 * One side of a bundle through esbuild.
 *
 * Owns the esbuild plugin: which text a file has on this side, what the SDK's own module names
 * resolve to, and what happens to Node's built-in modules (refused on the workflow side, kept and
 * listed on the step side).
 */
import { isBuiltin } from "node:module";
import { dirname, extname } from "node:path";
import { build, type BuildOptions, type Loader, type Message, type Plugin } from "esbuild";
import { isBatonError } from "../../engine/errors.ts";
import type { BundleSide } from "./lift.ts";
import { buildRefused, problemsOfEsbuild, type Problem } from "./problems.ts";
import type { KnownFile, Sources } from "./sources.ts";

/** What the SDK's module names resolve to: specifier → code of a module without imports. */
export type Shims = Readonly<Record<string, string>>;

export interface SideRequest {
  readonly side: BundleSide;
  readonly sources: Sources;
  readonly entries: readonly string[];
  readonly shims: Shims;
}

export interface BuiltinUse {
  readonly module: string;
  readonly file: string;
  readonly line: number;
}

export interface SideResult {
  readonly code: string;
  readonly map: string;
  /** All files that esbuild loaded. */
  readonly files: readonly KnownFile[];
  readonly builtins: readonly BuiltinUse[];
}

interface FoundBuiltin {
  readonly module: string;
  /** The path of the file that imports it. */
  readonly importer: string;
}

const NAMESPACE = { entry: "baton-entry", shim: "baton", package: "package" } as const;
const LOADERS: Readonly<Record<string, Loader>> = {
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
  ".js": "jsx",
  ".jsx": "jsx",
  ".mjs": "js",
  ".cjs": "js",
  ".json": "json",
};

/** Bundles one side. Throws `BUNDLE_REFUSED` with every problem that was found. */
export async function buildSide(request: SideRequest): Promise<SideResult> {
  const loaded = new Map<string, KnownFile>();
  const builtins: FoundBuiltin[] = [];
  const { root } = request.sources;
  const result = await build({
    ...optionsOf(request.side),
    absWorkingDir: root,
    entryPoints: [{ in: "entry", out: "bundle" }],
    outdir: root,
    plugins: [plugin(request, loaded, builtins)],
  }).catch((error: unknown) => {
    throw refusalOf(error, request, loaded);
  });
  const output = result.outputFiles?.find((file) => !file.path.endsWith(".map"));
  const map = result.outputFiles?.find((file) => file.path.endsWith(".map"));
  const kept = new Set(
    Object.values(result.metafile?.outputs ?? {}).flatMap((one) =>
      one.imports.filter((used) => used.external).map((used) => used.path),
    ),
  );
  const uses = builtins
    .filter((use) => kept.has(use.module))
    .map((use) => ({ module: use.module, ...placeOfImport(loaded.get(use.importer), use.module) }));
  if (request.side === "workflow" && uses.length > 0) {
    throw buildRefused(
      uses.map((use) => ({ ...use, column: 1, message: builtinHint(use.module) })),
    );
  }
  return {
    code: output?.text ?? "",
    map: map?.text ?? "",
    files: [...loaded.values()],
    builtins: uses.map(({ module, file, line }) => ({ module, file, line })),
  };
}

function optionsOf(side: BundleSide): BuildOptions {
  return {
    bundle: true,
    write: false,
    metafile: true,
    sourcemap: "external",
    sourcesContent: true,
    target: "es2022",
    keepNames: true,
    legalComments: "none",
    logLevel: "silent",
    logLimit: 0,
    charset: "utf8",
    define: { "process.env.NODE_ENV": '"production"' },
    ...(side === "workflow"
      ? {
          format: "iife",
          platform: "neutral",
          conditions: ["workflow"],
          mainFields: ["module", "main"],
        }
      : {
          // A script, which heaps can evaluate; what it takes of Node it takes by `require`.
          format: "iife",
          platform: "node",
          conditions: ["node"],
          mainFields: ["module", "main"],
          supported: { "dynamic-import": false },
        }),
  };
}

function builtinHint(module: string): string {
  return `workflow code cannot use Node's ${module}: move what needs it into a "use step" function`;
}

function plugin(
  request: SideRequest,
  loaded: Map<string, KnownFile>,
  builtins: FoundBuiltin[],
): Plugin {
  return {
    name: "baton",
    setup(build) {
      build.onResolve({ filter: /.*/ }, async (args) => {
        if (args.kind === "entry-point") return { path: "entry", namespace: NAMESPACE.entry };
        if (args.pluginData === RESOLVING) return undefined;
        if (request.shims[args.path] !== undefined) {
          return { path: args.path, namespace: NAMESPACE.shim, sideEffects: false };
        }
        if (isBuiltin(args.path)) {
          const module = args.path.startsWith("node:") ? args.path : `node:${args.path}`;
          const importer = realPathOf(args.importer, args.pluginData);
          builtins.push({ module, importer });
          return { path: module, external: true, sideEffects: false };
        }
        const found = await build.resolve(args.path, {
          kind: args.kind,
          importer: args.importer,
          resolveDir: args.resolveDir,
          pluginData: RESOLVING,
        });
        if (found.errors.length > 0) return { errors: found.errors };
        if (found.external || found.namespace !== "file") return found;
        const file = await request.sources.file(found.path);
        const isEntry = args.namespace === NAMESPACE.entry;
        // Left to esbuild, which then also applies the project's tsconfig.
        if (file.isProject && (found.sideEffects || !isEntry)) return undefined;
        return {
          path: file.isProject ? file.path : file.name,
          namespace: file.isProject ? "file" : NAMESPACE.package,
          // An entry is wanted for what it registers, whatever its package says of side effects.
          sideEffects: isEntry || found.sideEffects,
          pluginData: file,
        };
      });
      build.onLoad({ filter: /.*/, namespace: NAMESPACE.entry }, () => ({
        contents: request.entries.map((path) => `import ${JSON.stringify(path)};`).join("\n"),
        resolveDir: request.sources.root,
      }));
      build.onLoad({ filter: /.*/, namespace: NAMESPACE.shim }, (args) => ({
        contents: request.shims[args.path] ?? "",
        loader: "js",
      }));
      const load = async (args: { path: string; pluginData?: unknown }) => {
        const known = args.pluginData as KnownFile | undefined;
        const file = known ?? (await request.sources.file(args.path));
        loaded.set(file.path, file);
        return contentsOf(file, request.side);
      };
      build.onLoad({ filter: /.*/, namespace: "file" }, load);
      build.onLoad({ filter: /.*/, namespace: NAMESPACE.package }, load);
    },
  };
}

/** Marks our own resolve call, so that the hook does not answer itself. */
const RESOLVING = Symbol("resolving");

function realPathOf(importer: string, pluginData: unknown): string {
  return (pluginData as KnownFile | undefined)?.path ?? importer;
}

function contentsOf(file: KnownFile, side: BundleSide) {
  const resolveDir = dirname(file.path);
  if (file.transformed === null) {
    const loader = LOADERS[extname(file.path)];
    return loader === undefined
      ? { errors: [{ text: `a bundle cannot hold a file of this kind: ${file.name}` }] }
      : { contents: file.source, loader, resolveDir, pluginData: file };
  }
  const { code, map } = file.transformed[side];
  const inline = Buffer.from(map, "utf8").toString("base64");
  return {
    contents: `${code}\n//# sourceMappingURL=data:application/json;base64,${inline}`,
    loader: "jsx" as const,
    resolveDir,
    pluginData: file,
  };
}

/** The line of a file that imports a module. */
function placeOfImport(
  file: KnownFile | undefined,
  module: string,
): { file: string; line: number } {
  if (file === undefined) return { file: "", line: 1 };
  const bare = module.slice("node:".length);
  const quoted = new RegExp(`["'](?:node:)?${bare.replaceAll("/", "\\/")}["']`);
  const index = file.source.split("\n").findIndex((line) => quoted.test(line));
  return { file: file.name, line: Math.max(0, index) + 1 };
}

function refusalOf(
  error: unknown,
  request: SideRequest,
  loaded: ReadonlyMap<string, KnownFile>,
): unknown {
  const messages = (error as { errors?: Message[] }).errors;
  if (messages === undefined) return error;
  const nested = messages.map((message): unknown => message.detail);
  const problems = nested.flatMap((detail): readonly Problem[] =>
    isBatonError(detail, "BUNDLE_REFUSED")
      ? ((detail.details["problems"] as readonly Problem[] | undefined) ?? [])
      : [],
  );
  const own = messages.filter((message) => !isBatonError(message.detail, "BUNDLE_REFUSED"));
  const byName = new Map(
    [...loaded.values()].map((file) => [file.isProject ? file.name : `package:${file.name}`, file]),
  );
  const mapOf = (name: string) => byName.get(name)?.transformed?.[request.side].map;
  const unplaced = nested.find(
    (detail) => isBatonError(detail, "BUNDLE_REFUSED") && detail.details["problems"] === undefined,
  );
  if (unplaced !== undefined && own.length === 0 && problems.length === 0) return unplaced;
  return buildRefused(unique([...problems, ...problemsOfEsbuild(own, mapOf)]));
}

function unique(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((one) => [JSON.stringify(one), one])).values()];
}
