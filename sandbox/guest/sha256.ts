/**
 * SHA-256 and HMAC over it, for what a run derives from its seed.
 *
 * Own, and in indexed arithmetic only, because tenant code runs before the seed arrives and may
 * have patched every method of typed arrays: a library that calls them would hand the tenant
 * another stream than the host computes. For `crypto.subtle` a library is used.
 */
import { Bytes, Words, charCodeAt } from "./primordials.ts";

const BLOCK = 64;

/** The first 32 bits of the fractions of the square roots of the first 8 primes. */
const INITIAL: readonly number[] = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];
/** The same of the cube roots of the first 64 primes. */
const ROUND: readonly number[] = [
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
const schedule = new Words(64);

function rotate(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

function compress(state: Uint32Array, block: Uint8Array, at: number): void {
  const w = schedule;
  for (let i = 0; i < 16; i++) {
    const j = at + i * 4;
    w[i] = (block[j]! << 24) | (block[j + 1]! << 16) | (block[j + 2]! << 8) | block[j + 3]!;
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15]!;
    const y = w[i - 2]!;
    const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
    const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
    w[i] = w[i - 16]! + s0 + w[i - 7]! + s1;
  }
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  let f = state[5]!;
  let g = state[6]!;
  let h = state[7]!;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i]! + w[i]!) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = state[0]! + a;
  state[1] = state[1]! + b;
  state[2] = state[2]! + c;
  state[3] = state[3]! + d;
  state[4] = state[4]! + e;
  state[5] = state[5]! + f;
  state[6] = state[6]! + g;
  state[7] = state[7]! + h;
}

/** The digest of `prefix` (one block, or nothing) and then `message`. */
function digestOf(prefix: Uint8Array | null, message: Uint8Array, length: number): Uint8Array {
  const state = new Words(8);
  for (let i = 0; i < 8; i++) state[i] = INITIAL[i]!;
  if (prefix !== null) compress(state, prefix, 0);
  const end = length + 9 + ((BLOCK - ((length + 9) % BLOCK)) % BLOCK);
  const padded = new Bytes(end);
  for (let i = 0; i < length; i++) padded[i] = message[i]!;
  padded[length] = 0x80;
  // Messages here are short: 32 bits hold their length in bits.
  const bits = (length + (prefix === null ? 0 : BLOCK)) * 8;
  for (let i = 0; i < 4; i++) padded[end - 1 - i] = bits >>> (8 * i);
  for (let at = 0; at < end; at += BLOCK) compress(state, padded, at);
  const bytes = new Bytes(32);
  for (let i = 0; i < 32; i++) bytes[i] = state[i >> 2]! >>> (24 - (i & 3) * 8);
  wipe(padded, end);
  wipe(state, 8);
  wipe(schedule, 64);
  return bytes;
}

/** Keys do not stay behind in freed memory, where they would also swell every snapshot. */
function wipe(array: Uint8Array | Uint32Array, length: number): void {
  for (let i = 0; i < length; i++) array[i] = 0;
}

/** HMAC-SHA-256 with a key of 32 bytes. `message` is read as Latin-1 text. */
export function hmac(key: Uint8Array, message: string): Uint8Array {
  const inner = new Bytes(BLOCK);
  const outer = new Bytes(BLOCK);
  for (let i = 0; i < BLOCK; i++) {
    const byte = i < 32 ? key[i]! : 0;
    inner[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  }
  const bytes = new Bytes(message.length);
  for (let i = 0; i < message.length; i++) bytes[i] = charCodeAt(message, i);
  const innerDigest = digestOf(inner, bytes, message.length);
  const digest = digestOf(outer, innerDigest, 32);
  wipe(inner, BLOCK);
  wipe(outer, BLOCK);
  wipe(innerDigest, 32);
  return digest;
}
