/**
 * All heaps that live in one place: on a guest thread, or on the calling thread.
 *
 * Takes orders and answers them, one at a time. Has no way to reach anything but heaps: what it
 * works on comes with the orders.
 */
import { assert, assertNever } from "../engine/assert.ts";
import type { HeapLimits } from "../engine/ports/sandbox.ts";
import { BundleImages } from "./bundle-image.ts";
import type { ImageTools, Progress } from "./bundle-image.ts";
import type { CpuClock } from "./cpu-clock.ts";
import { InstancePool } from "./heap.ts";
import { ResidentHeap, bundleFailure } from "./pass.ts";
import { ResidentStep } from "./step-heap.ts";
import type {
  Answer,
  BundleRef,
  HeapId,
  InspectAnswer,
  OpenAnswer,
  OpenOrder,
  Order,
  StepBeginAnswer,
  StepBeginOrder,
} from "./wire.ts";

type BundleFailureAnswer = Exclude<OpenAnswer, { kind: "opened" | "image_refused" }>;
type LimitedOrder = { readonly bundle: BundleRef; readonly limits: HeapLimits };

export class Residence {
  readonly #heaps = new Map<HeapId, ResidentHeap>();
  readonly #steps = new Map<HeapId, ResidentStep>();
  readonly #images = new BundleImages();
  readonly #tools: ImageTools;

  constructor(module: WebAssembly.Module, clock: CpuClock, progress: Progress) {
    this.#tools = { pool: new InstancePool(module), clock, progress };
  }

  /** Null for orders that have no answer. */
  perform(order: Order): Answer | null {
    switch (order.kind) {
      case "bundle":
        this.#images.add(order.source);
        return null;
      case "open":
        return this.#open(order);
      case "pass":
        return (
          this.#heaps.get(order.heapId)?.pass(order.events) ?? {
            kind: "lost",
            reason: "there is no such heap here",
          }
        );
      case "snapshot":
        return this.#heaps.get(order.heapId)?.snapshot(order.binding) ?? { kind: "none" };
      case "inspect":
        return this.#inspect(order);
      case "step_begin":
        return this.#beginStep(order);
      case "step_turns":
        return (
          this.#steps.get(order.heapId)?.turns(order.turns, order.now) ?? {
            kind: "lost",
            reason: "there is no such heap here",
          }
        );
      case "close":
        this.#heaps.get(order.heapId)?.close(order.isReusable);
        this.#steps.get(order.heapId)?.close(order.isReusable);
        this.#heaps.delete(order.heapId);
        this.#steps.delete(order.heapId);
        return null;
      default:
        return assertNever(order);
    }
  }

  #open(order: OpenOrder): OpenAnswer {
    assert(!this.#heaps.has(order.heapId), "a heap id names one heap");
    const bundle = this.#bundleOf(order);
    if ("kind" in bundle) return bundle;
    const heap = ResidentHeap.open(order, bundle.image, this.#tools);
    if (!(heap instanceof ResidentHeap)) return heap;
    this.#heaps.set(order.heapId, heap);
    return { kind: "opened", consumedSlot: heap.consumedSlot, heapBytes: heap.heapBytes };
  }

  #beginStep(order: StepBeginOrder): StepBeginAnswer {
    assert(!this.#steps.has(order.heapId), "a heap id names one heap");
    const bundle = this.#bundleOf({ bundle: order.bundle, limits: order.limits.heap });
    if ("kind" in bundle) return bundle;
    const step = ResidentStep.take(order, bundle.image, this.#tools);
    if (step === null) return { kind: "lost", reason: "no memory left" };
    this.#steps.set(order.heapId, step);
    return step.begin(order);
  }

  #inspect(order: Extract<Order, { kind: "inspect" }>): InspectAnswer {
    const bundle = this.#bundleOf(order);
    if ("kind" in bundle) return bundle;
    const { registered, sharesImage, notes } = bundle.image;
    return { kind: "inspected", text: registered, sharesImage, notes };
  }

  #bundleOf(order: LimitedOrder) {
    const made = this.#images.imageOf(order.bundle, order.limits, this.#tools);
    if (made === null) return unanswered({ kind: "bundle_unknown" });
    if (made.kind === "done") return { image: made.value };
    if (made.kind === "threw") {
      return unanswered({ kind: "bundle_failed", error: bundleFailure(made.text) });
    }
    return unanswered(made);
  }
}

function unanswered(answer: BundleFailureAnswer): BundleFailureAnswer {
  return answer;
}
