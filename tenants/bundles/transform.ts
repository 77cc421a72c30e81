/**
 * One file of the tenant through the Workflow SDK's transformer, for one side.
 *
 * Owns the use of the swc plugin, the reading of the manifest comment that it leaves, and the check
 * that both sides of a file agree.
 *
 * T4  A step that the workflow side calls is registered by the step side; a file in which the
 *     transformer breaks this is refused rather than failing at run time.
 */
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { transform, type Options } from "@swc/core";
import { z } from "zod";
import { isBatonError } from "../../engine/errors.ts";
import { liftNestedSteps, type BundleSide } from "./lift.ts";
import { buildRefused, problemsOfSwc, type Place, type Problem } from "./problems.ts";
import {
  isNode,
  parseFile,
  parserOptionsOf,
  printFile,
  type Node,
  type ParsedFile,
} from "./syntax.ts";

/** A file that may hold directives or serializable classes. Anything else stays as it is. */
export function concernsTransformer(source: string): boolean {
  return /["']use (?:step|workflow)["']|workflow-(?:de)?serialize|@workflow\/serde/.test(source);
}

export interface SourceFile {
  /** Relative to the project's root, with forward slashes; or `name@version/…` of a package. */
  readonly file: string;
  readonly source: string;
  /** `name@version` for a file of a package: the middle part of its ids. */
  readonly packageSpecifier: string | null;
}

const found = <T extends z.ZodType>(entry: T) =>
  z.record(z.string(), z.record(z.string(), entry)).optional();
const commentSchema = z.object({
  workflows: found(z.object({ workflowId: z.string() })),
  steps: found(z.object({ stepId: z.string() })),
  classes: found(z.object({ classId: z.string() })),
});

/** What a file holds: names within the file → ids. */
export interface FileEntries {
  readonly workflows: ReadonlyMap<string, string>;
  readonly steps: ReadonlyMap<string, string>;
  readonly classes: ReadonlyMap<string, string>;
}

export interface TransformedFile {
  readonly code: string;
  /** Source map as JSON, from `code` to the source. */
  readonly map: string;
  readonly entries: FileEntries;
}

/** Transforms a file for both sides. Throws `BUNDLE_REFUSED` with every problem of the file. */
export async function transformFile(
  input: SourceFile,
): Promise<{ readonly [side in BundleSide]: TransformedFile }> {
  try {
    const workflow = await transformSide(input, "workflow");
    const step = await transformSide(input, "step");
    const registered = registeredSteps(step.code);
    const problems = disagreements(input, { workflow, step, registered });
    if (problems.length > 0) throw buildRefused(problems);
    // The transformer forgets some forms in its list; what is registered counts.
    const known = new Set(step.entries.steps.values());
    const steps = new Map(step.entries.steps);
    for (const id of registered) if (!known.has(id)) steps.set(nameInFile(id), id);
    return { workflow, step: { ...step, entries: { ...step.entries, steps } } };
  } catch (error) {
    if (isBatonError(error, "BUNDLE_REFUSED")) throw error;
    throw buildRefused(problemsOfSwc(error, input.file));
  }
}

async function transformSide(input: SourceFile, side: BundleSide): Promise<TransformedFile> {
  const source = input.source.replace(/^#!/, "//");
  const parsed: ParsedFile = await parseFile(input.file, source);
  const lifted = liftNestedSteps(parsed, idBaseOf(input), side);
  if (lifted.problems.length > 0) throw buildRefused(lifted.problems);
  const plain = lifted.steps.size === 0 ? null : await printFile(parsed, source);
  const output = await transform(plain?.code ?? source, swcOptions(input, side, plain?.map));
  const bare = output.code.replace(MANIFEST_COMMENT, "");
  const code = keptImports(input, { parsed, side }, bare) + bare;
  const comment = commentSchema.parse(JSON.parse(MANIFEST_COMMENT.exec(output.code)?.[1] ?? "{}"));
  const steps = idsOf(comment.steps, (entry) => entry.stepId);
  for (const [name, id] of lifted.steps) steps.set(name, id);
  return {
    code,
    map: namedMap(output.map, input),
    entries: {
      workflows: idsOf(comment.workflows, (entry) => entry.workflowId),
      steps,
      classes: idsOf(comment.classes, (entry) => entry.classId),
    },
  };
}

interface Side {
  readonly parsed: ParsedFile;
  readonly side: BundleSide;
}

/**
 * The transformer drops imports whose names it sees no use of. Two kinds are used all the same, and
 * come back here, on the first line so that no other line moves: those that bind no name (in step
 * code; workflow code does without, as in the SDK), and what JSX that is left compiles to calls of.
 */
function keptImports(input: SourceFile, { parsed, side }: Side, code: string): string {
  const hasJsx = /<[A-Za-z>]/.test(code);
  return parsed.module.body
    .filter((node) => node.type === "ImportDeclaration" && node["typeOnly"] !== true)
    .map((node) => {
      const from = JSON.stringify((node["source"] as { value: string }).value);
      const specifiers = node["specifiers"] as Node[];
      if (specifiers.length === 0) return side === "step" ? `import ${from};` : "";
      const lost = hasJsx ? specifiers.filter((one) => isLostFactory(one, input, code)) : [];
      return lost.map((one) => `import ${importText(one)} from ${from};`).join("");
    })
    .join("");
}

/** The names by which JSX is called, where no automatic runtime is set. */
const JSX_FACTORIES = new Set(["React", "h", "Fragment", "createElement"]);

function isLostFactory(specifier: Node, { source }: SourceFile, code: string): boolean {
  const name = localName(specifier);
  const pragmas = [...source.matchAll(/@jsx(?:Frag)?\s+(\w+)/g)].map((match) => match[1]);
  if (!JSX_FACTORIES.has(name) && !pragmas.includes(name)) return false;
  // Only what stands before the quoted module: its name may hold the word too.
  return !new RegExp(`^import\\b[^"';]*\\b${name}\\b`, "m").test(code);
}

function localName(specifier: Node): string {
  return String((specifier["local"] as Node)["value"]);
}

function importText(specifier: Node): string {
  const name = localName(specifier);
  if (specifier.type === "ImportDefaultSpecifier") return name;
  if (specifier.type === "ImportNamespaceSpecifier") return `* as ${name}`;
  const imported = specifier["imported"];
  return isNode(imported) ? `{ ${String(imported["value"])} as ${name} }` : `{ ${name} }`;
}

const MANIFEST_COMMENT = /\/\*\*__internal_workflows(\{.*?\})\*\/;?/;

function idBaseOf(input: SourceFile): string {
  return input.packageSpecifier ?? `./${input.file.replace(/\.[mc]?[jt]sx?$/, "")}`;
}

function swcOptions(input: SourceFile, side: BundleSide, inputMap: string | undefined): Options {
  const specifier = input.packageSpecifier;
  const plugin = { mode: side, ...(specifier === null ? {} : { moduleSpecifier: specifier }) };
  return {
    filename: input.file,
    swcrc: false,
    configFile: false,
    sourceMaps: true,
    ...(inputMap === undefined ? {} : { inputSourceMap: inputMap }),
    jsc: {
      parser: parserOptionsOf(input.file),
      target: "es2022",
      transform: { react: { runtime: "preserve" } },
      experimental: {
        plugins: [[PLUGIN, plugin]],
        // Where swc keeps the plugin as machine code between builds.
        cacheRoot: join(tmpdir(), "baton-swc-cache"),
      },
    },
  };
}

const PLUGIN = createRequire(import.meta.url).resolve("@workflow/swc-plugin");

/** The map with this file as its one source, under the name that esbuild expects. */
function namedMap(map: string | undefined, input: SourceFile): string {
  const name = input.file.slice(input.file.lastIndexOf("/") + 1);
  const parsed = JSON.parse(map ?? "{}") as Record<string, unknown>;
  return JSON.stringify({ ...parsed, sources: [name], sourcesContent: [input.source] });
}

function idsOf<T>(
  files: Record<string, Record<string, T>> | undefined,
  idOf: (entry: T) => string,
): Map<string, string> {
  const ids = new Map<string, string>();
  for (const file of Object.values(files ?? {})) {
    for (const [name, entry] of Object.entries(file)) ids.set(name, idOf(entry));
  }
  return ids;
}

function registeredSteps(stepCode: string): Set<string> {
  return new Set([
    ...matches(stepCode, /\}\)\(.+?, "(step\/\/[^"]+)"\);/g),
    ...matches(stepCode, /\.set\("(step\/\/[^"]+)"/g),
  ]);
}

