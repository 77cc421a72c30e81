/**
 * One heap of one run, where it lives: from its bundle's image or a snapshot, through passes.
 *
 * Owns what each command may cost and when it ends; hands on, unread, what the guest answers.
 *
 * S11  All jobs of an event are drained before the next event is fed.
 * S12  A heap in which a pass did not end well is gone: no further pass, no snapshot, no way into
 *     the pool.
 */
import type { TenantId } from "../engine/ids.ts";
import type { GuestEvent, HeapLimits, PassUsage } from "../engine/ports/sandbox.ts";
import { textOfPayload } from "../engine/payload.ts";
import type { Payload } from "../engine/payload.ts";
import { isBatonError } from "../engine/errors.ts";
import { BUNDLE_FILES } from "./bundle-image.ts";
import type { BundleImage, ImageTools } from "./bundle-image.ts";
import { Execution } from "./execution.ts";
import type { Ran } from "./execution.ts";
import { applyDelta, deltaOf, resetTo } from "./heap.ts";
import type { Instance } from "./instance.ts";
import { SANDBOX_LIMITS, exceeded } from "./limits.ts";
import type { GuestCommand } from "./protocol.ts";
import { decodeSnapshot, encodeSnapshot } from "./snapshot.ts";
import type { SnapshotBinding } from "./snapshot.ts";
import type { OpenAnswer, OpenOrder, PassAnswer, SnapshotAnswer } from "./wire.ts";

type OpenFailure = Exclude<OpenAnswer, { kind: "opened" }>;

export class ResidentHeap {
  readonly #tenantId: TenantId;
  readonly #bundle: BundleImage;
  readonly #limits: HeapLimits;
  readonly #tools: ImageTools;
  readonly #execution: Execution;
  #consumedSlot = 0;
  /** The main side knows nothing of what is open: the next report lists all. */
  #owesFullReport = false;
  #isGone = false;

