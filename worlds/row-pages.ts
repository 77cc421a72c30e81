/**
 * Pages of packed rows, bounded in events and in bytes, over any reader of rows.
 *
 * Owns that bound: rows are read a few at a time, so that a page of the largest events never asks
 * for more memory than a page of small ones by much.
 */
import type { Slot } from "../engine/slots.ts";
import type { PackedRows } from "./event-record.ts";
import { slotOfRow } from "./event-record.ts";

/** Rows of one read: at most 32 MiB with the largest events. */
const READ_ROWS = 64;

export interface PageBounds {
  readonly afterSlot: Slot;
  readonly limit: number;
  readonly bytesMax: number;
}

/** The first rows above a slot; `hasMore` if the bounds left any out. At least one, if there is one. */
export function rowsUpTo(
  read: (afterSlot: Slot, count: number) => readonly PackedRows[],
  { afterSlot, limit, bytesMax }: PageBounds,
): { readonly rows: readonly PackedRows[]; readonly hasMore: boolean } {
  const rows: PackedRows[] = [];
  let bytes = 0;
  let position = afterSlot;
  while (rows.length < limit) {
    const count = Math.min(READ_ROWS, limit - rows.length + 1);
    const found = read(position, count);
    for (const row of found) {
      const isFull = rows.length === limit || (rows.length > 0 && bytes + row.length > bytesMax);
      if (isFull) return { rows, hasMore: true };
      rows.push(row);
      bytes += row.length;
      position = slotOfRow(row);
    }
    if (found.length < count) return { rows, hasMore: false };
  }
  return { rows, hasMore: limit > 0 && read(position, 1).length > 0 };
}
