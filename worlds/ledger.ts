/**
 * The ledger: everything that a World does to its storage, as synchronous steps over any tables.
 * The memory World calls it directly; the local World calls it in the thread that owns SQLite.
 *
 * Owns how its parts fit together. One call is one atomic step; effects (deliveries, new events of
 * watched runs) are taken with `takeEffects` after the commit, never before.
 */
import type { MessageId } from "../engine/ids.ts";
import { CellLedger } from "./cell-ledger.ts";
import type { Appended } from "./ledger-answers.ts";
import { EventLedger } from "./event-ledger.ts";
import type { QueueEffects } from "./queue-ledger.ts";
import { QueueLedger } from "./queue-ledger.ts";
import { RowLedger } from "./row-ledger.ts";
import type { Tables } from "./tables.ts";
import { Journal } from "./undo.ts";

export interface Ledger {
  readonly events: EventLedger;
  readonly queue: QueueLedger;
  readonly rows: RowLedger;
  readonly cells: CellLedger;
}

export type LedgerPart = keyof Ledger;
// Methods are found by type, so that a call across a thread is checked like a direct one.
export type MethodOf<P extends LedgerPart> = {
  [M in keyof Ledger[P]]: Ledger[P][M] extends (...args: never[]) => unknown ? M : never;
}[keyof Ledger[P]];
export type ArgsOf<P extends LedgerPart, M extends MethodOf<P>> = Ledger[P][M] extends (
  ...args: infer A
) => unknown
  ? A
  : never;
export type ResultOf<P extends LedgerPart, M extends MethodOf<P>> = Ledger[P][M] extends (
  ...args: never[]
) => infer R
  ? R
  : never;

/** One call, as data. */
export interface LedgerCall {
  readonly part: LedgerPart;
  readonly method: string;
  readonly args: readonly unknown[];
}

export interface Effects extends QueueEffects {
  readonly appended: readonly Appended[];
}

export interface LedgerHandle {
  readonly ledger: Ledger;
  /** Hands out what is due; inside the transaction. */
  readonly flush: (now: number) => QueueEffects;
  /** After the commit. */
  readonly takeAppended: () => readonly Appended[];
  readonly committed: () => void;
  readonly rolledBack: () => void;
}

export function ledgerOver(tables: Tables, newMessageId: (now: number) => MessageId): LedgerHandle {
  const journal = new Journal();
  const queue = new QueueLedger(tables, journal, newMessageId);
  const events = new EventLedger(tables, queue);
  const rows = new RowLedger(tables);
  const cells = new CellLedger(tables, rows);
  return {
    ledger: { events, queue, rows, cells },
    flush: (now) => queue.flush(now),
    takeAppended: () => events.takeAppended(),
    committed: () => {
      journal.commit();
    },
    rolledBack: () => {
      journal.rollback();
      queue.drop();
      events.dropAppended();
    },
  };
}

/** Carries out a call that came as data from our own side of a thread border. */
export function carryOut(ledger: Ledger, { part, method, args }: LedgerCall): unknown {
  const target = ledger[part] as unknown as Record<string, (...args: unknown[]) => unknown>;
  const run = target[method];
  if (run === undefined) throw new TypeError(`the ledger has no ${part}.${method}`);
  return run.apply(target, [...args]);
}
