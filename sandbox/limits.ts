/**
 * The sandbox's own limits, which no tenant and no operator sets, and the CPU budget of an event.
 * What a tenant may use (`HeapLimits`) comes with each request.
 */
import { BatonError } from "../engine/errors.ts";
import { HEAP_LIMIT_RANGES } from "../engine/limits.ts";
import type { HeapLimits, LimitExceeded } from "../engine/ports/sandbox.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import type { CpuClock } from "./cpu-clock.ts";

export const SANDBOX_LIMITS = {
  /** What the host may take beyond a heap's limit for the texts it hands in, so that a heap just
   * under its limit still learns of its next event. */
  hostHeadroomBytes: 1 << 20,
  /** Jobs run between two looks at the clock and at the latches. */
  jobsPerBatch: 200,
  /** A report over this ends the run: a heap cannot hold more than its share of one anyway. */
  reportBytesMax: HEAP_LIMIT_RANGES.payloadBytesMax[1],
  /** Answers of a heap that its guest library never gives; an exception out of it is one. */
  violationsMax: 0,
  /** Names and values that the guest library passes to `hostCall`. */
  hostCallBytesMax: 4096,
  /** Of a bundle's own error, for its tenant. */
  bundleErrorBytesMax: 16 << 10,
  /** CPU that a bundle's evaluation may take, as a multiple of an event's soft limit: it parses
   * all of the bundle, once. */
  evaluationCpuFactor: 8,
  /** Instances kept for the next heap of the same tenant, on one thread. */
  pooledInstancesMax: 24,
  /** An instance that grew past this is not pooled: zeroing it costs more than a new one. */
  pooledBytesMax: 16 << 20,
  /** Bundle sources kept on one thread; a source that is gone is asked for again. */
  sourcesMax: 64,
  /** Bundle images kept on one thread, bytes over all. */
  imageBytesMax: 128 << 20,
  /** Bundles whose steps the main side knows. */
  knownBundlesMax: 10_000,
  /** How long a step's body may go on after its signal fired, ms. */
  abortGraceMs: 1000,
  /** What an error, with its stack and causes, may have beyond a payload's limit. */
  errorBytesMax: 64 << 10,
} as const;

/** Refuses limits that the sandbox cannot keep. */
export function checkLimits(limits: HeapLimits): void {
  for (const [field, [min, max]] of Object.entries(HEAP_LIMIT_RANGES)) {
    const used = limits[field as keyof HeapLimits];
    if (used >= min && used <= max) continue;
    throw new BatonError("INVALID_ARGUMENT", `${field} must be from ${min} to ${max}`, {
      field,
      used,
      allowed: `${min} to ${max}`,
    });
  }
}

/**
 * How often the thread's CPU clock is looked at, wall ms. The engine polls some thousand times a
 * second; a look costs a system call.
 */
const LOOK_EVERY_MS = 1;

/** The soft CPU limit of what runs now. Once exceeded it stays so until the next `start`. */
export class CpuBudget {
  readonly #clock: CpuClock;
  #startedMs = 0;
  #allowedMs = Infinity;
  #nextLookMs = 0;
  #isExceeded = false;

  constructor(clock: CpuClock) {
    this.#clock = clock;
  }

  start(allowedMs: number): void {
    this.#startedMs = this.#clock.nowMs() ?? 0;
    this.#allowedMs = allowedMs;
    this.#isExceeded = false;
    this.#nextLookMs = performance.now() + LOOK_EVERY_MS;
  }

  /** CPU ms since `start`. */
  get usedMs(): number {
    return (this.#clock.nowMs() ?? 0) - this.#startedMs;
  }

  get allowedMs(): number {
    return this.#allowedMs;
  }

  /** Latched: whatever the guest does about an interrupt, the budget stays exceeded. */
  get isExceeded(): boolean {
    if (this.#isExceeded) return true;
    const now = performance.now();
    if (now < this.#nextLookMs) return false;
    this.#nextLookMs = now + LOOK_EVERY_MS;
    this.#isExceeded = this.usedMs > this.#allowedMs;
    return this.#isExceeded;
  }
}

export function exceeded(
  code: LimitExceeded["code"],
  limit: keyof HeapLimits | keyof StepLimits | keyof typeof SANDBOX_LIMITS,
  used: number,
  allowed: number,
): LimitExceeded {
  return { code, limit, used, allowed };
}
