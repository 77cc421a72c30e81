/**
 * What a guest thread is doing, written by it without a message and read by the watchdog while the
 * thread is deep in a loop that ends never.
 *
 * A record is whole when its sequence number reads the same before and after.
 */
import type { CpuClock } from "./cpu-clock.ts";
import type { Progress } from "./bundle-image.ts";
import type { HeapId } from "./wire.ts";

const WORDS = 5;
const AT = { sequence: 0, heapId: 1, slot: 2, cpuStartedUs: 3, cpuHardUs: 4 } as const;
/** Stands for "no event" where a slot would be. */
const NO_SLOT = -1n;

export interface ProgressRecord {
  /** Odd while something runs; another number for each piece of work. */
  readonly sequence: bigint;
  readonly heapId: HeapId;
  readonly slot: number | null;
  /** The thread's CPU clock when the work began. */
  readonly cpuStartedMs: number;
  readonly cpuHardMs: number;
}

export function progressBuffer(): SharedArrayBuffer {
  return new SharedArrayBuffer(WORDS * BigInt64Array.BYTES_PER_ELEMENT);
}

export class ProgressWriter implements Progress {
  readonly #words: BigInt64Array;
  readonly #clock: CpuClock;
  #heapId: HeapId = 0;

  constructor(buffer: SharedArrayBuffer, clock: CpuClock) {
    this.#words = new BigInt64Array(buffer);
    this.#clock = clock;
  }

  /** Whose work comes next. */
  turnTo(heapId: HeapId): void {
    this.#heapId = heapId;
  }

  begins(slot: number | null, cpuHardMs: number): void {
    const words = this.#words;
    Atomics.store(words, AT.heapId, BigInt(this.#heapId));
    Atomics.store(words, AT.slot, slot === null ? NO_SLOT : BigInt(slot));
    Atomics.store(words, AT.cpuStartedUs, microseconds(this.#clock.nowMs() ?? 0));
    Atomics.store(words, AT.cpuHardUs, microseconds(cpuHardMs));
    Atomics.add(words, AT.sequence, 1n);
  }

  ends(): void {
    Atomics.add(this.#words, AT.sequence, 1n);
  }
}

/** Null: nothing runs, or it changed while it was read. */
export function progressIn(buffer: SharedArrayBuffer): ProgressRecord | null {
  const words = new BigInt64Array(buffer);
  const sequence = Atomics.load(words, AT.sequence);
  const slot = Atomics.load(words, AT.slot);
  const record = {
    sequence,
    heapId: Number(Atomics.load(words, AT.heapId)),
    slot: slot === NO_SLOT ? null : Number(slot),
    cpuStartedMs: Number(Atomics.load(words, AT.cpuStartedUs)) / 1000,
    cpuHardMs: Number(Atomics.load(words, AT.cpuHardUs)) / 1000,
  };
  const isRunning = sequence % 2n === 1n;
  return isRunning && Atomics.load(words, AT.sequence) === sequence ? record : null;
}

function microseconds(ms: number): bigint {
  return BigInt(Math.round(ms * 1000));
}
