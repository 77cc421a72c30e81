/**
 * A built bundle as one file, named by its content's hash: what is kept, compared and uploaded.
 *
 * Owns the file's form. Source maps travel in it for the author's tools; no server needs them.
 */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { BatonError } from "../../engine/errors.ts";
import { bundleHashOf } from "../../engine/ids.ts";
import type { BuiltBundle } from "./build.ts";
import { bundleHash } from "./manifest.ts";

const FORMAT = "baton-bundle-1";

const artifactSchema = z.strictObject({
  format: z.literal(FORMAT),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  workflowCode: z.string(),
  stepCode: z.string(),
  manifest: z.string(),
  guestLibrary: z.string(),
  workflowMap: z.string(),
  stepMap: z.string(),
});

/** The bundle as text; equal bundles have equal texts. */
export function artifactText(bundle: BuiltBundle): string {
  const { hash, workflowCode, stepCode, manifest, guestLibrary, workflowMap, stepMap } = bundle;
  const parts = { workflowCode, stepCode, manifest, guestLibrary, workflowMap, stepMap };
  return JSON.stringify({ format: FORMAT, hash, ...parts });
}

/** Reads what `artifactText` wrote. Refuses with `BUNDLE_REFUSED` what is not that, or not its hash. */
export function artifactIn(text: string): BuiltBundle {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new BatonError("BUNDLE_REFUSED", "the file is no bundle", { field: "file" }, error);
  }
  const parsed = artifactSchema.safeParse(value);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".") ?? "file";
    throw new BatonError("BUNDLE_REFUSED", `the file is no bundle: ${field}`, { field });
  }
  const { format: _format, ...bundle } = parsed.data;
  if (bundleHash(bundle) !== bundle.hash) {
    throw new BatonError("BUNDLE_REFUSED", "the file's content is not what its hash names", {
      field: "hash",
    });
  }
  return { ...bundle, hash: bundleHashOf(bundle.hash) };
}

/** Writes the bundle into a folder, whole or not at all; the path of the file. */
export async function writeArtifact(folder: string, bundle: BuiltBundle): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, `${bundle.hash}.json`);
  await writeFile(`${path}.part`, artifactText(bundle));
  await rename(`${path}.part`, path);
  return path;
}
