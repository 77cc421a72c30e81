/**
 * Ids: branded strings, each parsed once at the border and trusted inside.
 *
 * A tenant id comes from credentials or from the operator, a run id from the host's own random
 * source; neither is ever taken from guest data. Entity ids (`step_`, `wait_`, `hook_`, `attr_`)
 * are drawn by the guest from the run's seed and are checked by shape before the host uses them.
 */
import { BatonError } from "./errors.ts";

declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

export type TenantId = Id<"TenantId">;
export type RunId = Id<"RunId">;
export type BundleHash = Id<"BundleHash">;
export type MessageId = Id<"MessageId">;
/** The id of a step, a wait, a hook or an attribute write within one run. */
export type EntityId = Id<"EntityId">;

/** A run, named completely. Everything the host keeps is keyed by both. */
export interface RunRef {
  readonly tenantId: TenantId;
  readonly runId: RunId;
}

export type EntityKind = "step" | "wait" | "hook" | "attr";

const ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
const TENANT_ID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const RUN_ID = new RegExp(`^wrun_${ULID}$`);
const ENTITY_ID = new RegExp(`^(step|wait|hook|attr)_${ULID}$`);
const MESSAGE_ID = new RegExp(`^msg_${ULID}$`);
const BUNDLE_HASH = /^[0-9a-f]{64}$/;

function parser<T extends string>(field: string, form: RegExp, allowed: string) {
  return (value: unknown): T => {
    if (typeof value === "string" && form.test(value)) return value as T;
    throw new BatonError("INVALID_ARGUMENT", `${field} must be ${allowed}`, {
      field,
      allowed,
      used: shown(value),
    });
  };
}

/** A short, printable form of a value that was refused. */
function shown(value: unknown): string {
  if (typeof value !== "string") return typeof value;
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
}

/** Lower-case letters, digits and inner hyphens, 1 to 63 characters: safe in any key or file name. */
export const tenantIdOf = parser<TenantId>(
  "tenantId",
  TENANT_ID,
  "1 to 63 of a-z, 0-9 and inner hyphens",
);
export const runIdOf = parser<RunId>("runId", RUN_ID, "`wrun_` and a ULID");
export const entityIdOf = parser<EntityId>(
  "correlationId",
  ENTITY_ID,
  "`step_`, `wait_`, `hook_` or `attr_` and a ULID",
);
const STREAM_OF_RUN = new RegExp(`^strm_(${ULID})_`);

/** The run that a stream's name names; null for those whose names name none. */
export function runOfStream(name: string): RunId | null {
  const [, found] = STREAM_OF_RUN.exec(name) ?? [];
  return found === undefined ? null : runIdOf(`wrun_${found}`);
}

export const messageIdOf = parser<MessageId>("messageId", MESSAGE_ID, "`msg_` and a ULID");
export const bundleHashOf = parser<BundleHash>(
  "bundleHash",
  BUNDLE_HASH,
  "64 lower-case hexadecimal digits",
);

export function entityKindOf(id: EntityId): EntityKind {
  return id.slice(0, id.indexOf("_")) as EntityKind;
}

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A ULID from a time (epoch ms, 48 bits) and 10 bytes of randomness. */
export function ulid(timeMs: number, random: Uint8Array): string {
  let text = "";
  let time = timeMs;
  for (let i = 0; i < 10; i++) {
    text = CROCKFORD.charAt(time % 32) + text;
    time = Math.floor(time / 32);
  }
  let bits = 0;
  let held = 0;
  for (let i = 0; i < 10; i++) {
    held = (held << 8) | (random[i] ?? 0);
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += CROCKFORD.charAt((held >>> bits) & 31);
      held &= (1 << bits) - 1;
    }
  }
  return text;
}
