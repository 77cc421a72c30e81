/**
 * The compiler side of bundles: a tenant's project in, one bundle out.
 *
 * Runs on the tenant's machine (it executes native code on, and reads files by the imports of, the
 * source) and is no trust boundary: a server never compiles source and trusts nothing that is
 * written here. Owns which files belong to which side:
 *
 * T5  Every file with a directive or a serializable class that either side reaches is in the step
 *     bundle, and every one with workflows or such classes in the workflow bundle, so that what one
 *     side names the other can revive.
 */
import type { BundleHash } from "../../engine/ids.ts";
import { BatonError } from "../../engine/errors.ts";
import {
  MANIFEST_VERSION,
  bundleHash,
  manifestText,
  stepIdsOf,
  workflowIdsOf,
  type Manifest,
} from "./manifest.ts";
import { buildSide, type Shims, type SideResult } from "./side-build.ts";
import { builtShims, guestLibraryText } from "./shims.ts";
import { Sources, type KnownFile } from "./sources.ts";

export { artifactIn, artifactText, writeArtifact } from "./artifact.ts";
export { withSourcePlaces } from "./source-places.ts";
export { watchBundle } from "./watch.ts";
export type { BundleWatch, WatchRequest } from "./watch.ts";

/** Which sources become a bundle. */
export interface BuildRequest {
  readonly projectRoot: string;
  /** Files or folders below the root that hold the workflows. */
  readonly entries: readonly string[];
  /** What the SDK's module names mean; the guest library's modules, unless a test says so. */
  readonly shims?: Shims;
  /** The guest library that the bundle is pinned to; this build's, unless a test says so. */
  readonly guestLibrary?: string;
}

/** Both sides of a tenant's code, ready to deploy. */
export interface BuiltBundle {
  readonly hash: BundleHash;
  readonly workflowCode: string;
  readonly stepCode: string;
  /** The manifest's one text form; it is part of the hash. */
  readonly manifest: string;
  readonly guestLibrary: string;
  /** For stack traces; not part of the bundle or its hash. */
  readonly workflowMap: string;
  readonly stepMap: string;
}

/** Builds a bundle. Refuses with `BUNDLE_REFUSED`, naming file, line and column of each problem. */
export async function buildBundle(request: BuildRequest): Promise<BuiltBundle> {
  const sources = await Sources.at(request.projectRoot);
  const entries = (await Promise.all(request.entries.map((one) => sources.entryFiles(one)))).flat();
  const sides = await buildBothSides(sources, entries, request.shims ?? builtShims());
  const manifest = manifestOf(sides);
  if (workflowIdsOf(manifest).length === 0) {
    throw new BatonError(
      "BUNDLE_REFUSED",
      `no function with "use workflow" was found in ${request.entries.join(", ") || "no entry"}`,
      { field: "entries" },
    );
  }
  const parts = {
    workflowCode: sides.workflow.code + declarationOf(manifest),
    stepCode: sides.step.code,
    manifest: manifestText(manifest),
    guestLibrary: request.guestLibrary ?? guestLibraryText(),
  };
  return {
    hash: bundleHash(parts),
    ...parts,
    workflowMap: sides.workflow.map,
    stepMap: sides.step.map,
  };
}

/** Tells the guest library all steps, also those that code names only while it runs. */
function declarationOf(manifest: Manifest): string {
  const ids = JSON.stringify(stepIdsOf(manifest).sort());
  return `globalThis[Symbol.for("baton.guest")].declareSteps(${ids});\n`;
}

interface Sides {
  readonly workflow: SideResult;
  readonly step: SideResult;
}

/** Builds until neither side reaches a file that the other one needs. */
async function buildBothSides(
  sources: Sources,
  entries: readonly string[],
  shims: Shims,
): Promise<Sides> {
  let workflowEntries = new Set(entries);
  let stepEntries = new Set(entries);
  for (;;) {
    const [workflow, step] = await Promise.all([
      buildSide({ side: "workflow", sources, entries: ordered(workflowEntries), shims }),
      buildSide({ side: "step", sources, entries: ordered(stepEntries), shims }),
    ]);
    const known = [...sources.known.values()];
    const nextWorkflow = new Set([...workflowEntries, ...pathsOf(known, isNeededByWorkflows)]);
    const nextStep = new Set([...stepEntries, ...pathsOf(known, isNeededBySteps)]);
    // The sets only grow, and the files that exist bound them.
    const isStable =
      nextWorkflow.size === workflowEntries.size && nextStep.size === stepEntries.size;
    if (isStable) return { workflow, step };
    workflowEntries = nextWorkflow;
    stepEntries = nextStep;
  }
}

const ordered = (paths: ReadonlySet<string>): string[] => [...paths].sort();

function pathsOf(files: readonly KnownFile[], isNeeded: (file: KnownFile) => boolean): string[] {
  return files.filter(isNeeded).map((file) => file.path);
}

function isNeededByWorkflows(file: KnownFile): boolean {
  const entries = file.transformed?.workflow.entries;
  return entries !== undefined && entries.workflows.size + entries.classes.size > 0;
}

function isNeededBySteps(file: KnownFile): boolean {
  const entries = file.transformed?.step.entries;
  return isNeededByWorkflows(file) || (entries !== undefined && entries.steps.size > 0);
}

function manifestOf(sides: Sides): Manifest {
  const workflows: Manifest["workflows"] = {};
  const steps: Manifest["steps"] = {};
  const classes: Manifest["classes"] = {};
  const used = new Set([...sides.workflow.files, ...sides.step.files]);
  for (const file of used) {
    if (file.transformed === null) continue;
    const { workflow, step } = file.transformed;
    put(workflows, file, workflow.entries.workflows, (workflowId) => ({ workflowId }));
    put(steps, file, step.entries.steps, (stepId) => ({ stepId }));
    put(classes, file, workflow.entries.classes, (classId) => ({ classId }));
  }
  return {
    version: MANIFEST_VERSION,
    workflows,
    steps,
    classes,
    nodeBuiltins: [...sides.step.builtins].sort((a, b) => compare(keyOf(a), keyOf(b))),
    sources: [...used].map((file) => file.name).sort(),
  };
}

function put<T>(
  into: Record<string, Record<string, T>>,
  file: KnownFile,
  ids: ReadonlyMap<string, string>,
  entryOf: (id: string) => T,
): void {
  if (ids.size === 0) return;
  into[file.name] = Object.fromEntries([...ids].map(([name, id]) => [name, entryOf(id)]));
}

const keyOf = (use: { file: string; line: number; module: string }): string =>
  `${use.file}\0${String(use.line).padStart(8, "0")}\0${use.module}`;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
