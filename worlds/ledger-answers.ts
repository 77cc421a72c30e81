/**
 * What is asked of the ledger of events, and what it answers: plain data that crosses to a thread.
 *
 * Owns no rule.
 */
import type { RunRef } from "../engine/ids.ts";
import type { LogCounts } from "../engine/ports/world.ts";
import type { Slot } from "../engine/slots.ts";
import type { AppendItem, Fence } from "./append.ts";
import type { CrossingError } from "./crossing.ts";
import type { PackedRows } from "./event-record.ts";
import type { PreparedSend } from "./queue-ledger.ts";

export interface AppendRequest extends RunRef {
  readonly items: readonly AppendItem[];
  readonly fence: Fence;
  readonly send: PreparedSend | null;
  readonly resumeId: string | null;
  readonly now: number;
}

export type StoredItem =
  | {
      readonly kind: "stored";
      readonly slot: Slot;
      readonly createdAt: number;
      readonly digest: Uint8Array;
      /** Null: as it was sent. */
      readonly body: Uint8Array | null;
    }
  | { readonly kind: "refused"; readonly refusal: CrossingError };

export interface AppendAnswer {
  readonly items: readonly StoredItem[];
  readonly allocated: number;
  readonly report: PackedRows;
  readonly hasMore: boolean;
}

export interface ListAnswer {
  readonly rows: PackedRows;
  readonly hasMore: boolean;
  readonly snapshot: LogCounts;
  readonly digestBefore: Uint8Array | null;
}

/** New events of a run that somebody watches. */
export interface Appended extends RunRef {
  readonly rows: PackedRows;
  readonly topSlot: Slot;
}
