/** Choices from a seed, the same on any machine. */

export type Choose = (bound: number) => number;

/** xorshift32: a seed repeats its cases on any machine. */
export function chooser(seed: number): Choose {
  let state = seed | 0 || 1;
  return (bound) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % bound;
  };
}
