/**
 * All randomness of a heap: streams that follow from the seed, each under a key of its own, so that
 * what code draws from one changes nothing of another.
 *
 * `Math.random` is xoshiro128**; `crypto` and tokens are HMAC-SHA-256 in counter mode. Before a
 * heap has its seed a read tells the host (whose bundle then gets no shared image) and gives fixed
 * values.
 */
import {
  Bytes,
  TypeErrorConstructor,
  Words,
  define,
  defineFixed,
  imul,
  numberText,
  typedArrayBuffer,
  typedArrayBytes,
  typedArrayOffset,
  typedArrayTag,
} from "./primordials.ts";
import { seedBytes } from "./entity-ids.ts";
import { hmac } from "./sha256.ts";

/** As in the Web Crypto API. */
const RANDOM_VALUES_BYTES_MAX = 65_536;
const TOKEN_BYTES = 20;

export interface Random {
  /** Starts all streams anew from a seed of 64 hexadecimal digits. */
  seed(seedHex: string): void;
  /** A number in [0, 1). */
  next(): number;
  fillBytes(bytes: Uint8Array): void;
  uuid(): string;
  /** The next token: 160 bits as hexadecimal digits, apart from all other streams. */
  token(): string;
}

/** The generator behind `Math.random`. */
class Xoshiro {
  readonly #state = new Words(4);

  seed(bytes: Uint8Array): void {
    const state = this.#state;
    for (let i = 0; i < 16; i++) state[i >> 2] = (state[i >> 2]! << 8) | bytes[i]!;
  }

  word(): number {
    const state = this.#state;
    const result = imul(rotate(imul(state[1]!, 5), 7), 9) >>> 0;
    const c = state[2]! ^ state[0]!;
    const d = state[3]! ^ state[1]!;
    const t = state[1]! << 9;
    state[1] = state[1]! ^ c;
    state[0] = state[0]! ^ d;
    state[2] = c ^ t;
    state[3] = rotate(d, 11);
    return result;
  }
}

export function createRandom(readTooEarly: () => void): Random {
  const generator = new Xoshiro();
  let seed: Uint8Array | null = null;
  let isGeneratorSeeded = false;
  // Keys are derived when first drawn from: most runs draw from none, and each costs hashes.
  let cryptoKey: Uint8Array | null = null;
  let tokenKey: Uint8Array | null = null;
  let blocks = 0;
  let tokens = 0;

  function fill(bytes: Uint8Array): void {
    const length = typedArrayBytes(bytes);
    if (seed === null) {
      readTooEarly();
      for (let i = 0; i < length; i++) bytes[i] = 0;
      return;
    }
    cryptoKey ??= hmac(seed, "baton crypto");
    for (let at = 0; at < length; blocks++) {
      const block = hmac(cryptoKey, numberText(blocks));
      for (let i = 0; i < 32 && at < length; i++, at++) bytes[at] = block[i]!;
    }
  }

  return {
    seed(seedHex) {
      seed = seedBytes(seedHex);
      isGeneratorSeeded = false;
      cryptoKey = null;
      tokenKey = null;
      blocks = 0;
      tokens = 0;
    },
    next() {
      if (seed === null) {
        readTooEarly();
        return 0.5;
      }
      if (!isGeneratorSeeded) generator.seed(hmac(seed, "baton random"));
      isGeneratorSeeded = true;
      return (
        ((generator.word() >>> 5) * 67_108_864 + (generator.word() >>> 6)) / 9_007_199_254_740_992
      );
    },
    fillBytes: fill,
    uuid() {
      const bytes = new Bytes(16);
      fill(bytes);
      bytes[6] = (bytes[6]! & 0x0f) | 0x40;
      bytes[8] = (bytes[8]! & 0x3f) | 0x80;
      let text = "";
      for (let i = 0; i < 16; i++) {
        if (i === 4 || i === 6 || i === 8 || i === 10) text += "-";
        text += hex(bytes[i]!);
      }
      return text;
    },
    token() {
      if (seed === null) {
        readTooEarly();
        return "";
      }
      tokenKey ??= hmac(seed, "baton tokens");
      const block = hmac(tokenKey, numberText(tokens));
      tokens += 1;
      let text = "";
      for (let i = 0; i < TOKEN_BYTES; i++) text += hex(block[i]!);
      return text;
    },
  };
}

/** Replaces `Math.random` for good and adds `crypto`. */
export function installRandom(scope: object, random: Random): void {
  defineFixed(Math, "random", () => random.next());
  const crypto = {
    getRandomValues(view: ArrayBufferView): ArrayBufferView {
      const tag = typedArrayTag(view);
      if (tag === undefined || tag === "Float32Array" || tag === "Float64Array") {
        throw new TypeErrorConstructor("getRandomValues takes a typed array of integers");
      }
      if (typedArrayBytes(view) > RANDOM_VALUES_BYTES_MAX) {
        throw new TypeErrorConstructor(
          `getRandomValues fills at most ${RANDOM_VALUES_BYTES_MAX} bytes at once`,
        );
      }
      const bytes = new Bytes(
        typedArrayBuffer(view),
        typedArrayOffset(view),
        typedArrayBytes(view),
      );
      random.fillBytes(bytes);
      return view;
    },
    randomUUID: (): string => random.uuid(),
  };
  define(scope, "crypto", crypto, false);
}

function rotate(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by));
}

function hex(byte: number): string {
  return (byte < 16 ? "0" : "") + numberText(byte, 16);
}
