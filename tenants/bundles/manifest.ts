/**
 * The manifest: what a bundle says it holds, and the hash that names the bundle.
 *
 * Owns the manifest's schema (the SDK's shape, plus what Baton adds) and the one form in which it
 * is written, so that equal bundles have equal bytes. A server trusts none of it: admission
 * compares it with what the code registers.
 *
 * T3  The same sources give the same hash on every machine and under every path.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import { BatonError } from "../../engine/errors.ts";
import { bundleHashOf, type BundleHash } from "../../engine/ids.ts";

/** The manifest's own version; a reader refuses any other. */
export const MANIFEST_VERSION = "1.0.0";

const text = z.string().min(1).max(1024);
/** File → name within the file → its id. */
const entries = <T extends z.ZodType>(entry: T) => z.record(text, z.record(text, entry));

export const manifestSchema = z.strictObject({
  version: z.literal(MANIFEST_VERSION),
  workflows: entries(z.strictObject({ workflowId: text })),
  steps: entries(z.strictObject({ stepId: text })),
  classes: entries(z.strictObject({ classId: text })),
  /** Where step code imports Node's built-in modules: only host code can be given those. */
  nodeBuiltins: z
    .array(z.strictObject({ module: text, file: text, line: z.number().int().min(1) }))
    .max(10_000),
  /** Every source file that went in, sorted. */
  sources: z.array(text).max(100_000),
});

export type Manifest = z.infer<typeof manifestSchema>;

/** The manifest as text: keys sorted, no spaces. */
export function manifestText(manifest: Manifest): string {
  return JSON.stringify(sorted(manifest));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const keys = Object.keys(value).sort();
  return Object.fromEntries(keys.map((key) => [key, sorted((value as never)[key])]));
}

/** Parses a manifest that came from outside. Refuses with `BUNDLE_REFUSED`. */
export function parseManifest(json: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new BatonError("BUNDLE_REFUSED", "the manifest is no JSON", { field: "manifest" }, error);
  }
  const parsed = manifestSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const field = ["manifest", ...(issue?.path ?? [])].join(".");
  throw new BatonError("BUNDLE_REFUSED", `${field}: ${issue?.message ?? "wrong"}`, { field });
}

export const workflowIdsOf = (manifest: Manifest): string[] =>
  Object.values(manifest.workflows).flatMap((file) =>
    Object.values(file).map((entry) => entry.workflowId),
  );

export const stepIdsOf = (manifest: Manifest): string[] =>
  Object.values(manifest.steps).flatMap((file) => Object.values(file).map((entry) => entry.stepId));

/** The parts that a bundle's name is computed from. */
export interface HashedParts {
  readonly workflowCode: string;
  readonly stepCode: string;
  /** As `manifestText` writes it. */
  readonly manifest: string;
  /** The guest library that the bundle is pinned to. */
  readonly guestLibrary: string;
}

/** SHA-256 over the digests of all parts: none can move its end into its neighbour. */
export function bundleHash(parts: HashedParts): BundleHash {
  const hash = createHash("sha256").update("baton-bundle-1\n");
  for (const part of [parts.workflowCode, parts.stepCode, parts.manifest, parts.guestLibrary]) {
    hash.update(createHash("sha256").update(part, "utf8").digest());
  }
  return bundleHashOf(hash.digest("hex"));
}
