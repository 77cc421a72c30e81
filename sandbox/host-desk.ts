/**
 * Inside a guest host: takes the main side's orders and lodges their heaps on its guest threads.
 */
import { assertNever } from "../engine/assert.ts";
import { SANDBOX_LIMITS } from "./limits.ts";
import { withSource } from "./place.ts";
import type { Lodging, LodgingRequest, LodgingUse, Place, Places } from "./place.ts";
import { bundleKey, lostAnswer } from "./wire.ts";
import type { Answer, BundleSource, HeapId, Order } from "./wire.ts";

type HeapOrder = Extract<Order, { kind: "pass" | "snapshot" | "step_turns" | "close" }>;
type FirstOrder = Extract<Order, { kind: "open" | "inspect" | "step_begin" }>;

export class HostDesk {
  readonly #places: Places;
  readonly #onGone: (heapId: HeapId, reason: string) => void;
  /** By the main side's number of the heap; the lodging has its own. */
  readonly #lodgings = new Map<HeapId, Lodging>();
  readonly #sources = new Map<string, BundleSource>();

  constructor(places: Places, onGone: (heapId: HeapId, reason: string) => void) {
    this.#places = places;
    this.#onGone = onGone;
  }

  async perform(order: Order): Promise<Answer | null> {
    switch (order.kind) {
      case "bundle":
        this.#keep(order.source);
        return null;
      case "open":
      case "inspect":
      case "step_begin":
        return this.#lodge(order);
      case "pass":
      case "snapshot":
      case "step_turns":
      case "close":
        return this.#hand(order);
      default:
        return assertNever(order);
    }
  }

  async #lodge(order: FirstOrder): Promise<Answer> {
    const source = this.#sources.get(bundleKey(order.bundle));
    if (source === undefined) return { kind: "bundle_unknown" };
    const lodging = await this.#places.lodge(this.#requestFor(order));
    const { place, heapId } = lodging;
    const answer = await withSource(source, place, () => first(place, order, heapId));
    if (answer.kind === "opened" || answer.kind === "step_report") {
      lodging.note(answer.kind === "opened" ? answer.heapBytes : answer.usage.heapBytes);
      this.#lodgings.set(order.heapId, lodging);
    } else {
      void place.order({ kind: "close", heapId, isReusable: false });
      lodging.release();
    }
    return answer;
  }

  #requestFor(order: FirstOrder): LodgingRequest {
    const { tenantId, side } = order.bundle;
    const runId = order.kind === "inspect" ? null : order.runId;
    if (order.kind === "step_begin") {
      const { isAlone, limits } = order;
      const onGone = (reason: string) => this.#onGone(order.heapId, reason);
      return { tenantId, runId, limits: limits.heap, use: { kind: "step", isAlone }, onGone };
    }
    const use: LodgingUse =
      side === "step" ? { kind: "step", isAlone: false } : { kind: "workflow" };
    return { tenantId, runId, limits: order.limits, use };
  }

  async #hand(order: HeapOrder): Promise<Answer | null> {
    const lodging = this.#lodgings.get(order.heapId);
    if (lodging === undefined) return lostAnswer(order, "there is no such heap here");
    const answer = await lodging.place.order({ ...order, heapId: lodging.heapId });
    if (answer?.kind === "report" || answer?.kind === "step_report")
      lodging.note(answer.usage.heapBytes);
    if (order.kind === "close") {
      this.#lodgings.delete(order.heapId);
      lodging.release();
    }
    return answer;
  }

  #keep(source: BundleSource): void {
    const key = bundleKey(source);
    this.#sources.delete(key);
    this.#sources.set(key, source);
    if (this.#sources.size <= SANDBOX_LIMITS.sourcesMax) return;
    const [oldest] = this.#sources.keys();
    this.#sources.delete(oldest as string);
  }
}

function first(place: Place, order: FirstOrder, heapId: HeapId): Promise<Answer> {
  switch (order.kind) {
    case "open":
      return place.order({ ...order, heapId });
    case "inspect":
      return place.order({ ...order, heapId });
    case "step_begin":
      return place.order({ ...order, heapId });
    default:
      return assertNever(order);
  }
}
