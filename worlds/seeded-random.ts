/**
 * Randomness that follows from a seed: for tests, simulations and faults, never for secrets.
 */
import type { Random } from "../engine/ports/host.ts";

/** xorshift128+ from a seed: the same seed gives the same bytes. */
export class SeededRandom implements Random {
  #a: bigint;
  #b: bigint;

  constructor(seed: number) {
    this.#a = BigInt.asUintN(64, BigInt(seed) * 0x9e3779b97f4a7c15n + 1n);
    this.#b = BigInt.asUintN(64, (BigInt(seed) ^ 0xbf58476d1ce4e5b9n) * 0x94d049bb133111ebn + 1n);
    for (let i = 0; i < 16; i++) this.#next();
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => Number(this.#next() >> 56n));
  }

  /** From 0 up to, but not including, 1. */
  fraction(): number {
    return Number(this.#next() >> 11n) / 2 ** 53;
  }

  #next(): bigint {
    let x = this.#a;
    const y = this.#b;
    this.#a = y;
    x ^= BigInt.asUintN(64, x << 23n);
    this.#b = x ^ y ^ (x >> 17n) ^ (y >> 26n);
    return BigInt.asUintN(64, this.#b + y);
  }
}
