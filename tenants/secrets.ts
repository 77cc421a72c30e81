/**
 * Secrets of a tenant: values that its step code reads as `process.env.NAME`, and nothing else does.
 *
 * Owns their names, their bounds, and their place in the tenant's record, where they stand sealed.
 *
 * T43  A secret's value leaves the seal only for an attempt of a sandboxed step of its own tenant;
 *      no call tells it again.
 */
import { BatonError } from "../engine/errors.ts";
import type { Tenant, TenantRecord } from "./tenant.ts";
import type { TenantVault } from "./vault.ts";

/** Of one tenant. */
export const SECRETS_MAX = 64;
/** Bytes of UTF-8 of one value. */
export const SECRET_BYTES_MAX = 8 * 1024;
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,127}$/;

export function withSecret(
  record: TenantRecord,
  keys: TenantVault,
  { name, value }: { readonly name: string; readonly value: string },
): TenantRecord {
  checkName(name);
  if (/\p{Surrogate}/u.test(value)) {
    throw new BatonError("INVALID_ARGUMENT", "a secret is a text of whole characters", {
      field: "value",
    });
  }
  const bytes = Buffer.from(value, "utf8");
  if (bytes.byteLength === 0 || bytes.byteLength > SECRET_BYTES_MAX) {
    throw new BatonError("INVALID_ARGUMENT", "a secret is empty or too long", {
      field: "secretBytes",
      used: bytes.byteLength,
      allowed: SECRET_BYTES_MAX,
    });
  }
  const sealed = Buffer.from(keys.sealSecret(name, bytes)).toString("base64");
  const secrets = { ...record.secrets, [name]: sealed };
  const used = Object.keys(secrets).length;
  if (used <= SECRETS_MAX) return { ...record, secrets };
  throw new BatonError("QUOTA_EXCEEDED", "the tenant has as many secrets as it may have", {
    field: "secretsMax",
    used,
    allowed: SECRETS_MAX,
  });
}

/** The record without the secret; the same record if it has none of this name. */
export function withoutSecret(record: TenantRecord, name: string): TenantRecord {
  checkName(name);
  const { [name]: _gone, ...secrets } = record.secrets;
  return { ...record, secrets };
}

/** By name, opened: for the heap of one attempt. */
export function openedSecrets(tenant: Tenant, keys: TenantVault): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tenant.secrets).map(([name, sealed]) => [
      name,
      Buffer.from(keys.openSecret(name, Buffer.from(sealed, "base64"))).toString("utf8"),
    ]),
  );
}

function checkName(name: string): void {
  if (NAME.test(name)) return;
  throw new BatonError("INVALID_ARGUMENT", "a secret is named as an environment variable is", {
    field: "name",
    allowed: "a letter, then up to 127 letters, digits and underscores",
  });
}
