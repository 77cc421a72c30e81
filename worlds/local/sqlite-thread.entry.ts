/**
 * The thread that owns SQLite. Runs nothing but the ledger; knows no handler and no tenant code.
 *
 * Owns transactions: all calls of a batch commit together, and nobody hears of any of them before.
 * A call that the rules refuse has written nothing and stays in its batch; a call that fails for
 * another reason takes the batch back, and each call is then tried alone.
 *
 * W32  An answer is posted after the commit that holds it.
 * W33  At open, what a dead process held is due at once.
 */
import { parentPort, workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import { present } from "../../engine/assert.ts";
import { BatonError } from "../../engine/errors.ts";
import { crossing } from "../crossing.ts";
import { messageIdsFrom } from "../message-ids.ts";
import type { Ledger, LedgerCall, LedgerHandle } from "../ledger.ts";
import { carryOut, ledgerOver } from "../ledger.ts";
import { systemRandom } from "../platform.ts";
import { holdLock } from "./lock.ts";
import { checkIntegrity } from "./maintenance.ts";
import type { CallResult, Control, FromThread, ThreadSetup, ToThread } from "./protocol.ts";
import { cellTable, messageTable } from "./queue-tables.ts";
import {
  entityTable,
  eventTable,
  resumeTable,
  runTable,
  sweeper,
  tokenTable,
} from "./run-tables.ts";
import { migrate, requirePresentVersion } from "./schema.ts";

const SYNCHRONOUS = {
  full: "FULL",
  "power-loss-loses-newest": "NORMAL",
  "power-loss-may-corrupt": "OFF",
} as const;
/** Rows of removed runs that one transaction takes away. */
const SWEEP_ROWS = 2_000;
/** Between checkpoints: 16 MiB of WAL. */
const CHECKPOINT_PAGES = 4_000;

const port = present(parentPort, "the SQLite thread is a worker");
const post = (message: FromThread): void => {
  port.postMessage(message);
};

interface Store {
  readonly database: Database.Database;
  readonly handle: LedgerHandle;
  readonly sweep: (rowsMax: number) => boolean;
  readonly isReadOnly: boolean;
  readonly releaseLock: () => void;
}

function openStore({ path, durability, isReadOnly, now }: ThreadSetup): Store {
  const releaseLock = isReadOnly ? () => undefined : holdLock(path);
  const database = new Database(path, { readonly: isReadOnly, fileMustExist: isReadOnly });
  database.pragma("busy_timeout = 5000");
  if (!isReadOnly) {
    database.pragma("journal_mode = WAL");
    database.pragma(`synchronous = ${SYNCHRONOUS[durability]}`);
    database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    // What is removed is overwritten: a purged tenant must not be found in free pages.
    database.pragma("secure_delete = ON");
    migrate(database);
  } else requirePresentVersion(database);
  database.pragma("cache_size = -65536");
  database.pragma("temp_store = MEMORY");
  const handle = ledgerOver(
    {
      runs: runTable(database),
      events: eventTable(database),
      entities: entityTable(database),
      tokens: tokenTable(database),
      resumes: resumeTable(database),
      cells: cellTable(database),
      messages: messageTable(database),
    },
    messageIdsFrom(systemRandom),
  );
  const sweep = sweeper(database);
  if (!isReadOnly) database.transaction(() => handle.ledger.queue.recover(now))();
  return { database, handle, sweep, isReadOnly, releaseLock };
}

/** The calls of one transaction. Throws if the transaction as a whole failed. */
function committed(store: Store, calls: readonly LedgerCall[], now: number): FromThread {
  const { database, handle } = store;
  database.exec("BEGIN");
  try {
    const results = calls.map((call) => attempted(handle.ledger, call));
    const queue = store.isReadOnly ? { deliveries: [], nextDueAt: null } : handle.flush(now);
    database.exec("COMMIT");
    handle.committed();
    return {
      kind: "batch",
      results,
      effects: store.isReadOnly ? null : { ...queue, appended: handle.takeAppended() },
    };
  } catch (error) {
    if (database.inTransaction) database.exec("ROLLBACK");
    handle.rolledBack();
    throw error;
  }
}

/** A refusal by the rules is an answer; anything else takes the transaction back. */
function attempted(ledger: Ledger, call: LedgerCall): CallResult {
  try {
    return { ok: true, value: carryOut(ledger, call) };
  } catch (error) {
    if (error instanceof BatonError) return { ok: false, error: crossing(error) };
    throw error;
  }
}

function runBatch(store: Store, calls: readonly LedgerCall[], now: number): void {
  try {
    post(committed(store, calls, now));
    return;
  } catch (error) {
    if (calls.length <= 1) {
      post({ kind: "batch", results: calls.map(() => failure(error)), effects: null });
      return;
    }
  }
  // One of them is at fault: alone, the others go through.
  const results: CallResult[] = [];
  for (const call of calls) {
    try {
      const alone = committed(store, [call], now);
      if (alone.kind !== "batch") continue;
      results.push(...alone.results);
      post({ ...alone, results: [] });
    } catch (error) {
      results.push(failure(error));
    }
  }
  post({ kind: "batch", results, effects: null });
}

function failure(error: unknown): CallResult {
  return { ok: false, error: crossing(error) };
}

/** Others are served in between. */
async function sweepAll(store: Store): Promise<void> {
  while (store.database.transaction(() => store.sweep(SWEEP_ROWS))()) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}

async function runControl(store: Store, control: Control): Promise<unknown> {
  const { database } = store;
  switch (control.kind) {
    case "integrity":
      return checkIntegrity(database);
    case "backup":
      await database.backup(control.target);
      return null;
    case "scrub":
      await sweepAll(store);
      truncateWal(database);
      return null;
    case "pragma":
      return database.pragma(control.name, { simple: true });
    case "close":
      database.close();
      store.releaseLock();
      return null;
    default:
      throw new TypeError("the thread knows each control");
  }
}

/** A reader that holds an old view of the file keeps the WAL from being emptied. */
function truncateWal(database: Database.Database): void {
  const [done] = database.pragma("wal_checkpoint(TRUNCATE)") as { readonly busy: number }[];
  if (done?.busy === 0) return;
  throw new BatonError(
    "WORLD_UNAVAILABLE",
    "what was removed is still in the WAL: it is being read",
    {
      field: "wal_checkpoint",
    },
  );
}

/** Removed runs are swept in between, a little at a time, while nobody waits. */
function sweepLater(store: Store): void {
  setImmediate(() => {
    if (!store.database.open || store.isReadOnly) return;
    if (store.database.transaction(() => store.sweep(SWEEP_ROWS))()) sweepLater(store);
  });
}

function serve(store: Store): void {
  port.on("message", (message: ToThread) => {
    if (message.kind === "batch") {
      runBatch(store, message.calls, message.now);
      if (message.calls.some((call) => call.method.startsWith("purge"))) sweepLater(store);
      return;
    }
    runControl(store, message.control)
      .then(
        (value): CallResult => ({ ok: true, value }),
        (error: unknown): CallResult => failure(error),
      )
      .then((result) => {
        post({ kind: "control", result });
        if (message.control.kind === "close") port.close();
      })
      .catch(() => undefined);
  });
  sweepLater(store);
}

try {
  const store = openStore(workerData as ThreadSetup);
  post({ kind: "opened" });
  serve(store);
} catch (error) {
  post({ kind: "failed", error: crossing(error) });
}
