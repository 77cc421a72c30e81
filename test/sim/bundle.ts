/**
 * The simulated workflows as bundles: one for heaps, with the guest library, and one for the
 * oracle's model, with the model's own `workflow` module. Built once per process.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildBundle } from "../../tenants/bundles/build.ts";
import type { BundleHash, TenantId } from "../../engine/ids.ts";
import { bundleHashOf } from "../../engine/ids.ts";
import type { BundleCode } from "../../engine/ports/sandbox.ts";
import { MODEL_SHIMS, ModelBundle } from "./oracle/model.ts";

/** What a worker process of the simulation is handed, so that it need not build. */
export interface SimulatedSources {
  readonly hash: BundleHash;
  readonly workflowCode: string;
  readonly guestLibrary: string;
  readonly modelCode: string;
}

const WORKFLOWS = fileURLToPath(new URL("workflows/", import.meta.url));
const ENTRIES = [
  "sequences.ts",
  "fan-outs.ts",
  "races.ts",
  "hooks.ts",
  "failures.ts",
  "times.ts",
  "programs.ts",
  "outside.ts",
];

export async function buildSources(): Promise<SimulatedSources> {
  const request = { projectRoot: WORKFLOWS, entries: ENTRIES };
  const real = await buildBundle(request);
  const model = await buildBundle({
    ...request,
    shims: MODEL_SHIMS,
    guestLibrary: "none: the model runs in Node",
  });
  const { hash, workflowCode, guestLibrary } = real;
  return { hash, workflowCode, guestLibrary, modelCode: model.workflowCode };
}

export function writeSources(path: string, sources: SimulatedSources): void {
  writeFileSync(path, JSON.stringify(sources));
}

export function readSources(path: string): SimulatedSources {
  const sources = JSON.parse(readFileSync(path, "utf8")) as SimulatedSources;
  return { ...sources, hash: bundleHashOf(sources.hash) };
}

export function modelOf(sources: SimulatedSources): ModelBundle {
  return new ModelBundle(sources.modelCode);
}

export function codeFor(tenantId: TenantId, sources: SimulatedSources): BundleCode {
  const { hash, workflowCode, guestLibrary } = sources;
  return { tenantId, hash, workflowCode, guestLibrary };
}
