/**
 * A tenant's bundles once they are admitted: versions by their hashes, and aliases that name one.
 *
 * Owns what an alias may be called, and what may be deleted. To release is to point an alias at a
 * bundle, to roll back is to point it at another: bundles themselves never change.
 *
 * T32  An alias decides at the start of a run and never again: the run stays on its bundle.
 * T33  A bundle that an alias names or an open run is on is not deleted.
 */
import { BatonError, isBatonError } from "../engine/errors.ts";
import { bundleHashOf, tenantIdOf, type BundleHash, type TenantId } from "../engine/ids.ts";
import type { Bundles, Page, PageParams, StoredBundle } from "../engine/ports/world.ts";
import { admitBundle, type AdmissionParts } from "./admission.ts";
import type { BuiltBundle } from "./bundles/build.ts";
import { withSourcePlaces } from "./bundles/source-places.ts";
import { DEFAULT_TENANT } from "./tenant.ts";

export const LIVE_ALIAS = "live";

/** Nothing that could be taken for a hash or be lost in a command line. */
const ALIAS = /^[a-z][a-z0-9._-]{0,62}$/;
const HASH = /^[0-9a-f]{64}$/;

export interface OfTenant {
  /** The embedded library's own by default. */
  readonly tenantId?: string;
}

export interface Deployed {
  readonly hash: BundleHash;
  readonly workflows: readonly string[];
  /** False: each run evaluates the bundle's workflow code itself, and starts later. */
  readonly sharesImage: boolean;
  /** For its author: what keeps an image from being shared, by file and line. */
  readonly notes: readonly string[];
}

export interface KeptBundle {
  readonly hash: BundleHash;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly aliases: readonly string[];
}

/** Bundles that were read lately. */
export interface BundleCache {
  /** From the cache or the World; null if there is none. */
  storedBundleOf(tenantId: TenantId, hash: string): Promise<StoredBundle | null>;
  forgetBundle(tenantId: TenantId, hash: BundleHash): void;
}

export class Deployments {
  readonly #admission: AdmissionParts;
  readonly #cache: BundleCache;

  constructor(admission: AdmissionParts, cache: BundleCache) {
    this.#admission = admission;
    this.#cache = cache;
  }

  /** Admits and stores a bundle, and points `live` or another alias at it; null points none. */
  async deploy(
    bundle: BuiltBundle,
    { alias = LIVE_ALIAS, ...of }: OfTenant & { readonly alias?: string | null } = {},
  ): Promise<Deployed> {
    const tenantId = tenantOf(of);
    if (alias !== null) checkAlias(alias);
    try {
      const admitted = await admitBundle(this.#admission, tenantId, bundle);
      if (alias !== null) await this.#bundlesOf(tenantId).setAlias(alias, admitted.hash);
      return { ...admitted, notes: admitted.notes.map((note) => withSourcePlaces(note, bundle)) };
    } catch (error) {
      if (!isBatonError(error, "BUNDLE_REFUSED")) throw error;
      const message = withSourcePlaces(error.message, bundle);
      throw new BatonError("BUNDLE_REFUSED", message, error.details, error.cause);
    }
  }

  /** Newest first. */
  async list({ tenantId, ...params }: OfTenant & PageParams = {}): Promise<Page<KeptBundle>> {
    const bundles = this.#bundlesOf(tenantOf(tenantId === undefined ? {} : { tenantId }));
    const [page, aliases] = await Promise.all([bundles.list(params), bundles.listAliases()]);
    const namesOf = (hash: BundleHash) =>
      aliases.filter((one) => one.hash === hash).map((one) => one.alias);
    return { ...page, data: page.data.map((one) => ({ ...one, aliases: namesOf(one.hash) })) };
  }

  aliases(of: OfTenant = {}): ReturnType<Bundles["listAliases"]> {
    return this.#bundlesOf(tenantOf(of)).listAliases();
  }

  /** Starts from now on by this alias are on that bundle; runs that are under way stay on theirs. */
  async setAlias(alias: string, hash: string, of: OfTenant = {}): Promise<void> {
    const tenantId = tenantOf(of);
    checkAlias(alias);
    const bundle = await this.#cache.storedBundleOf(tenantId, hash);
    if (bundle === null) throw notFound("hash", hash);
    await this.#bundlesOf(tenantId).setAlias(alias, bundle.hash);
  }

  /** False if there is none. Refused with `BUNDLE_IN_USE` while anything needs it. */
  async delete(hash: string, of: OfTenant = {}): Promise<boolean> {
    const tenantId = tenantOf(of);
    const bundles = this.#bundlesOf(tenantId);
    const wanted = bundleHashOf(hash);
    const alias = (await bundles.listAliases()).find((one) => one.hash === wanted)?.alias;
    if (alias !== undefined) throw inUse(hash, `the alias ${alias} names it`);
    try {
      const wasThere = await bundles.delete(wanted);
      this.#cache.forgetBundle(tenantId, wanted);
      return wasThere;
    } catch (error) {
      if (!isBatonError(error, "ENTITY_CONFLICT")) throw error;
      throw inUse(hash, "an open run is on it");
    }
  }

  /** What a start names: an alias, or a hash. `BUNDLE_NOT_FOUND`, or that there is no such tenant. */
  async named(tenantId: TenantId, bundle: string): Promise<StoredBundle> {
    const hash = HASH.test(bundle) ? bundle : await this.#hashUnder(tenantId, bundle);
    const stored = hash === null ? null : await this.#cache.storedBundleOf(tenantId, hash);
    if (stored !== null) return stored;
    if ((await this.#admission.registry.get(tenantId)) !== null) throw notFound("bundle", bundle);
    throw new BatonError("TENANT_NOT_FOUND", "there is no such tenant", { field: "tenantId" });
  }

  async #hashUnder(tenantId: TenantId, alias: string): Promise<BundleHash | null> {
    return ALIAS.test(alias) ? this.#bundlesOf(tenantId).getAlias(alias) : null;
  }

  #bundlesOf(tenantId: TenantId): Bundles {
    return this.#admission.world.forTenant(tenantId).bundles;
  }
}

function tenantOf({ tenantId = DEFAULT_TENANT }: OfTenant): TenantId {
  return tenantIdOf(tenantId);
}

function checkAlias(alias: string): void {
  if (ALIAS.test(alias)) return;
  throw new BatonError("INVALID_ARGUMENT", "an alias is a short lower-case name", {
    field: "alias",
    used: alias.slice(0, 80),
    allowed: ALIAS.source,
  });
}

function notFound(field: string, used: string): BatonError {
  return new BatonError("BUNDLE_NOT_FOUND", "the tenant has no such bundle", {
    field,
    used: used.slice(0, 80),
    allowed: "an alias or a hash of a bundle that was deployed",
  });
}

function inUse(hash: string, why: string): BatonError {
  return new BatonError("BUNDLE_IN_USE", `the bundle stays: ${why}`, { field: "hash", used: hash });
}
