/**
 * Between the face of a World and its ledger: how calls get there, and how effects come back.
 * Types only; the memory World's core is a direct call, the local World's a thread.
 */
import type { ArgsOf, Effects, LedgerPart, MethodOf, ResultOf } from "./ledger.ts";

export interface Core {
  /** One atomic step. Rejects with the ledger's own error, or with `WORLD_UNAVAILABLE`. */
  call<P extends LedgerPart, M extends MethodOf<P>>(
    part: P,
    method: M,
    ...args: ArgsOf<P, M>
  ): Promise<ResultOf<P, M>>;
  /** Who hears of deliveries and new events, each after its commit and in its order. */
  listen(onEffects: (effects: Effects) => void): void;
  /** Nothing is due before this time; then a look is worth it. */
  poke(): void;
  /** What was removed is no longer in any file of ours. */
  scrub(): Promise<void>;
  close(): Promise<void>;
}
