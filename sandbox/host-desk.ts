/**
 * Inside a guest host: takes the main side's orders and lodges their heaps on its guest threads.
 */
import { assertNever } from "../engine/assert.ts";
import { SANDBOX_LIMITS } from "./limits.ts";
import { withSource } from "./place.ts";
import type { Lodging, Places } from "./place.ts";
import { bundleKey, lostAnswer } from "./wire.ts";
import type { Answer, BundleSource, HeapId, Order } from "./wire.ts";

type HeapOrder = Extract<Order, { kind: "pass" | "snapshot" | "close" }>;

export class HostDesk {
  readonly #places: Places;
  /** By the main side's number of the heap; the lodging has its own. */
  readonly #lodgings = new Map<HeapId, Lodging>();
  readonly #sources = new Map<string, BundleSource>();

  constructor(places: Places) {
    this.#places = places;
  }

  async perform(order: Order): Promise<Answer | null> {
    switch (order.kind) {
      case "bundle":
        this.#keep(order.source);
        return null;
      case "open":
      case "inspect":
        return this.#lodge(order);
      case "pass":
      case "snapshot":
      case "close":
        return this.#hand(order);
      default:
        return assertNever(order);
    }
  }

  async #lodge(order: Extract<Order, { kind: "open" | "inspect" }>): Promise<Answer> {
    const { bundle, limits } = order;
    const source = this.#sources.get(bundleKey(bundle));
    if (source === undefined) return { kind: "bundle_unknown" };
    const runId = order.kind === "open" ? order.runId : null;
    const lodging = await this.#places.lodge({ tenantId: bundle.tenantId, runId, limits });
    const { place, heapId } = lodging;
    const answer: Answer =
      order.kind === "open"
        ? await withSource(source, place, () => place.order({ ...order, heapId }))
        : await withSource(source, place, () => place.order({ ...order, heapId }));
    if (answer.kind === "opened") {
      lodging.note(answer.heapBytes);
      this.#lodgings.set(order.heapId, lodging);
    } else {
      lodging.release();
    }
    return answer;
  }

  async #hand(order: HeapOrder): Promise<Answer | null> {
    const lodging = this.#lodgings.get(order.heapId);
    if (lodging === undefined) return lostAnswer(order, "there is no such heap here");
    const answer = await lodging.place.order({ ...order, heapId: lodging.heapId });
    if (answer?.kind === "report") lodging.note(answer.usage.heapBytes);
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