interface BothSides {
  readonly workflow: TransformedFile;
  readonly step: TransformedFile;
  readonly registered: ReadonlySet<string>;
}

/** Step ids that one side uses and the other does not have, and ids used for two steps. */
function disagreements(input: SourceFile, sides: BothSides): Problem[] {
  const { workflow, step, registered } = sides;
  const called = matches(workflow.code, /WORKFLOW_USE_STEP"\)\]\("([^"]+)"/g);
  const named = [...workflow.entries.steps.values(), ...step.entries.steps.values()];
  const lost = [...called, ...named].filter((id) => !registered.has(id));
  const doubled = called.filter((id, index) => called.indexOf(id) !== index);
  return [...new Set([...lost, ...doubled])].map((id) => ({
    ...placeOfStep(input, id),
    message:
      `the step ${nameInFile(id)} is written in a form that cannot be built; ` +
      "make it a named async function at the top level of the file",
  }));
}

const nameInFile = (id: string): string => id.slice(id.lastIndexOf("//") + 2);

function matches(code: string, pattern: RegExp): string[] {
  return [...code.matchAll(pattern)].map((match) => match[1] ?? "");
}

/** The first line that holds the step's own name; line 1 where there is none. */
function placeOfStep(input: SourceFile, id: string): Place {
  const name = id.split(/[/.#]/).at(-1) ?? id;
  const lines = input.source.split("\n");
  const index = Math.max(
    0,
    lines.findIndex((line) => line.includes(name)),
  );
  const column = Math.max(0, lines[index]?.indexOf(name) ?? 0) + 1;
  return { file: input.file, line: index + 1, column };
}
