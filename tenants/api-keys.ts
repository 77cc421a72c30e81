/**
 * API keys of tenants: made, told once, recognised, rotated and revoked.
 *
 * Owns the form of a key, `baton_<tenant>_<key id>_<secret>`, and what of it is stored. The tenant
 * stands in it, so that a key is found by one read. Pure but for the random bytes of a new key.
 *
 * T41  Only a hash of a key is stored; 256 random bits are behind it, so nothing slower is needed.
 * T42  A key that is unknown, revoked, expired, malformed or of another tenant is refused with one
 *      and the same answer, after one comparison in constant time.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { BatonError } from "../engine/errors.ts";
import { tenantIdOf, type TenantId } from "../engine/ids.ts";
import type { StoredApiKey, TenantRecord } from "./tenant.ts";
import { tuple } from "./tuple.ts";

const SECRET_BYTES = 32;
const KEY_ID_BYTES = 8;
/** Of one tenant, those that expire soon included. */
export const API_KEYS_MAX = 20;
export const API_KEY_LABEL_CHARS_MAX = 100;

const KEY_FORM = /^baton_([a-z0-9-]{1,63})_([0-9a-f]{16})_([A-Za-z0-9-_]{43})$/;
/** Compared with where no key of the id is stored, so that both ways take as long. */
const NO_HASH = "0".repeat(64);

/** What of a key may be shown again. */
export interface ApiKeyInfo {
  readonly keyId: string;
  readonly label: string;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
}

/** A new key. `key` is shown here and nowhere else. */
export interface IssuedApiKey extends ApiKeyInfo {
  readonly key: string;
}

export interface OfferedKey {
  readonly tenantId: TenantId;
  readonly keyId: string;
  readonly hash: string;
}

export function newApiKey(
  tenantId: TenantId,
  { label, createdAt }: Pick<StoredApiKey, "label" | "createdAt">,
): { readonly issued: IssuedApiKey; readonly stored: StoredApiKey } {
  const keyId = randomBytes(KEY_ID_BYTES).toString("hex");
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  const info = { keyId, label, createdAt, expiresAt: null };
  return {
    issued: { ...info, key: `baton_${tenantId}_${keyId}_${secret}` },
    stored: { ...info, hash: hashOf({ tenantId, keyId, secret }) },
  };
}

export function infoOf({ keyId, label, createdAt, expiresAt }: StoredApiKey): ApiKeyInfo {
  return { keyId, label, createdAt, expiresAt };
}

/** What a caller's text says it is the key of; null if it has not the form of a key. */
export function offeredKey(text: string): OfferedKey | null {
  const [, tenant, keyId, secret] = KEY_FORM.exec(text) ?? [];
  if (tenant === undefined || keyId === undefined || secret === undefined) return null;
  let tenantId: TenantId;
  try {
    tenantId = tenantIdOf(tenant);
  } catch {
    return null;
  }
  return { tenantId, keyId, hash: hashOf({ tenantId, keyId, secret }) };
}

/** Whether the offered key is one of these, now. */
export function isKeyOf(keys: readonly StoredApiKey[], offered: OfferedKey, now: number): boolean {
  const stored = keys.find((key) => key.keyId === offered.keyId);
  const expected = Buffer.from(stored?.hash ?? NO_HASH, "hex");
  const isSame = timingSafeEqual(expected, Buffer.from(offered.hash, "hex"));
  return isSame && stored !== undefined && !isExpired(stored, now);
}

export function isExpired({ expiresAt }: StoredApiKey, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}

/** The record with one more key; those that have expired make room. */
export function withKey(record: TenantRecord, key: StoredApiKey, now: number): TenantRecord {
  const apiKeys = [...record.apiKeys.filter((known) => !isExpired(known, now)), key];
  if (apiKeys.length <= API_KEYS_MAX) return { ...record, apiKeys };
  throw new BatonError("QUOTA_EXCEEDED", "the tenant has as many API keys as it may have", {
    field: "apiKeysMax",
    used: apiKeys.length,
    allowed: API_KEYS_MAX,
  });
}

/** The record without a key, or with it ending at `expiresAt`. */
export function withoutKey(
  record: TenantRecord,
  keyId: string,
  expiresAt: number | null,
): TenantRecord {
  if (!record.apiKeys.some((key) => key.keyId === keyId)) {
    throw new BatonError("INVALID_ARGUMENT", "the tenant has no API key of this id", {
      field: "keyId",
      used: keyId.slice(0, 64),
    });
  }
  const apiKeys = record.apiKeys.flatMap((key) => {
    if (key.keyId !== keyId) return [key];
    return expiresAt === null ? [] : [{ ...key, expiresAt: earlier(key.expiresAt, expiresAt) }];
  });
  return { ...record, apiKeys };
}

function earlier(known: number | null, wanted: number): number {
  return known === null ? wanted : Math.min(known, wanted);
}

function hashOf(of: { tenantId: TenantId; keyId: string; secret: string }): string {
  const bound = tuple("baton-api-key", of.tenantId, of.keyId, of.secret);
  return createHash("sha256").update(bound).digest("hex");
}
