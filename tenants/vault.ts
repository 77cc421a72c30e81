/**
 * The vault: seals and opens what belongs to a tenant, and keys its hook tokens.
 *
 * Owns unwrapped data keys and the subkeys made from them, in memory only. Their number is bounded;
 * all of them can be made again from the wrapped keys.
 *
 * T15  Each run and purpose has a subkey of its own (HKDF-SHA-256 of the tenant's data key), so a
 *      sealed value of one run, tenant or purpose does not open as one of another.
 */
import { createHmac, hkdfSync } from "node:crypto";
import { assert } from "../engine/assert.ts";
import { BatonError } from "../engine/errors.ts";
import type { RunRef, TenantId } from "../engine/ids.ts";
import { keyVersionOf, openEnvelope, sealEnvelope, type Binding, type Subkey } from "./envelope.ts";
import {
  newWrappedKey,
  unwrapDataKey,
  wrapDataKey,
  type DataKey,
  type MasterKeys,
  type WrappedKeys,
} from "./keys.ts";
import { Lru } from "./lru.ts";
import { tuple } from "./tuple.ts";

export type Purpose = "payload" | "stream" | "blob" | "snapshot";

/** The largest plain value of each purpose; what inflates beyond it is refused. */
const PLAIN_BYTES_MAX: Readonly<Record<Purpose, number>> = {
  payload: 64 * 1024 * 1024,
  stream: 64 * 1024 * 1024,
  blob: 64 * 1024 * 1024,
  // A heap may have 128 MiB; beside its image stands the folded log state.
  snapshot: 192 * 1024 * 1024,
};

const SECRET_PLAIN_BYTES_MAX = 64 * 1024;

const DATA_KEYS_MAX = 10_000;
const SUBKEYS_MAX = 50_000;

/** The place of a sealed value. */
export interface Place {
  readonly run: RunRef;
  readonly purpose: Purpose;
  /** Entity and field, and what else the value must match. */
  readonly binding: Binding;
}

/** What a rotation of the master key did. */
export interface RotationReport {
  /** The version that every data key is wrapped with now. */
  readonly current: number;
  readonly rewrapped: number;
  /** Older versions that no data key needs any more: they may be taken out of the key file. */
  readonly removable: readonly number[];
}

export class Vault {
  #masterKeys: MasterKeys;
  readonly #readAgain: () => MasterKeys;
  readonly #wrappedKeys: WrappedKeys;
  readonly #tenants = new Lru<TenantId, Promise<TenantVault>>(DATA_KEYS_MAX);
  readonly #subkeys = new Lru<string, Subkey>(SUBKEYS_MAX);

  /** `readAgain` gives the master keys as they are by now: the operator may have added one. */
  constructor(
    masterKeys: MasterKeys,
    wrappedKeys: WrappedKeys,
    readAgain: () => MasterKeys = () => masterKeys,
  ) {
    this.#masterKeys = masterKeys;
    this.#wrappedKeys = wrappedKeys;
    this.#readAgain = readAgain;
  }

