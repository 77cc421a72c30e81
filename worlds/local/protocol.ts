/** What the main thread and the SQLite thread say to each other: types. */
import type { CrossingError } from "../crossing.ts";
import type { Effects, LedgerCall } from "../ledger.ts";

/** What a write is sure to survive, named by what the others may lose. */
export type LocalDurability =
  /** Each answer comes after an fdatasync. */
  | "full"
  /** A power cut may take the newest commits back; the file stays whole. */
  | "power-loss-loses-newest"
  /** A power cut may damage the file. */
  | "power-loss-may-corrupt";

export interface ThreadSetup {
  readonly path: string;
  readonly durability: LocalDurability;
  readonly isReadOnly: boolean;
  /** Epoch ms: when what a dead process held falls due. */
  readonly now: number;
}

export type Control =
  | { readonly kind: "integrity" }
  | { readonly kind: "backup"; readonly target: string }
  | { readonly kind: "scrub" }
  | { readonly kind: "pragma"; readonly name: "synchronous" | "journal_mode" }
  | { readonly kind: "close" };

export type ToThread =
  | { readonly kind: "batch"; readonly now: number; readonly calls: readonly LedgerCall[] }
  | { readonly kind: "control"; readonly control: Control };

export type CallResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: CrossingError };

export type FromThread =
  | { readonly kind: "opened" }
  | { readonly kind: "failed"; readonly error: CrossingError }
  | {
      readonly kind: "batch";
      /** In the order of the calls; a refusal is carried inside as well. */
      readonly results: readonly CallResult[];
      readonly effects: Effects | null;
    }
  | { readonly kind: "control"; readonly result: CallResult };
