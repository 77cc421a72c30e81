/**
 * Where heaps live, as the main side sees it: a place takes orders and answers them, and may be
 * gone at any instant; then every order of it is answered "lost".
 */
import type { RunId, TenantId } from "../engine/ids.ts";
import type { HeapLimits } from "../engine/ports/sandbox.ts";
import type { Answer, AnswerTo, BundleSource, HeapId, Order } from "./wire.ts";

export interface Place {
  /** Never rejects for what becomes of a heap or of the place. */
  order<K extends Order["kind"]>(order: Extract<Order, { kind: K }>): Promise<AnswerTo<K>>;
  /** Hands the source over, unless the place has had it. */
  supply(source: BundleSource): void;
  /** The place says it has not; the next `supply` hands it over again. */
  forget(source: BundleSource): void;
}

/** One heap's right to be somewhere. */
export interface Lodging {
  readonly place: Place;
  readonly heapId: HeapId;
  /** Bytes that the heap now has; counted against what the places may hold together. */
  note(heapBytes: number): void;
  release(): void;
}

export interface LodgingRequest {
  readonly tenantId: TenantId;
  /** Null: for a bundle that is looked at, not run. */
  readonly runId: RunId | null;
  readonly limits: HeapLimits;
  readonly use: LodgingUse;
  /** Of the CPU, next to other tenants' on the same thread; 1 if absent. */
  readonly weight?: number;
  /** Told if the heap is gone without having been asked for anything; not after `release`. */
  readonly onGone?: (reason: string) => void;
}

export type LodgingUse =
  | { readonly kind: "workflow" }
  /** `isAlone`: on a thread that serves no other tenant while it runs. */
  | { readonly kind: "step"; readonly isAlone: boolean };

export interface Places {
  /** Waits until there is room. */
  lodge(request: LodgingRequest): Promise<Lodging>;
  close(): Promise<void>;
}

/** Places keep only some sources; one that has dropped this one is given it again, once. */
export async function withSource<T extends Answer>(
  source: BundleSource,
  place: Place,
  ask: () => Promise<T>,
): Promise<Exclude<T, { kind: "bundle_unknown" }> | { kind: "lost"; reason: string }> {
  place.supply(source);
  let answer = await ask();
  if (answer.kind === "bundle_unknown") {
    place.forget(source);
    place.supply(source);
    answer = await ask();
  }
  if (answer.kind !== "bundle_unknown") {
    return answer as Exclude<T, { kind: "bundle_unknown" }>;
  }
  return { kind: "lost", reason: "the bundle's source did not arrive" };
}
