/**
 * The form with worker threads: as many guest threads as there are cores, spread over by run, one
 * more for tenants whose code overran lately, and apart from these the threads of step heaps
 * (step-threads.ts).
 *
 * A thread may be killed at any instant, with all heaps on it. They are answered "lost": workflow
 * heaps resume from snapshot and log elsewhere, and their runs see no error; attempts of steps are
 * interrupted.
 */
import { availableParallelism, totalmem } from "node:os";
import { BatonError } from "../engine/errors.ts";
import type { RunId, TenantId } from "../engine/ids.ts";
import { GuestCpu } from "./guest-cpu.ts";
import { GuestThread } from "./guest-thread.ts";
import type { ThreadEvents } from "./guest-thread.ts";
import { exceeded } from "./limits.ts";
import type { Lodging, LodgingRequest, LodgingUse, Places } from "./place.ts";
import { Conduct, MemoryBudget } from "./placement.ts";
import type { ProgressRecord } from "./progress.ts";
import { StepThreads } from "./step-threads.ts";
import type { Seat } from "./step-threads.ts";
import { WATCHDOG_DEFAULTS, Watchdog } from "./watchdog.ts";
import type { Verdict, WatchdogOptions } from "./watchdog.ts";
import { compileModule } from "./wasm.ts";
import type { Answer, HeapId, Order } from "./wire.ts";

export const INCIDENT_KINDS = ["cpu_overrun", "wall_overrun", "thread_died", "host_ended"] as const;

/** Something that an operator may want to know; never of a tenant's making beyond its names. */
export interface Incident {
  readonly kind: (typeof INCIDENT_KINDS)[number];
  readonly reason: string;
  readonly tenantId: TenantId | null;
  readonly runId: RunId | null;
}

export interface ThreadsOptions {
  /** Guest threads besides the penalty thread; by default one a core. */
  readonly threads?: number;
  /** What all heaps together may take; by default half of the machine's memory. */
  readonly heapBytesMax?: number;
  /** Threads of step heaps; by default four times the cores, since bodies mostly wait. */
  readonly stepThreads?: number;
  /** What all step heaps together may take; by default a quarter of the machine's memory. */
  readonly stepHeapBytesMax?: number;
  readonly watchdog?: Partial<WatchdogOptions>;
  readonly onIncident?: (incident: Incident) => void;
}

interface Lodger {
  readonly tenantId: TenantId;
  readonly runId: RunId | null;
  readonly thread: GuestThread;
  readonly isStep: boolean;
  readonly onGone: ((reason: string) => void) | null;
}

/** Threads of step heaps for each core. */
export const STEP_THREADS_PER_CORE = 4;

export class ThreadPlaces implements Places {
  readonly #module = compileModule();
  readonly #threadsMax: number;
  readonly #memory: MemoryBudget;
  readonly #stepMemory: MemoryBudget;
  readonly #steps: StepThreads<GuestThread>;
  readonly #conduct = new Conduct();
  readonly #watchdog: Watchdog<GuestThread>;
  readonly #onIncident: (incident: Incident) => void;
  readonly #threads = new Set<GuestThread>();
  readonly #cpu: GuestCpu<GuestThread>;
  readonly #lodgers = new Map<HeapId, Lodger>();
  #penaltyThread: GuestThread | null = null;
  #lastHeapId: HeapId = 0;
  #isClosed = false;

