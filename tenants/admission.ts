/**
 * Admission of bundles: the yes or no before anything of one is durable.
 *
 * Owns every check of an uploaded bundle. Nothing that its author wrote is believed: sizes are
 * measured, the hash is computed again, and what the manifest lists is compared with what the code
 * registers when it is evaluated in a heap.
 *
 * T30  A bundle is source text of this build's making: two programs, a manifest in its one form, and
 *      a guest library that this build knows. Bytecode, archives and other libraries are refused.
 *      Both programs are evaluated once, apart and with nothing granted.
 * T31  A refused bundle leaves nothing behind.
 */
import { BatonError } from "../engine/errors.ts";
import type { BundleHash, TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { Sandbox, StepInspector } from "../engine/ports/sandbox.ts";
import type { Bundles, World } from "../engine/ports/world.ts";
import {
  bundleHash,
  manifestText,
  parseManifest,
  stepIdsOf,
  workflowIdsOf,
  type HashedParts,
  type Manifest,
} from "./bundles/manifest.ts";
import { heapLimitsOf, type Quotas } from "./quota.ts";
import type { TenantRegistry } from "./registry.ts";

export interface AdmissionParts {
  readonly world: Pick<World, "forTenant">;
  readonly sandbox: Pick<Sandbox, "inspect"> & StepInspector;
  readonly registry: TenantRegistry;
  readonly clock: Clock;
  /** The guest libraries that bundles may be pinned to, as text. */
  readonly guestLibraries: readonly string[];
}

export interface OfferedBundle extends HashedParts {
  /** What its author says its name is. */
  readonly hash: string;
}

export interface AdmittedBundle {
  readonly hash: BundleHash;
  readonly workflows: readonly string[];
  /** False: it reads the clock or randomness at its top level, so each run evaluates it itself. */
  readonly sharesImage: boolean;
  /** For its author: why it shares no image, by file and line. */
  readonly notes: readonly string[];
}

/** Admits and stores a bundle, or refuses it with a typed error. Admitting one twice is no error. */
export async function admitBundle(
  parts: AdmissionParts,
  tenantId: TenantId,
  offered: OfferedBundle,
): Promise<AdmittedBundle> {
  const quotas = await activeQuotas(parts.registry, tenantId);
  checkSize(offered, quotas);
  checkText(offered);
  if (!parts.guestLibraries.includes(offered.guestLibrary)) {
    throw refused(
      "guestLibrary",
      "it was built with a version of Baton that this one does not run",
    );
  }
  const hash = bundleHash(offered);
  if (hash !== offered.hash) throw refused("hash", "it is not what its hash names");
  const manifest = parseManifest(offered.manifest);
  if (manifestText(manifest) !== offered.manifest) {
    throw refused("manifest", "its manifest is not in the form that a build writes");
  }
  const { bundles } = parts.world.forTenant(tenantId);
  if ((await bundles.get(hash)) === null) await checkCount(bundles, quotas);

  const { workflowCode, stepCode, guestLibrary } = offered;
  const report = await inspected(parts.sandbox, { tenantId, hash, offered, manifest, quotas });

  const createdAt = parts.clock.now();
  const { manifest: text } = offered;
  await bundles.put({ hash, workflowCode, stepCode, manifest: text, guestLibrary, createdAt });
  return { hash, ...report };
}

interface Inspected {
  readonly tenantId: TenantId;
  readonly hash: BundleHash;
  readonly offered: OfferedBundle;
  readonly manifest: Manifest;
  readonly quotas: Quotas;
}

/** Evaluates both sides, each in a heap of its kind, and compares what they do with the manifest. */
async function inspected(
  sandbox: AdmissionParts["sandbox"],
  { tenantId, hash, offered, manifest, quotas }: Inspected,
): Promise<Omit<AdmittedBundle, "hash">> {
  const { workflowCode, stepCode, guestLibrary } = offered;
  const code = { tenantId, hash, workflowCode, guestLibrary };
  const workflowSide = await sandbox.inspect(code, heapLimitsOf(quotas));
  if (workflowSide.kind === "refused") throw refused("workflowCode", workflowSide.reason);
  checkListed("workflows", workflowIdsOf(manifest), workflowSide.workflows);
  checkListed("steps", stepIdsOf(manifest), workflowSide.steps);

  const { nodeBuiltins } = manifest;
  const steps = { tenantId, hash, stepCode, nodeBuiltins };
  const stepSide = await sandbox.inspectSteps(steps, heapLimitsOf(quotas));
  if (stepSide.kind === "refused") throw refused("stepCode", stepSide.reason);
  checkListed("steps", stepIdsOf(manifest), stepSide.steps);
  return {
    workflows: workflowSide.workflows,
    sharesImage: workflowSide.sharesImage,
    notes: [
      ...workflowSide.notes.map((note) => `workflow code ${note}`),
      ...stepSide.notes.map((note) => `step code ${note}`),
    ],
  };
}

async function activeQuotas(registry: TenantRegistry, tenantId: TenantId): Promise<Quotas> {
  const tenant = await registry.get(tenantId);
  const about = { field: "tenantId", used: tenantId };
  if (tenant === null) {
    throw new BatonError("TENANT_NOT_FOUND", `there is no tenant ${tenantId}`, about);
  }
  if (tenant.status !== "active") {
    throw new BatonError("TENANT_SUSPENDED", `the tenant ${tenantId} is ${tenant.status}`, about);
  }
  return registry.quotas(tenant);
}

/** The guest library is ours, and not counted. */
function checkSize(offered: OfferedBundle, quotas: Quotas): void {
  const sizes = [offered.workflowCode, offered.stepCode, offered.manifest].map((text) =>
    Buffer.byteLength(text, "utf8"),
  );
  const used = sizes.reduce((sum, size) => sum + size, 0);
  const allowed = quotas.bundleBytesMax;
  if (allowed === null || used <= allowed) return;
  throw new BatonError("BUNDLE_TOO_LARGE", `the bundle has ${used} bytes, ${allowed} may be`, {
    field: "bundleBytesMax",
    used,
    allowed,
  });
}

/** A lone surrogate or a NUL has no place in source, and would not survive storage as it is. */
function checkText(offered: OfferedBundle): void {
  for (const field of ["workflowCode", "stepCode", "manifest"] as const) {
    if (/\p{Surrogate}|\0/u.test(offered[field]))
      throw refused(field, `${field} is no source text`);
  }
}

async function checkCount(bundles: Bundles, quotas: Quotas): Promise<void> {
  const allowed = quotas.bundlesMax;
  if (allowed === null) return;
  let used = 1;
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Bundles["list"]>> = await bundles.list(
      cursor === null ? { limit: 1000 } : { cursor, limit: 1000 },
    );
    used += page.data.length;
    cursor = page.cursor;
  } while (cursor !== null && used <= allowed);
  if (used <= allowed) return;
  throw new BatonError("BUNDLES_KEPT", `the tenant keeps ${used - 1} bundles, ${allowed} may be`, {
    field: "bundlesMax",
    used,
    allowed,
  });
}

function checkListed(
  what: "workflows" | "steps",
  listed: readonly string[],
  registered: readonly string[],
): void {
  const inCode = new Set(registered);
  const inManifest = new Set(listed);
  const missing = listed.find((id) => !inCode.has(id));
  const extra = registered.find((id) => !inManifest.has(id));
  if (missing !== undefined) {
    throw refused(
      `manifest.${what}`,
      `its manifest lists ${missing}, which its code does not have`,
    );
  }
  if (extra !== undefined) {
    throw refused(`manifest.${what}`, `its code has ${extra}, which its manifest does not list`);
  }
}

function refused(field: string, why: string): BatonError {
  return new BatonError("BUNDLE_REFUSED", `the bundle is refused: ${why}`, { field });
}