  /** Whether there is a data key of the tenant, whoever can open it. */
  async hasDataKey(tenantId: TenantId): Promise<boolean> {
    return (await this.#wrappedKeys.get(tenantId)) !== null;
  }

  /**
   * Wraps every data key with the newest master key. Values stay as they are. One key after another:
   * where it was cut short, it is called again. `isKept`: the tenant is not being deleted.
   */
  async rotateMasterKey(isKept: (tenantId: TenantId) => Promise<boolean>): Promise<RotationReport> {
    this.#masterKeys = this.#readAgain();
    const { current, byVersion } = this.#masterKeys;
    let rewrapped = 0;
    for (const tenantId of await this.#wrappedKeys.tenantIds()) {
      const wrapped = await this.#wrappedKeys.get(tenantId);
      if (wrapped === null || wrapped.masterVersion === current) continue;
      if (!(await isKept(tenantId))) continue;
      const dataKey = unwrapDataKey(this.#masterKeys, tenantId, wrapped);
      const anew = wrapDataKey(this.#masterKeys, tenantId, dataKey);
      if (await this.#wrappedKeys.replace(tenantId, anew)) rewrapped += 1;
      // Another process may have destroyed the key between our look at it and the replacement.
      if (!(await isKept(tenantId))) await this.destroyDataKey(tenantId);
    }
    const used = new Set<number>();
    for (const tenantId of await this.#wrappedKeys.tenantIds()) {
      const wrapped = await this.#wrappedKeys.get(tenantId);
      if (wrapped !== null) used.add(wrapped.masterVersion);
    }
    const removable = [...byVersion.keys()].filter((v) => v < current && !used.has(v));
    return { current, rewrapped, removable };
  }

  /** Makes the tenant's data key, unless it has one. */
  async createDataKey(tenantId: TenantId): Promise<void> {
    // Whoever was first wins; the key that lost has sealed nothing.
    await this.#wrappedKeys.add(tenantId, newWrappedKey(this.#masterKeys, tenantId));
  }

  /** After it, nothing of the tenant opens any more, in this process or in any copy of the data. */
  async destroyDataKey(tenantId: TenantId): Promise<void> {
    await this.#wrappedKeys.destroy(tenantId);
    this.forget(tenantId);
  }

  /** Drops what this process holds of the tenant's keys; they are unwrapped again when needed. */
  forget(tenantId: TenantId): void {
    this.#tenants.delete(tenantId);
    const prefix = `${tenantId}/`;
    this.#subkeys.deleteWhere((name) => name.startsWith(prefix));
  }

  /** What seals and opens for one tenant, without waiting. Refuses if it has no data key. */
  forTenant(tenantId: TenantId): Promise<TenantVault> {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    const opened = this.#open(tenantId);
    this.#tenants.set(tenantId, opened);
    // A failure may be mended (a key restored): it is not remembered.
    opened.catch(() => this.#tenants.delete(tenantId));
    return opened;
  }

  async #open(tenantId: TenantId): Promise<TenantVault> {
    const wrapped = await this.#wrappedKeys.get(tenantId);
    if (wrapped === null) {
      throw new BatonError("PAYLOAD_UNREADABLE", "the tenant has no data key", {
        field: "dataKey",
        tenantId,
      });
    }
    // Wrapped by another process with a key that was added since this one started.
    if (!this.#masterKeys.byVersion.has(wrapped.masterVersion))
      this.#masterKeys = this.#readAgain();
    const dataKey = unwrapDataKey(this.#masterKeys, tenantId, wrapped);
    return new TenantVault(tenantId, dataKey, this.#subkeys);
  }
}

/** Seals and opens for one tenant. */
export class TenantVault {
  readonly #tenantId: TenantId;
  readonly #dataKey: DataKey;
  readonly #subkeys: Lru<string, Subkey>;
  readonly #tokenKey: Uint8Array;

  constructor(tenantId: TenantId, dataKey: DataKey, subkeys: Lru<string, Subkey>) {
    this.#tenantId = tenantId;
    this.#dataKey = dataKey;
    this.#subkeys = subkeys;
    this.#tokenKey = this.#derive("hook-token", "");
  }

  seal(place: Place, plain: Uint8Array): Uint8Array {
    return sealEnvelope(this.#subkey(place), plain, this.#bound(place));
  }

  /** Refuses with `PAYLOAD_UNREADABLE` whatever was not sealed for exactly this place. */
  open(place: Place, sealed: Uint8Array): Uint8Array {
    if (keyVersionOf(sealed) === null) {
      throw new BatonError("PAYLOAD_UNREADABLE", "what a World holds of a tenant is sealed", {
        field: place.binding.join("."),
      });
    }
    return openEnvelope(this.#subkey(place), sealed, {
      binding: this.#bound(place),
      plainBytesMax: PLAIN_BYTES_MAX[place.purpose],
    });
  }

  /** Seals one of the tenant's own values, which belongs to no run. */
  sealSecret(name: string, plain: Uint8Array): Uint8Array {
    return sealEnvelope(this.#secretKey(), plain, this.#secretBinding(name));
  }

  openSecret(name: string, sealed: Uint8Array): Uint8Array {
    return openEnvelope(this.#secretKey(), sealed, {
      binding: this.#secretBinding(name),
      plainBytesMax: SECRET_PLAIN_BYTES_MAX,
    });
  }

  /** What a hook is looked up by: without the tenant's key nobody can test a guess. */
  tokenHash(token: string): string {
    return createHmac("sha256", this.#tokenKey).update(token, "utf8").digest("hex");
  }

  #bound(place: Place): Binding {
    assert(place.run.tenantId === this.#tenantId, "a tenant's keys serve its own runs alone");
    return [this.#tenantId, place.run.runId, place.purpose, ...place.binding];
  }

  #secretKey(): Subkey {
    return { keyVersion: this.#dataKey.version, bytes: this.#derive("secret", "") };
  }

  #secretBinding(name: string): Binding {
    return [this.#tenantId, "secret", name];
  }

  #subkey(place: Place): Subkey {
    const { runId } = place.run;
    const name = `${this.#tenantId}/${this.#dataKey.version}/${runId}/${place.purpose}`;
    let key = this.#subkeys.get(name);
    if (key === undefined) {
      key = { keyVersion: this.#dataKey.version, bytes: this.#derive(place.purpose, runId) };
      this.#subkeys.set(name, key);
    }
    return key;
  }

  #derive(purpose: string, runId: string): Uint8Array {
    const info = tuple("baton-subkey", this.#tenantId, purpose, runId);
    return new Uint8Array(hkdfSync("sha256", this.#dataKey.bytes, new Uint8Array(), info, 32));
  }
}
