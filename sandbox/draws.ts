/**
 * What a run draws from its seed, as a pure function of position.
 *
 * Shared by both sides of the border: the guest library draws, the host draws again to check what
 * it is told. So nothing of Node here, and no state that a snapshot would have to carry beside the
 * heap. ChaCha with 8 rounds is the source: ids are seen by clients, and the same seed also gives
 * webhook tokens, so no number of outputs may tell the seed.
 *
 * S1  Two purposes never share a block, so that drawing more of one changes nothing of the other.
 */
import { ulid } from "../engine/ids.ts";
import type { EntityId, EntityKind } from "../engine/ids.ts";

/** What a block is drawn for; part of the cipher's nonce. */
export const DRAW_PURPOSE = { entityIds: 1, random: 2, tokens: 3 } as const;
export type DrawPurpose = (typeof DRAW_PURPOSE)[keyof typeof DRAW_PURPOSE];

export const SEED_BYTES = 32;
/** Bytes of one block. */
export const BLOCK_BYTES = 64;
const ID_BYTES = 10;
const IDS_PER_BLOCK = Math.floor(BLOCK_BYTES / ID_BYTES);

/** "expand 32-byte k": the constants that every ChaCha block starts with. */
const SIGMA = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574] as const;
/** The four columns, then the four diagonals, of one double round. */
const QUARTERS = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;
const DOUBLE_ROUNDS = 4;

/** 64 bytes; the same for the same seed (32 bytes), purpose and index (from 0), anywhere. */
export function drawBlock(seed: Uint8Array, purpose: DrawPurpose, index: number): Uint8Array {
  const start = new Uint32Array(16);
  start.set(SIGMA, 0);
  for (let i = 0; i < 8; i++) start[4 + i] = wordAt(seed, i * 4);
  start[12] = index % 0x1_0000_0000;
  start[13] = Math.floor(index / 0x1_0000_0000);
  start[14] = purpose;
  const words = start.slice();
  for (let round = 0; round < DOUBLE_ROUNDS; round++) {
    for (const [a, b, c, d] of QUARTERS) quarterRound(words, a, b, c, d);
  }
  const block = new Uint8Array(BLOCK_BYTES);
  for (let i = 0; i < 16; i++) {
    const word = ((words[i] as number) + (start[i] as number)) >>> 0;
    for (let k = 0; k < 4; k++) block[i * 4 + k] = word >>> (8 * k);
  }
  return block;
}

function quarterRound(w: Uint32Array, a: number, b: number, c: number, d: number): void {
  let [wa, wb, wc, wd] = [w[a] as number, w[b] as number, w[c] as number, w[d] as number];
  wa = (wa + wb) | 0;
  wd ^= wa;
  wd = (wd << 16) | (wd >>> 16);
  wc = (wc + wd) | 0;
  wb ^= wc;
  wb = (wb << 12) | (wb >>> 20);
  wa = (wa + wb) | 0;
  wd ^= wa;
  wd = (wd << 8) | (wd >>> 24);
  wc = (wc + wd) | 0;
  wb ^= wc;
  wb = (wb << 7) | (wb >>> 25);
  w[a] = wa;
  w[b] = wb;
  w[c] = wc;
  w[d] = wd;
}

function wordAt(bytes: Uint8Array, at: number): number {
  let word = 0;
  for (let k = 3; k >= 0; k--) word = (word << 8) | (bytes[at + k] ?? 0);
  return word >>> 0;
}

/** The ids of one run's entities, by the ordinal of their ask. */
export class EntityIds {
  readonly #seed: Uint8Array;
  readonly #createdAt: number;
  #block: Uint8Array = new Uint8Array(0);
  #blockIndex = -1;

  /** `createdAt`: epoch ms, the time part of every id of the run. */
  constructor(seed: Uint8Array, createdAt: number) {
    this.#seed = seed;
    this.#createdAt = createdAt;
  }

  /** `ordinal` counts from 0. */
  at(kind: EntityKind, ordinal: number): EntityId {
    const index = Math.floor(ordinal / IDS_PER_BLOCK);
    if (index !== this.#blockIndex) {
      this.#block = drawBlock(this.#seed, DRAW_PURPOSE.entityIds, index);
      this.#blockIndex = index;
    }
    const from = (ordinal % IDS_PER_BLOCK) * ID_BYTES;
    const random = this.#block.subarray(from, from + ID_BYTES);
    return `${kind}_${ulid(this.#createdAt, random)}` as EntityId;
  }
}
