/**
 * Entity ids: a pure function of a run's seed, its creation time, and an ordinal.
 *
 * Shared by the guest, which draws them, and the host, which computes each one again and refuses
 * any other (P1). Ids are not secrets, so they come from a key of their own, derived from the seed
 * by HMAC, through a cheap mix: nothing of the seed or of its other uses can be read from them.
 *
 * The first 32 random bits are a bijection of the ordinal. So ids of one run never collide, and
 * `ordinalOf` can say of any id whether it was drawn, without a memory of those that were.
 */
import type { EntityId, EntityKind } from "../../engine/ids.ts";
import { Bytes, Words, imul, indexOf, numberText, stringSlice } from "./primordials.ts";
import { hmac } from "./sha256.ts";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
export const SEED_BYTES = 32;
const TIME_CHARS = 10;
const ULID_CHARS = 26;

/** The ids of one run. */
export interface IdSource {
  /** The id of the `ordinal`th draw of the run, counted from 0 over all kinds. */
  idOf(kind: EntityKind, ordinal: number): string;
  /** The draw that `id` came from if it is below `drawn`, or -1. */
  ordinalOf(id: string, drawn: number): number;
  /** A ULID of the same time part for something that is no entity: `ordinal` in `space`. */
  ulidOf(space: number, ordinal: number): string;
}

/** Mixes all bits of a word into all others; a bijection. */
function mix(word: number): number {
  let x = word;
  x = imul(x ^ (x >>> 16), 0x85ebca6b);
  x = imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** The inverse of `mix`. */
function unmix(word: number): number {
  let x = word ^ (word >>> 16);
  x = imul(x, 0x7ed1b41d);
  x ^= (x >>> 13) ^ (x >>> 26);
  x = imul(x, 0xa5cb9243);
  return (x ^ (x >>> 16)) >>> 0;
}

export function seedBytes(seedHex: string): Uint8Array {
  const bytes = new Bytes(SEED_BYTES);
  for (let i = 0; i < SEED_BYTES; i++) {
    bytes[i] = nibble(seedHex, 2 * i) * 16 + nibble(seedHex, 2 * i + 1);
  }
  return bytes;
}

function nibble(text: string, at: number): number {
  return indexOf("0123456789abcdef", stringSlice(text, at, at + 1));
}

/**
 * The ids of the run with this seed (64 lower-case hexadecimal digits) and creation time (epoch
 * ms). Deriving the key costs hashes, so it waits for the first use, and the source is kept for as
 * long as the run is at hand.
 */
export function idSource(seedHex: string, createdAt: number): IdSource {
  const words = new Words(4);
  let isKeyDerived = false;
  const time = timeText(createdAt);

  function derivedKey(): Uint32Array {
    if (isKeyDerived) return words;
    isKeyDerived = true;
    const bytes = hmac(seedBytes(seedHex), "baton ids");
    for (let i = 0; i < 16; i++) words[i >> 2] = (words[i >> 2]! << 8) | bytes[i]!;
    return words;
  }

  function ulidOf(space: number, ordinal: number): string {
    const key = derivedKey();
    const a = mix(mix(ordinal ^ key[0]!) ^ key[1]!);
    const b = mix(mix(a ^ key[2]! ^ imul(space, 0x9e3779b9)) + ordinal);
    const c = mix((b ^ key[3]!) + imul(ordinal, 0x85ebca77)) & 0xffff;
    // 80 bits in groups of five: a holds 32, b 32, c 16.
    return (
      time +
      digit(a >>> 27) +
      digit(a >>> 22) +
      digit(a >>> 17) +
      digit(a >>> 12) +
      digit(a >>> 7) +
      digit(a >>> 2) +
      digit((a << 3) | (b >>> 29)) +
      digit(b >>> 24) +
      digit(b >>> 19) +
      digit(b >>> 14) +
      digit(b >>> 9) +
      digit(b >>> 4) +
      digit((b << 1) | (c >>> 15)) +
      digit(c >>> 10) +
      digit(c >>> 5) +
      digit(c)
    );
  }

  function ordinalOf(id: string, drawn: number): number {
    const at = indexOf(id, "_") + 1;
    if (id.length !== at + ULID_CHARS) return -1;
    let a = 0;
    for (let i = 0; i < 7; i++) {
      const value = indexOf(
        CROCKFORD,
        stringSlice(id, at + TIME_CHARS + i, at + TIME_CHARS + i + 1),
      );
      if (value < 0) return -1;
      a = i < 6 ? (a << 5) | value : (a << 2) | (value >>> 3);
    }
    const key = derivedKey();
    const ordinal = (unmix((unmix(a >>> 0) ^ key[1]!) >>> 0) ^ key[0]!) >>> 0;
    if (ordinal >= drawn) return -1;
    return ulidOf(0, ordinal) === stringSlice(id, at) ? ordinal : -1;
  }

  return {
    idOf: (kind, ordinal) => `${kind}_${ulidOf(0, ordinal)}`,
    ordinalOf,
    ulidOf,
  };
}

/** The ids of one run as the host draws them again; `seed` has 32 bytes, `createdAt` is epoch ms. */
export class EntityIds {
  readonly #source: IdSource;

  constructor(seed: Uint8Array, createdAt: number) {
    this.#source = idSource(hexOf(seed), createdAt);
  }

  /** `ordinal` counts from 0. */
  at(kind: EntityKind, ordinal: number): EntityId {
    return this.#source.idOf(kind, ordinal) as EntityId;
  }
}

function hexOf(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < SEED_BYTES; i++) {
    const byte = bytes[i] ?? 0;
    text += (byte < 16 ? "0" : "") + numberText(byte, 16);
  }
  return text;
}

function digit(bits: number): string {
  return CROCKFORD[bits & 31]!;
}

function timeText(ms: number): string {
  let text = "";
  let rest = ms;
  for (let i = 0; i < TIME_CHARS; i++) {
    text = digit(rest % 32) + text;
    rest = (rest - (rest % 32)) / 32;
  }
  return text;
}
