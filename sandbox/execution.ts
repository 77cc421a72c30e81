/**
 * Runs guest code in one instance and turns every way in which that can end into a value.
 *
 * Owns the CPU budget and the latches of limits. A limit that was once reached decides, whatever
 * the guest made of it and whatever else went wrong afterwards.
 */
import type { HeapLimits, LimitExceeded } from "../engine/ports/sandbox.ts";
import type { CpuClock } from "./cpu-clock.ts";
import { GuestThrow } from "./instance.ts";
import type { Instance, InstanceHost } from "./instance.ts";
import { CpuBudget, SANDBOX_LIMITS, exceeded } from "./limits.ts";

export type Ran<T> =
  | { readonly kind: "done"; readonly value: T }
  /** An exception left the guest. */
  | { readonly kind: "threw"; readonly text: string }
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded }
  /** Something other than guest code failed. `isTrap`: the wasm or our code in it, at this work. */
  | { readonly kind: "lost"; readonly reason: string; readonly isTrap?: true };

/** Ends the work in progress; `Execution.run` turns it into a value. */
class LimitReached extends Error {
  readonly exceeded: LimitExceeded;

  constructor(reached: LimitExceeded) {
    super(reached.code);
    this.exceeded = reached;
  }
}

export class Execution {
  readonly instance: Instance;
  readonly #limits: HeapLimits;
  readonly #budget: CpuBudget;
  readonly #clock: CpuClock;

  constructor(instance: Instance, limits: HeapLimits, clock: CpuClock) {
    this.instance = instance;
    this.#limits = limits;
    this.#clock = clock;
    this.#budget = new CpuBudget(clock);
  }

  /** Connects the instance to this execution; `told` hears what the guest library says. */
  attach(told: Omit<InstanceHost, "isInterrupted">): void {
    this.instance.host = {
      isInterrupted: () => this.#budget.isExceeded,
      hostCall: (name, value) => told.hostCall(name, value),
      clockWasRead: () => told.clockWasRead(),
    };
  }

  /** CPU ms of this thread, to be subtracted from another reading. */
  get cpuMs(): number {
    return this.#clock.nowMs() ?? 0;
  }

  /** Runs `work`; after anything but "done" the instance is to be discarded. */
  run<T>(cpuSoftMs: number, work: () => T): Ran<T> {
    this.#budget.start(cpuSoftMs);
    try {
      const value = work();
      this.checkLimits();
      return { kind: "done", value };
    } catch (error) {
      return this.#endOf(error);
    }
  }

  /** Ends the work if a limit was reached that the guest may have caught. */
  checkLimits(): void {
    const reached = this.#reached();
    if (reached !== null) throw new LimitReached(reached);
  }

  /** Runs all pending jobs, and those that they bring, within the limit of one event. */
  drain(): void {
    let jobs = 0;
    while (this.instance.hasJobs) {
      jobs += this.instance.runJobs(SANDBOX_LIMITS.jobsPerBatch);
      this.checkLimits();
      const { jobsPerEventMax } = this.#limits;
      if (jobs > jobsPerEventMax) {
        throw new LimitReached(
          exceeded("JOB_LIMIT_EXCEEDED", "jobsPerEventMax", jobs, jobsPerEventMax),
        );
      }
    }
  }

  /** A command's answer. An answer that is too long, or none, ends the work. */
  dispatch(command: string, payloadText: string | null): string {
    const bytesMax = SANDBOX_LIMITS.reportBytesMax;
    const answer = this.instance.dispatch(command, payloadText, bytesMax);
    this.checkLimits();
    if (answer !== null) return answer;
    throw new LimitReached(
      exceeded("GUEST_PROTOCOL_VIOLATION", "reportBytesMax", bytesMax + 1, bytesMax),
    );
  }

  #reached(): LimitExceeded | null {
    const { refusedBytes } = this.instance;
    const { heapBytesMax } = this.#limits;
    if (refusedBytes !== null) {
      return exceeded("HEAP_LIMIT_EXCEEDED", "heapBytesMax", refusedBytes, heapBytesMax);
    }
    if (!this.#budget.isExceeded) return null;
    const used = Math.ceil(this.#budget.usedMs);
    return exceeded("CPU_LIMIT_EXCEEDED", "cpuSoftMs", used, this.#budget.allowedMs);
  }

  #endOf(error: unknown): Ran<never> {
    if (this.instance.isHostOutOfMemory) return { kind: "lost", reason: "no memory left" };
    const reached = error instanceof LimitReached ? error.exceeded : this.#reached();
    if (reached !== null) return { kind: "limit", exceeded: reached };
    if (error instanceof GuestThrow) return { kind: "threw", text: error.message };
    // Our own code raises no RangeError: it is the host's stack, which the guest ran out of.
    if (error instanceof RangeError) {
      const { stackBytesMax } = this.#limits;
      return {
        kind: "limit",
        exceeded: exceeded("STACK_LIMIT_EXCEEDED", "stackBytesMax", stackBytesMax, stackBytesMax),
      };
    }
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "lost", reason, isTrap: true };
  }
}
