/**
 * The envelope: how bytes of a tenant look at rest.
 *
 *     "encr"  form(1)  key version(4)  nonce(12)  ciphertext  tag(16)
 *
 * Owns sealing and opening with one subkey. What a value is bound to is authenticated with it, so a
 * value that is moved, even between two fields of one entity, does not open.
 *
 * T13  Nothing is inflated before it is authenticated, nor beyond the bound of its kind.
 * T14  A nonce is 96 random bits; a subkey serves one run and purpose, so that none meets another.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { compress } from "zstd-napi";
import type * as zstdBinding from "zstd-napi/binding.js";
import { BatonError } from "../engine/errors.ts";
import { tuple } from "./tuple.ts";

// The package's own `decompress` allocates what a frame claims; the binding fills what we allow.
const { DCtx } = createRequire(import.meta.url)("zstd-napi/binding") as typeof zstdBinding;

const PREFIX = Buffer.from("encr", "latin1");
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_VERSION_AT = PREFIX.length + 1;
const NONCE_AT = KEY_VERSION_AT + 4;
const BODY_AT = NONCE_AT + NONCE_BYTES;

/** Below this, compression saves less than it costs. */
const COMPRESSED_FROM_BYTES = 1024;
/** A compressed body is kept only if it is at most this part of the plain one. */
const COMPRESSED_SHARE_MAX = 0.95;

/** What the ciphertext is: the value itself, or its length (4 bytes) and a zstd frame of it. */
const FORM = { plain: 1, zstd: 2 } as const;

export interface Subkey {
  readonly keyVersion: number;
  /** 32 bytes. */
  readonly bytes: Uint8Array;
}

/** What a value is bound to, from the outermost to the innermost name. */
export type Binding = readonly string[];

/** How far sealed bytes are longer than plain ones, at most. */
export const ENVELOPE_BYTES = BODY_AT + TAG_BYTES;

export function sealEnvelope(key: Subkey, plain: Uint8Array, binding: Binding): Uint8Array {
  const packed = pack(plain);
  const head = Buffer.alloc(BODY_AT);
  PREFIX.copy(head);
  head.writeUInt8(packed.form, PREFIX.length);
  head.writeUInt32BE(key.keyVersion, KEY_VERSION_AT);
  randomBytes(NONCE_BYTES).copy(head, NONCE_AT);
  const cipher = createCipheriv("aes-256-gcm", key.bytes, head.subarray(NONCE_AT));
  cipher.setAAD(authenticated(head, binding));
  return new Uint8Array(
    Buffer.concat([head, cipher.update(packed.body), cipher.final(), cipher.getAuthTag()]),
  );
}

/** The key version that an envelope names, or null if the bytes are no envelope. */
export function keyVersionOf(sealed: Uint8Array): number | null {
  if (sealed.byteLength < ENVELOPE_BYTES) return null;
  const bytes = asBuffer(sealed);
  if (!bytes.subarray(0, PREFIX.length).equals(PREFIX)) return null;
  return bytes.readUInt32BE(KEY_VERSION_AT);
}

/**
 * The plain bytes. Refuses with `PAYLOAD_UNREADABLE`: other key, other place, damage, or more than
 * `plainBytesMax` when inflated.
 */
export function openEnvelope(
  key: Subkey,
  sealed: Uint8Array,
  bounds: { readonly binding: Binding; readonly plainBytesMax: number },
): Uint8Array {
  if (keyVersionOf(sealed) !== key.keyVersion) throw unreadable("a sealed value names its key");
  const bytes = asBuffer(sealed);
  const head = bytes.subarray(0, BODY_AT);
  const decipher = createDecipheriv("aes-256-gcm", key.bytes, head.subarray(NONCE_AT));
  decipher.setAAD(authenticated(head, bounds.binding));
  decipher.setAuthTag(bytes.subarray(bytes.byteLength - TAG_BYTES));
  let body: Buffer;
  try {
    const ciphertext = bytes.subarray(BODY_AT, bytes.byteLength - TAG_BYTES);
    body = Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch (error) {
    throw unreadable("a sealed value opens only unchanged, at its own place", error);
  }
  return unpack(head.readUInt8(PREFIX.length), body, bounds.plainBytesMax);
}

/** The header's form and key version are authenticated with the place; the nonce is by its use. */
function authenticated(head: Buffer, binding: Binding): Buffer {
  return Buffer.concat([head.subarray(0, NONCE_AT), tuple(...binding)]);
}

function pack(plain: Uint8Array): { form: number; body: Uint8Array } {
  if (plain.byteLength < COMPRESSED_FROM_BYTES) return { form: FORM.plain, body: plain };
  const frame = compress(plain);
  if (frame.byteLength + 4 > plain.byteLength * COMPRESSED_SHARE_MAX) {
    return { form: FORM.plain, body: plain };
  }
  const length = Buffer.alloc(4);
  length.writeUInt32BE(plain.byteLength);
  return { form: FORM.zstd, body: Buffer.concat([length, frame]) };
}

function unpack(form: number, body: Buffer, plainBytesMax: number): Uint8Array {
  if (form !== FORM.plain && form !== FORM.zstd)
    throw unreadable("a sealed value has a known form");
  const plainBytes = form === FORM.plain ? body.byteLength : body.readUInt32BE(0);
  if (plainBytes > plainBytesMax) {
    throw new BatonError("PAYLOAD_UNREADABLE", "a stored value is larger than its kind may be", {
      field: "plainBytes",
      used: plainBytes,
      allowed: plainBytesMax,
    });
  }
  // A copy of its own: a view into Node's shared pool would carry its neighbours along.
  if (form === FORM.plain) return new Uint8Array(body);
  const plain = new Uint8Array(plainBytes);
  const written = new DCtx().decompress(plain, body.subarray(4));
  if (written !== plainBytes) throw unreadable("a compressed value has the length that it names");
  return plain;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function unreadable(rule: string, cause?: unknown): BatonError {
  return new BatonError("PAYLOAD_UNREADABLE", rule, { field: "payload" }, cause);
}
