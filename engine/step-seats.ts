/**
 * How many bodies of one tenant run at once in this process: inline and background, of the platform
 * and sandboxed alike.
 *
 * Owns who waits. A body that waits has its start in the log; only its body has not begun.
 *
 * E120  No more bodies of a tenant run than its limit; the others wait in the order they came, and
 *       one whose run ended meanwhile never begins.
 */
import type { RunRef, TenantId } from "./ids.ts";
import type { StepAttempt, StepOutcome, StepRunner, StepTraits } from "./ports/steps.ts";

interface Bench {
  running: number;
  readonly waiting: Set<() => void>;
}

export class StepSeats implements StepRunner {
  readonly #inner: StepRunner;
  readonly #maxOf: (tenantId: TenantId) => number | null;
  readonly #benches = new Map<TenantId, Bench>();

  constructor(inner: StepRunner, maxOf: (tenantId: TenantId) => number | null) {
    this.#inner = inner;
    this.#maxOf = maxOf;
  }

  /** Bodies of the tenant that run now. */
  runningOf(tenantId: TenantId): number {
    return this.#benches.get(tenantId)?.running ?? 0;
  }

  traitsOf(run: RunRef, deploymentId: string, stepName: string): Promise<StepTraits | null> {
    return this.#inner.traitsOf(run, deploymentId, stepName);
  }

  async run(attempt: StepAttempt): Promise<StepOutcome> {
    const { signal, run } = attempt;
    const max = this.#maxOf(run.tenantId);
    const bench = this.#benches.get(run.tenantId) ?? { running: 0, waiting: new Set() };
    this.#benches.set(run.tenantId, bench);
    if (max === null || bench.running < max) bench.running += 1;
    else if (!(await nextSeat(bench, signal))) return ENDED_BEFORE;
    try {
      return await this.#inner.run(attempt);
    } finally {
      this.#leave(run.tenantId, bench);
    }
  }

  /** The seat goes to who waits for longest, if anybody does. */
  #leave(tenantId: TenantId, bench: Bench): void {
    for (const sit of bench.waiting) {
      bench.waiting.delete(sit);
      sit();
      return;
    }
    bench.running -= 1;
    if (bench.running === 0) this.#benches.delete(tenantId);
  }
}

const ENDED_BEFORE: StepOutcome = {
  kind: "interrupted",
  reason: "its run ended before it began",
};

/** True with a seat that another left; false once the run has ended. */
function nextSeat(bench: Bench, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (): void => {
      bench.waiting.delete(sit);
      resolve(false);
    };
    const sit = (): void => {
      signal.removeEventListener("abort", end);
      resolve(true);
    };
    bench.waiting.add(sit);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
  });
}
