/**
 * One step heap, where it lives: one attempt of one body, from its bundle's image to its outcome.
 *
 * Owns what each turn of the body, and all of them, may cost. A turn is what the body does between
 * two waits. Hands on, unread, what the guest answers.
 *
 * S18  A step heap serves one attempt, is never snapshotted, and starts from an image that no
 *     attempt has touched.
 */
import type { LimitExceeded } from "../engine/ports/sandbox.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import { BUNDLE_FILES } from "./bundle-image.ts";
import type { BundleImage, ImageTools } from "./bundle-image.ts";
import { Execution } from "./execution.ts";
import type { Ran } from "./execution.ts";
import { resetTo } from "./heap.ts";
import type { Instance } from "./instance.ts";
import { SANDBOX_LIMITS, exceeded } from "./limits.ts";
import { bundleFailure, payloadTextOf } from "./pass.ts";
import type { StepCommand } from "./step-protocol.ts";
import type { StepBeginAnswer, StepBeginOrder, StepTurn, StepTurnsAnswer } from "./wire.ts";

export class ResidentStep {
  readonly #bundle: BundleImage;
  readonly #limits: StepLimits;
  readonly #tools: ImageTools;
  readonly #execution: Execution;
  readonly #startedMs: number;
  #isGone = false;

  private constructor(
    limits: StepLimits,
    bundle: BundleImage,
    { instance, tools }: { instance: Instance; tools: ImageTools },
  ) {
    this.#bundle = bundle;
    this.#limits = limits;
    this.#tools = tools;
    this.#execution = new Execution(instance, limits.heap, tools.clock);
    this.#execution.attach({
      hostCall: (name, value) => {
        const ms = Number(value);
        if (name === "clock_set" && Number.isFinite(ms)) instance.setClock(ms);
      },
      clockWasRead: () => undefined,
    });
    this.#startedMs = this.#execution.cpuMs;
  }

  /** Null: no memory left. */
  static take(
    { limits, bundle: { tenantId } }: StepBeginOrder,
    bundle: BundleImage,
    tools: ImageTools,
  ): ResidentStep | null {
    const instance = tools.pool.take(tenantId, limits.heap.heapBytesMax, bundle.image);
    return instance === null ? null : new ResidentStep(limits, bundle, { instance, tools });
  }

  /** Runs the body until it waits for the first time. */
  begin({ init, input }: StepBeginOrder): StepBeginAnswer {
    const text = payloadTextOf(input);
    if (text === undefined) return { kind: "input_unreadable" };
    const { instance } = this.#execution;
    if (!resetTo(instance, this.#bundle.image)) return this.#tooSmall();
    instance.setClock(init.now);
    const { evaluationCpuFactor } = SANDBOX_LIMITS;
    const ready = this.#work(this.#bundle.sharesImage ? 1 : evaluationCpuFactor, () => {
      this.#send(init, null);
      if (!this.#bundle.sharesImage) instance.run(this.#bundle.source.code, BUNDLE_FILES.step);
      this.#execution.drain();
    });
    if (ready.kind === "threw") return { kind: "bundle_failed", error: bundleFailure(ready.text) };
    if (ready.kind !== "done") return ready;
    return this.#turn(init.now, () => this.#send({ t: "run", now: init.now }, text));
  }

  /** Settles what the body waited for and runs it until it waits again. */
  turns(turns: readonly StepTurn[], now: number): StepTurnsAnswer {
    if (this.#isGone) return { kind: "lost", reason: "the heap was given up" };
    return this.#turn(now, () => {
      for (const { command, payloadText } of turns) this.#send(command, payloadText);
    });
  }

  /** `isReusable`: false takes the instance out of use. */
  close(isReusable: boolean): void {
    const { source, image } = this.#bundle;
    const { instance } = this.#execution;
    if (isReusable && !this.#isGone) this.#tools.pool.give(source.tenantId, instance, image);
    this.#isGone = true;
  }

  #turn(now: number, run: () => void): StepTurnsAnswer {
    const ran = this.#work(1, () => {
      run();
      return this.#execution.dispatch(JSON.stringify({ t: "report", now }), null);
    });
    switch (ran.kind) {
      case "done": {
        const heapBytes = this.#execution.instance.bytes.length;
        return { kind: "step_report", text: ran.value, usage: { cpuMs: this.#usedMs, heapBytes } };
      }
      case "threw":
        // The guest library lets nothing out of `dispatch`: what comes out is not from it.
        return {
          kind: "limit",
          exceeded: exceeded("GUEST_PROTOCOL_VIOLATION", "violationsMax", 1, 0),
        };
      default:
        return ran;
    }
  }

  #send(command: StepCommand, payloadText: string | null): void {
    this.#execution.dispatch(JSON.stringify(command), payloadText);
    this.#execution.drain();
  }

  /** One piece of work within the turn's budget and what is left of the attempt's. */
  #work<T>(factor: number, work: () => T): Ran<T> {
    const { heap, cpuMsMax } = this.#limits;
    const leftMs = Math.max(0, cpuMsMax - this.#usedMs);
    const turnMs = heap.cpuSoftMs * factor;
    this.#tools.progress.begins(null, heap.cpuHardMs * factor);
    const ran = this.#execution.run(Math.min(turnMs, leftMs), work);
    this.#tools.progress.ends();
    if (ran.kind !== "done") this.#isGone = true;
    if (ran.kind !== "limit" || turnMs <= leftMs) return ran;
    return { kind: "limit", exceeded: this.#ofAttempt(ran.exceeded) };
  }

  /** It was the attempt's budget, not the turn's, that ran out. */
  #ofAttempt(reached: LimitExceeded): LimitExceeded {
    if (reached.code !== "CPU_LIMIT_EXCEEDED") return reached;
    const { cpuMsMax } = this.#limits;
    return exceeded("CPU_LIMIT_EXCEEDED", "cpuMsMax", Math.ceil(this.#usedMs), cpuMsMax);
  }

  get #usedMs(): number {
    return this.#execution.cpuMs - this.#startedMs;
  }

  #tooSmall(): StepTurnsAnswer {
    this.#isGone = true;
    const { heapBytesMax } = this.#limits.heap;
    const used = this.#execution.instance.refusedBytes ?? this.#bundle.image.memoryBytes;
    return {
      kind: "limit",
      exceeded: exceeded("HEAP_LIMIT_EXCEEDED", "heapBytesMax", used, heapBytesMax),
    };
  }
}