  constructor(options: ThreadsOptions) {
    this.#threadsMax = options.threads ?? availableParallelism();
    this.#cpu = new GuestCpu(availableParallelism());
    const heapBytesMax = options.heapBytesMax ?? totalmem() / 2;
    this.#memory = new MemoryBudget(heapBytesMax, this.#threadsMax + 1);
    const stepThreads = options.stepThreads ?? STEP_THREADS_PER_CORE * availableParallelism();
    // Apart from the workflow heaps: those wait, live, for the bodies of their inline steps.
    this.#stepMemory = new MemoryBudget(options.stepHeapBytesMax ?? totalmem() / 4, stepThreads);
    this.#steps = new StepThreads({ threadsMax: stepThreads, start: () => this.#start() });
    this.#onIncident = options.onIncident ?? (() => undefined);
    this.#watchdog = new Watchdog(
      { ...WATCHDOG_DEFAULTS, ...options.watchdog },
      (thread, verdict) => this.#end(thread, verdict),
    );
  }

  async lodge(request: LodgingRequest): Promise<Lodging> {
    const { tenantId, runId, limits, use } = request;
    const isStep = use.kind === "step";
    const memory = isStep ? this.#stepMemory : this.#memory;
    const reservation = await memory.reserve(tenantId, limits.heapBytesMax);
    const seat = this.#isClosed ? null : await this.#seatOf(tenantId, use);
    if (this.#isClosed || seat === null) {
      seat?.leave();
      reservation.release();
      throw new BatonError("CLOSED", "the sandbox is closed");
    }
    const { thread } = seat;
    const heapId = ++this.#lastHeapId;
    this.#lodgers.set(heapId, { tenantId, runId, thread, isStep, onGone: request.onGone ?? null });
    return {
      place: this.#cpu.placeOn(thread, { tenantId, weight: request.weight ?? 1 }),
      heapId,
      note: (heapBytes) => reservation.note(heapBytes),
      release: () => {
        this.#lodgers.delete(heapId);
        seat.leave();
        reservation.release();
      },
    };
  }

  /** Null: it was closed meanwhile. */
  #seatOf(tenantId: TenantId, use: LodgingUse): Promise<Seat<GuestThread> | null> {
    const isPenalized = this.#conduct.isPenalized(tenantId, performance.now());
    if (use.kind === "step") return this.#steps.take(tenantId, use.isAlone || isPenalized);
    const thread = isPenalized ? (this.#penaltyThread ??= this.#start()) : this.#leastBusy();
    return Promise.resolve({ thread, leave() {} });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watchdog.stop();
    this.#steps.close();
    const all = [...this.#threads, ...this.#steps.threads];
    if (this.#penaltyThread !== null) all.push(this.#penaltyThread);
    await Promise.all(all.map((thread) => thread.kill("the sandbox was closed")));
  }

  /** Starts threads up to their number first; then the one with the fewest heaps. */
  #leastBusy(): GuestThread {
    if (this.#threads.size < this.#threadsMax) {
      const idle = [...this.#threads].find((thread) => this.#lodgersOn(thread) === 0);
      if (idle !== undefined) return idle;
      const thread = this.#start();
      this.#threads.add(thread);
      return thread;
    }
    const [first, ...others] = [...this.#threads].map((thread) => ({
      thread,
      load: this.#cpu.loadOf(thread) + this.#lodgersOn(thread),
    }));
    return others.reduce(
      (least, other) => (other.load < least.load ? other : least),
      first as { thread: GuestThread; load: number },
    ).thread;
  }

  #lodgersOn(thread: GuestThread): number {
    let count = 0;
    for (const lodger of this.#lodgers.values()) if (lodger.thread === thread) count++;
    return count;
  }

  #start(): GuestThread {
    const events: ThreadEvents = {
      busy: (thread) => this.#watchdog.watch(thread),
      answered: (order, answer, cpuMs) => this.#learn(order, answer, cpuMs),
      died: (thread, reason) => this.#forget(thread, reason),
    };
    return new GuestThread(this.#module, events);
  }

  /** What was used is counted; a soft overrun brings its tenant's next heaps under watch. */
  #learn(order: Order, answer: Answer | null, cpuMs: number): void {
    const lodger = "heapId" in order ? this.#lodgers.get(order.heapId) : undefined;
    if (lodger === undefined) return;
    this.#cpu.note(lodger.thread, order, cpuMs);
    if (answer?.kind !== "limit" || answer.exceeded.code !== "CPU_LIMIT_EXCEEDED") return;
    this.#conduct.penalize(lodger.tenantId, performance.now());
  }

  #forget(thread: GuestThread, reason: string): void {
    this.#threads.delete(thread);
    if (this.#penaltyThread === thread) this.#penaltyThread = null;
    this.#steps.forget(thread);
    for (const lodger of this.#lodgers.values()) {
      if (lodger.thread === thread) lodger.onGone?.(reason);
    }
    if (this.#isClosed) return;
    this.#onIncident({ kind: "thread_died", reason, tenantId: null, runId: null });
  }

  #end(thread: GuestThread, verdict: Exclude<Verdict, { kind: "fine" }>): void {
    if (verdict.kind === "wall_overrun") {
      const reason = "the thread made no progress in time";
      this.#onIncident({ kind: "wall_overrun", reason, tenantId: null, runId: null });
      void thread.kill(reason);
      return;
    }
    const { work, usedMs } = verdict;
    const culprit = this.#lodgers.get(work.heapId);
    const isConvicted = culprit !== undefined && this.#isConvicted(culprit, work);
    const reason = "a program on the thread overran its CPU limit";
    this.#onIncident({
      kind: "cpu_overrun",
      reason,
      tenantId: culprit?.tenantId ?? null,
      runId: culprit?.runId ?? null,
    });
    void thread.kill(reason, (order) =>
      isConvicted && isWorkOf(order, work.heapId) ? conviction(work, usedMs) : null,
    );
  }

  /**
   * A bundle that is only looked at has no run to spare: its first overrun refuses it. Nor has an
   * attempt of a step: it fails, and the step may have others.
   */
  #isConvicted({ tenantId, runId, isStep }: Lodger, work: ProgressRecord): boolean {
    const nowMs = performance.now();
    if (runId !== null && !isStep) {
      return this.#conduct.overran({ tenantId, runId }, work.slot, nowMs);
    }
    this.#conduct.penalize(tenantId, nowMs);
    return true;
  }
}

const WORK_KINDS: readonly Order["kind"][] = [
  "pass",
  "open",
  "inspect",
  "step_begin",
  "step_turns",
];

function isWorkOf(order: Order, heapId: HeapId): boolean {
  return WORK_KINDS.includes(order.kind) && "heapId" in order && order.heapId === heapId;
}

function conviction({ cpuHardMs }: ProgressRecord, usedMs: number): Answer {
  const used = Math.ceil(usedMs);
  return {
    kind: "limit",
    exceeded: exceeded("CPU_LIMIT_EXCEEDED", "cpuHardMs", used, cpuHardMs),
    usage: { cpuMs: used, heapBytes: 0 },
  };
}