  private constructor(
    order: OpenOrder,
    bundle: BundleImage,
    { instance, tools }: { instance: Instance; tools: ImageTools },
  ) {
    this.#tenantId = order.bundle.tenantId;
    this.#bundle = bundle;
    this.#limits = order.limits;
    this.#tools = tools;
    this.#execution = new Execution(instance, order.limits, tools.clock);
    this.#execution.attach({
      hostCall: (name, value) => {
        if (name === "clock_set" && Number.isFinite(Number(value))) {
          instance.setClock(Number(value));
        }
      },
      clockWasRead: () => undefined,
    });
  }

  /** A heap for the run, from its snapshot if the order has one, else with nothing consumed. */
  static open(
    order: OpenOrder,
    bundle: BundleImage,
    tools: ImageTools,
  ): ResidentHeap | OpenFailure {
    const instance = tools.pool.take(
      order.bundle.tenantId,
      order.limits.heapBytesMax,
      bundle.image,
    );
    if (instance === null) return { kind: "lost", reason: "no memory left" };
    const heap = new ResidentHeap(order, bundle, { instance, tools });
    const failure = order.image === null ? heap.#begin(order) : heap.#restore(order.image);
    return failure ?? heap;
  }

  get consumedSlot(): number {
    return this.#consumedSlot;
  }

  get heapBytes(): number {
    return this.#instance.bytes.length;
  }

  pass(events: readonly GuestEvent[]): PassAnswer {
    if (this.#isGone) return { kind: "lost", reason: "the heap was given up" };
    const startedMs = this.#execution.cpuMs;
    for (const event of events) {
      const text = payloadTextOf(event.payload);
      if (text === undefined) {
        this.#isGone = true;
        return { kind: "unreadable", slot: event.slot };
      }
      const ran = this.#work(event.slot, () => {
        const answer = this.#execution.dispatch(commandOf(event), text);
        if (answer === "") this.#execution.drain();
        return answer;
      });
      if (ran.kind !== "done") return failed(ran, this.#usageSince(startedMs));
      if (ran.value !== "") {
        this.#isGone = true;
        return { kind: "diverged", slot: event.slot, text: ran.value };
      }
      this.#consumedSlot = event.slot;
    }
    return this.#report(startedMs);
  }

  snapshot(binding: SnapshotBinding): SnapshotAnswer {
    if (this.#isGone || binding.slot !== this.#consumedSlot) return { kind: "none" };
    const instance = this.#instance;
    const content = {
      registers: instance.registers,
      memoryBytes: instance.bytes.length,
      consumedSlot: this.#consumedSlot,
      delta: deltaOf(instance, this.#bundle.image),
    };
    const { fingerprint } = this.#bundle;
    return { kind: "image", fingerprint, bytes: encodeSnapshot(content, fingerprint, binding) };
  }

  /** `isReusable`: false takes the instance out of use. */
  close(isReusable: boolean): void {
    if (isReusable && !this.#isGone) {
      this.#tools.pool.give(this.#tenantId, this.#instance, this.#bundle.image);
    }
    this.#isGone = true;
  }

  get #instance(): Instance {
    return this.#execution.instance;
  }

  #begin(order: OpenOrder): OpenFailure | null {
    const { limits } = order;
    if (!resetTo(this.#instance, this.#bundle.image)) return this.#tooSmall();
    this.#instance.setClock(order.createdAt);
    const init: GuestCommand = {
      t: "init",
      runId: order.runId,
      workflowName: order.workflowName,
      createdAt: order.createdAt,
      baseUrl: order.baseUrl,
      seed: Buffer.from(order.seed).toString("hex"),
      payloadBytesMax: limits.payloadBytesMax,
      openOperationsMax: limits.openOperationsMax,
      consoleBytesPerPassMax: limits.consoleBytesPerPassMax,
    };
    const initiated = this.#work(null, () => this.#execution.dispatch(JSON.stringify(init), null));
    if (initiated.kind !== "done") return openFailed(initiated);
    if (this.#bundle.sharesImage) return null;
    const evaluated = this.#work(
      null,
      () => {
        this.#instance.run(this.#bundle.source.code, BUNDLE_FILES.workflow);
        this.#execution.drain();
      },
      SANDBOX_LIMITS.evaluationCpuFactor,
    );
    return evaluated.kind === "done" ? null : openFailed(evaluated);
  }

  #restore(image: { bytes: Uint8Array; binding: SnapshotBinding }): OpenFailure | null {
    const content = decodeSnapshot(image.bytes, {
      fingerprint: this.#bundle.fingerprint,
      binding: image.binding,
      heapBytesMax: this.#limits.heapBytesMax,
    });
    if ("refused" in content) {
      this.close(true);
      return { kind: "image_refused", reason: content.refused };
    }
    if (!resetTo(this.#instance, this.#bundle.image)) return this.#tooSmall();
    if (!this.#instance.reserve(content.memoryBytes)) return this.#tooSmall();
    applyDelta(this.#instance, this.#bundle.image, content.delta);
    this.#instance.registers = content.registers;
    this.#consumedSlot = content.consumedSlot;
    this.#owesFullReport = true;
    return null;
  }

  #tooSmall(): OpenFailure {
    this.#isGone = true;
    const used = this.#instance.refusedBytes ?? this.#bundle.image.memoryBytes;
    const { heapBytesMax } = this.#limits;
    return {
      kind: "limit",
      exceeded: exceeded("HEAP_LIMIT_EXCEEDED", "heapBytesMax", used, heapBytesMax),
    };
  }

  #report(startedMs: number): PassAnswer {
    const isFull = this.#owesFullReport;
    const command: GuestCommand = { t: isFull ? "open" : "report" };
    const ran = this.#work(null, () => this.#execution.dispatch(JSON.stringify(command), null));
    const usage = this.#usageSince(startedMs);
    if (ran.kind !== "done") return failed(ran, usage);
    this.#owesFullReport = false;
    return { kind: "report", text: ran.value, isFull, usage };
  }

  /** One piece of work with its own budget. */
  #work<T>(slot: number | null, work: () => T, factor = 1): Ran<T> {
    const { cpuSoftMs, cpuHardMs } = this.#limits;
    this.#tools.progress.begins(slot, cpuHardMs * factor);
    const ran = this.#execution.run(cpuSoftMs * factor, work);
    this.#tools.progress.ends();
    if (ran.kind !== "done") this.#isGone = true;
    return ran;
  }

  #usageSince(startedMs: number): PassUsage {
    return { cpuMs: this.#execution.cpuMs - startedMs, heapBytes: this.heapBytes };
  }
}

function commandOf(event: GuestEvent): string {
  const command: GuestCommand = {
    t: "event",
    slot: event.slot,
    type: event.eventType,
    id: event.correlationId,
    at: event.createdAt,
    asked: event.asked,
    conflictingRunId: event.conflictingRunId,
  };
  return JSON.stringify(command);
}

/** Undefined: there is a payload, and it is no devalue text. */
export function payloadTextOf(payload: Payload | null): string | null | undefined {
  if (payload === null) return null;
  try {
    // Within JSON's strings, and devalue text is JSON, both forms mean the same; the engine's
    // texts end at the first NUL.
    return textOfPayload(payload).replaceAll("\0", "\\u0000");
  } catch (error) {
    if (isBatonError(error) || error instanceof TypeError) return undefined;
    throw error;
  }
}

type Failure = Exclude<Ran<never>, { kind: "done" }>;

/** The guest library lets nothing out of `dispatch`: what comes out is not from it. */
function failed(failure: Failure, usage: PassUsage): PassAnswer {
  if (failure.kind === "lost") return failure;
  if (failure.kind === "limit") return { ...failure, usage };
  return {
    kind: "limit",
    exceeded: exceeded("GUEST_PROTOCOL_VIOLATION", "violationsMax", 1, 0),
    usage,
  };
}

function openFailed(failure: Failure): OpenFailure {
  if (failure.kind === "threw")
    return { kind: "bundle_failed", error: bundleFailure(failure.text) };
  return failure;
}

/** What the engine's dump of an exception says, for the tenant. */
export function bundleFailure(dump: string): { message: string; stack: string } {
  try {
    const parsed = JSON.parse(dump) as { name?: unknown; message?: unknown; stack?: unknown };
    const name = typeof parsed.name === "string" ? `${parsed.name}: ` : "";
    const message = typeof parsed.message === "string" ? parsed.message : dump;
    return {
      message: `${name}${message}`,
      stack: typeof parsed.stack === "string" ? parsed.stack : "",
    };
  } catch {
    return { message: dump, stack: "" };
  }
}
