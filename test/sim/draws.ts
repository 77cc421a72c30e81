/**
 * Randomness of one simulation: everything that varies is drawn from one seed. Streams that are
 * split off by name do not disturb each other, so a new kind of fault changes no workflow.
 */

export interface Draws {
  /** A number in [0, 1). */
  next(): number;
  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
  bytes(count: number): Uint8Array;
  /** An independent stream; the same name gives the same stream. */
  split(name: string): Draws;
}

/** Draws that follow from a seed: sfc32, its state mixed from the seed's text. */
export function drawsOf(seed: number | string): Draws {
  const text = String(seed);
  const mix = mixer(text);
  let [a, b, c, d] = [mix(), mix(), mix(), 1];
  const word = () => {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return sum >>> 0;
  };
  for (let i = 0; i < 12; i++) word();
  const next = () => word() / 0x1_0000_0000;
  const between = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    chance: (probability) => next() < probability,
    pick: (from) => {
      const picked = from[between(0, from.length - 1)];
      if (picked === undefined) throw new Error("nothing is picked from an empty list");
      return picked;
    },
    bytes: (count) => Uint8Array.from({ length: count }, () => word() & 0xff),
    split: (name) => drawsOf(`${text}/${name}`),
  };
}

/** Words from a text, by a 32-bit FNV that goes on past its end. */
function mixer(text: string): () => number {
  let hash = 0x811c9dc5;
  const step = (code: number) => {
    hash = Math.imul(hash ^ code, 0x01000193);
  };
  for (let i = 0; i < text.length; i++) step(text.charCodeAt(i));
  return () => {
    step(0x5bd1);
    let word = hash;
    word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
    word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
    return (word ^ (word >>> 16)) | 0;
  };
}
