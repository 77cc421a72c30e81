/**
 * The queue's messages and the small values in SQLite: the ledger's tables over prepared
 * statements. Decides nothing.
 *
 * A message's body is V8's own serialization, whose format Node documents as safe to keep.
 */
import { deserialize, serialize } from "node:v8";
import type { Database } from "better-sqlite3";
import type { MessageId, TenantId } from "../../engine/ids.ts";
import type { Message } from "../../engine/ports/queue.ts";
import type { Cell, CellSize, CellSum, CellTable, MessageRow, MessageTable } from "../tables.ts";

interface StoredMessage {
  message_id: string;
  key: string | null;
  due_at: number;
  state: number;
  delivery_count: number;
  uncounted: number;
  body: Uint8Array;
}

const columns = "message_id, key, due_at, state, delivery_count, uncounted, body";

export function messageTable(db: Database): MessageTable {
  const get = db.prepare<unknown[], StoredMessage>(
    `SELECT ${columns} FROM message WHERE message_id = ?`,
  );
  const byKey = db.prepare<unknown[], StoredMessage>(
    `SELECT ${columns} FROM message WHERE tenant = ? AND run_id = ? AND key = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO message (tenant, run_id, kind, ${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    "UPDATE message SET due_at = ?, state = ?, delivery_count = ?, uncounted = ? " +
      "WHERE message_id = ?",
  );
  const remove = db.prepare("DELETE FROM message WHERE message_id = ?");
  const release = db.prepare("UPDATE message SET state = 1, due_at = ? WHERE state = 2");
  const removeRun = db.prepare("DELETE FROM message WHERE tenant = ? AND run_id = ?");
  const removeTenant = db.prepare("DELETE FROM message WHERE tenant = ?");
  return {
    get: (messageId) => rowOf(get.get(messageId)),
    byKey: (tenantId, runId, key) => rowOf(byKey.get(tenantId, runId, key)),
    insert: (row, now) => {
      const { message, messageId, key } = row;
      insert.run(
        message.tenantId,
        message.runId,
        message.kind,
        messageId,
        key,
        row.dueAt,
        stateOf(row, now),
        row.deliveryCount,
        row.uncounted,
        serialize(message),
      );
    },
    update: (row, now) => {
      const { messageId, dueAt, deliveryCount, uncounted } = row;
      update.run(dueAt, stateOf(row, now), deliveryCount, uncounted, messageId);
    },
    delete: (messageId) => {
      remove.run(messageId);
    },
    ...turns(db),
    releaseClaimed: (now) => {
      release.run(now);
    },
    removeRun: (tenantId, runId) => {
      removeRun.run(tenantId, runId);
    },
    removeTenant: (tenantId) => {
      removeTenant.run(tenantId);
    },
  };
}

/** Whose turn it is. What is not due yet ripens by time, once; nothing here walks over the rest. */
function turns(db: Database): Pick<MessageTable, "tenantWithDue" | "firstDue" | "nextDueAt"> {
  const ripen = db.prepare("UPDATE message SET state = 1 WHERE state = 0 AND due_at <= ?");
  const nextTenant = db
    .prepare<unknown[], string>(
      "SELECT tenant FROM message WHERE state = 1 AND kind = ? AND tenant > ? " +
        "ORDER BY tenant LIMIT 1",
    )
    .pluck();
  const firstDue = db.prepare<unknown[], StoredMessage>(
    `SELECT ${columns} FROM message WHERE state = 1 AND kind = ? AND tenant = ? ` +
      "ORDER BY due_at, place LIMIT 1",
  );
  const nextDue = db
    .prepare<[], number | null>("SELECT MIN(due_at) FROM message WHERE state = 0")
    .pluck();
  return {
    tenantWithDue: (kind, after, now) => {
      ripen.run(now);
      return (nextTenant.get(kind, after) as TenantId | undefined) ?? null;
    },
    firstDue: (kind, tenantId) => rowOf(firstDue.get(kind, tenantId)),
    nextDueAt: (now) => {
      ripen.run(now);
      return nextDue.get() ?? null;
    },
  };
}

function stateOf({ isClaimed, dueAt }: MessageRow, now: number): 0 | 1 | 2 {
  if (isClaimed) return 2;
  return dueAt <= now ? 1 : 0;
}

function rowOf(row: StoredMessage | undefined): MessageRow | null {
  if (row === undefined) return null;
  return {
    messageId: row.message_id as MessageId,
    message: deserialize(row.body) as Message,
    key: row.key,
    dueAt: row.due_at,
    isClaimed: row.state === 2,
    deliveryCount: row.delivery_count,
    uncounted: row.uncounted,
  };
}

export function cellTable(db: Database): CellTable {
  const place = "tenant = ? AND owner = ? AND space = ? AND name = ?";
  const get = db.prepare<unknown[], Cell>(
    `SELECT head, bytes FROM cell WHERE ${place} AND idx = ?`,
  );
  const put = db.prepare(
    "INSERT INTO cell (tenant, owner, space, name, idx, head, bytes) VALUES (?, ?, ?, ?, ?, ?, ?) " +
      "ON CONFLICT (tenant, owner, space, name, idx) DO UPDATE SET " +
      "head = excluded.head, bytes = excluded.bytes",
  );
  const remove = db.prepare(`DELETE FROM cell WHERE ${place} AND idx = ?`);
  const range = db.prepare<unknown[], Cell>(
    `SELECT head, bytes FROM cell WHERE ${place} AND idx >= ? ORDER BY idx LIMIT ?`,
  );
  const names = db.prepare<unknown[], { name: string; head: string }>(
    "SELECT name, head FROM cell WHERE tenant = ? AND owner = ? AND space = ? AND name > ? " +
      "AND idx = 0 ORDER BY name LIMIT ?",
  );
  const sizes = db.prepare<unknown[], CellSize>(
    'SELECT owner, COALESCE(LENGTH(bytes), 0) AS bytes, rowid AS "order" FROM cell ' +
      "WHERE tenant = ? AND space = ? AND rowid > ? ORDER BY rowid LIMIT ?",
  );
  const sums = db.prepare<unknown[], CellSum>(
    "SELECT space, COUNT(*) AS count, COALESCE(SUM(LENGTH(bytes)), 0) AS bytes FROM cell " +
      "WHERE tenant = ? AND owner = ? GROUP BY space",
  );
  const removeOwner = db.prepare("DELETE FROM cell WHERE tenant = ? AND owner = ?");
  const removeTenant = db.prepare(
    "DELETE FROM cell WHERE rowid IN (SELECT rowid FROM cell WHERE tenant = ? LIMIT ?)",
  );
  return {
    get: ({ tenantId, owner, space, name, index }) =>
      get.get(tenantId, owner, space, name, index) ?? null,
    put: ({ tenantId, owner, space, name, index }, { head, bytes }) => {
      put.run(tenantId, owner, space, name, index, head, bytes);
    },
    delete: ({ tenantId, owner, space, name, index }) =>
      remove.run(tenantId, owner, space, name, index).changes > 0,
    range: ({ tenantId, owner, space, name, index }, limit) =>
      range.all(tenantId, owner, space, name, index, limit),
    names: ({ tenantId, owner, space, name }, limit) =>
      names.all(tenantId, owner, space, name, limit),
    sizes: (tenantId, space, after, limit) => sizes.all(tenantId, space, after, limit),
    sums: (tenantId, owner) => sums.all(tenantId, owner),
    removeOwner: (tenantId, owner) => {
      removeOwner.run(tenantId, owner);
    },
    removeTenant: (tenantId, rowsMax) => removeTenant.run(tenantId, rowsMax).changes === rowsMax,
  };
}
