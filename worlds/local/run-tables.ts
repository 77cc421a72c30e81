/**
 * Runs, events, entities, tokens and resume ids in SQLite: the ledger's tables over prepared
 * statements. Decides nothing.
 */
import type { Database } from "better-sqlite3";
import { positionOf, slotOf } from "../../engine/slots.ts";
import type { EntityId, RunId } from "../../engine/ids.ts";
import type {
  EntityRecord,
  EntityTable,
  EventTable,
  ResumeTable,
  RunRecord,
  RunTable,
  TokenRecord,
  TokenTable,
} from "../tables.ts";

interface StoredRun {
  key: number;
  tenant: string;
  run_id: string;
  spec_version: number;
  status: string;
  workflow_name: string;
  deployment_id: string;
  attributes: string;
  created_at: number;
  started_at: number | null;
  completed_at: number | null;
  seq: number;
  seq_in_band: number;
  bytes: number;
  digest: Uint8Array;
  parked: string | null;
}

export function runTable(db: Database): RunTable {
  const columns =
    "tenant, run_id, spec_version, workflow_name, deployment_id, created_at, " +
    "status, attributes, started_at, completed_at, seq, seq_in_band, bytes, digest, parked";
  const get = db.prepare<unknown[], StoredRun>(
    `SELECT key, ${columns} FROM run WHERE tenant = ? AND run_id = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO run (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    "UPDATE run SET status = ?, attributes = ?, started_at = ?, completed_at = ?, seq = ?, " +
      "seq_in_band = ?, bytes = ?, digest = ?, parked = ? WHERE key = ?",
  );
  const scan = db.prepare<unknown[], StoredRun>(
    `SELECT key, ${columns} FROM run WHERE tenant = ? AND (created_at, run_id) < (?, ?) ` +
      "ORDER BY created_at DESC, run_id DESC LIMIT ?",
  );
  const finished = db.prepare<unknown[], StoredRun>(
    `SELECT key, ${columns} FROM run WHERE tenant = ? AND completed_at < ? ` +
      "ORDER BY completed_at LIMIT ?",
  );
  const openOn = db
    .prepare(
      "SELECT 1 FROM run WHERE tenant = ? AND deployment_id = ? AND completed_at IS NULL LIMIT 1",
    )
    .pluck();
  const countOpen = db
    .prepare<unknown[], number>(
      "SELECT COUNT(*) FROM (SELECT 1 FROM run WHERE tenant = ? AND completed_at IS NULL LIMIT ?)",
    )
    .pluck();
  const discard = db.prepare("INSERT INTO garbage (run) VALUES (?)");
  const remove = db.prepare("DELETE FROM run WHERE key = ?");
  const discardTenant = db.prepare(
    "INSERT INTO garbage (run) SELECT key FROM run WHERE tenant = ?",
  );
  const removeTenant = db.prepare("DELETE FROM run WHERE tenant = ?");
  return {
    get: (tenantId, runId) => runOf(get.get(tenantId, runId)),
    insert: (run) => {
      const { tenantId, runId, specVersion, workflowName, deploymentId, createdAt } = run;
      const fixed = [tenantId, runId, specVersion, workflowName, deploymentId, createdAt];
      const { lastInsertRowid } = insert.run(...fixed, ...changingOf(run));
      return { ...run, key: Number(lastInsertRowid) };
    },
    update: (run) => {
      update.run(...changingOf(run), run.key);
    },
    scan: (tenantId, below, limit) =>
      scan
        .all(tenantId, below?.createdAt ?? Number.MAX_SAFE_INTEGER, below?.runId ?? "", limit)
        .map(runOfRow),
    finishedBefore: (tenantId, time, limit) => finished.all(tenantId, time, limit).map(runOfRow),
    hasOpenOn: (tenantId, deploymentId) => openOn.get(tenantId, deploymentId) !== undefined,
    countOpen: (tenantId, max) => countOpen.get(tenantId, max) ?? 0,
    remove: (run) => {
      discard.run(run.key);
      remove.run(run.key);
    },
    removeTenant: (tenantId) => {
      discardTenant.run(tenantId);
      removeTenant.run(tenantId);
    },
  };
}

/** The columns that change, in their order. */
function changingOf(run: Omit<RunRecord, "key">) {
  return [
    run.status,
    JSON.stringify(run.attributes),
    run.startedAt,
    run.completedAt,
    run.seq,
    run.seqInBand,
    run.bytes,
    run.digest,
    run.parked === null ? null : JSON.stringify(run.parked),
  ];
}

function runOf(row: StoredRun | undefined): RunRecord | null {
  return row === undefined ? null : runOfRow(row);
}

function runOfRow(row: StoredRun): RunRecord {
  return {
    key: row.key,
    tenantId: row.tenant as RunRecord["tenantId"],
    runId: row.run_id as RunId,
    specVersion: row.spec_version,
    status: row.status as RunRecord["status"],
    workflowName: row.workflow_name,
    deploymentId: row.deployment_id,
    attributes: JSON.parse(row.attributes) as RunRecord["attributes"],
    createdAt: row.created_at,
    startedAt: row.started_at,
    completedAt: row.completed_at,
    seq: row.seq,
    seqInBand: row.seq_in_band,
    bytes: row.bytes,
    digest: row.digest,
    parked: row.parked === null ? null : (JSON.parse(row.parked) as RunRecord["parked"]),
  };
}

export function eventTable(db: Database): EventTable {
  const insert = db.prepare("INSERT INTO event (run, slot, entity, row) VALUES (?, ?, ?, ?)");
  const get = db
    .prepare<unknown[], Uint8Array>("SELECT row FROM event WHERE run = ? AND slot = ?")
    .pluck();
  const range = db
    .prepare<unknown[], Uint8Array>(
      "SELECT row FROM event WHERE run = ? AND slot > ? ORDER BY slot LIMIT ?",
    )
    .pluck();
  const ofEntity = db
    .prepare<unknown[], Uint8Array>(
      "SELECT row FROM event WHERE entity = (SELECT key FROM entity WHERE run = ? AND id = ?) " +
        "AND slot > ? ORDER BY slot LIMIT ?",
    )
    .pluck();
  const entityKey = entityKeys(db);
  return {
    insert: (run, slot, row, correlationId) => {
      insert.run(run.key, slot, correlationId === null ? null : entityKey(run, correlationId), row);
    },
    get: (run, slot) => get.get(run.key, slot) ?? null,
    range: (run, afterSlot, limit) => range.all(run.key, afterSlot, limit),
    ofEntity: (run, id, afterSlot, limit) => ofEntity.all(run.key, id, afterSlot, limit),
  };
}

/** The short name of an entity. Its first event reserves a row, which has no body until it is put. */
function entityKeys(db: Database): (run: RunRecord, id: EntityId) => number | bigint {
  const find = db
    .prepare<unknown[], number>("SELECT key FROM entity WHERE run = ? AND id = ?")
    .pluck();
  const reserve = db.prepare(
    "INSERT INTO entity (run, id, kind, slot, is_open, body) VALUES (?, ?, '', 0, 0, '')",
  );
  return (run, id) => find.get(run.key, id) ?? reserve.run(run.key, id).lastInsertRowid;
}

interface StoredEntity {
  id: string;
  kind: string;
  slot: number;
  is_open: number;
  body: string;
}

export function entityTable(db: Database): EntityTable {
  const columns = "id, kind, slot, is_open, body";
  const get = db.prepare<unknown[], StoredEntity>(
    `SELECT ${columns} FROM entity WHERE run = ? AND id = ? AND body <> ''`,
  );
  const put = db.prepare(
    "INSERT INTO entity (run, id, kind, slot, is_open, body) VALUES (?, ?, ?, ?, ?, ?) " +
      "ON CONFLICT (run, id) DO UPDATE SET kind = excluded.kind, slot = excluded.slot, " +
      "is_open = excluded.is_open, body = excluded.body",
  );
  const open = db.prepare<unknown[], StoredEntity>(
    `SELECT ${columns} FROM entity WHERE run = ? AND is_open = 1 ORDER BY slot`,
  );
  // Along the log, by the events that created them: a listing costs no index of its own.
  const list = db.prepare<unknown[], StoredEntity>(
    "SELECT n.id, n.kind, n.slot, n.is_open, n.body FROM event AS e " +
      "CROSS JOIN entity AS n ON n.key = e.entity AND n.slot = e.slot AND n.kind = ? " +
      "WHERE e.run = ? AND e.slot > ? ORDER BY e.slot LIMIT ?",
  );
  return {
    get: (run, id) => {
      const row = get.get(run.key, id);
      return row === undefined ? null : entityOf(row);
    },
    put: (run, record) => {
      const { id, kind, slot, isOpen, body } = record;
      put.run(run.key, id, kind, slot, isOpen ? 1 : 0, JSON.stringify(body));
    },
    open: (run) => open.all(run.key).map(entityOf),
    list: (run, kind, afterSlot, limit) => list.all(kind, run.key, afterSlot, limit).map(entityOf),
  };
}

function entityOf(row: StoredEntity): EntityRecord {
  return {
    id: row.id as EntityId,
    kind: row.kind,
    slot: slotOf(row.slot),
    isOpen: row.is_open === 1,
    body: JSON.parse(row.body),
  } as EntityRecord;
}

export function tokenTable(db: Database): TokenTable {
  const get = db.prepare<unknown[], Record<string, string | number | null>>(
    "SELECT run_id, hook_id, reserved_until FROM token WHERE tenant = ? AND token_hash = ?",
  );
  const put = db.prepare(
    "INSERT INTO token (tenant, token_hash, run_id, hook_id, reserved_until) " +
      "VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, token_hash) DO UPDATE SET " +
      "run_id = excluded.run_id, hook_id = excluded.hook_id, " +
      "reserved_until = excluded.reserved_until",
  );
  const remove = db.prepare("DELETE FROM token WHERE tenant = ? AND token_hash = ?");
  const removeTenant = db.prepare("DELETE FROM token WHERE tenant = ?");
  return {
    get: (tenantId, tokenHash) => {
      const row = get.get(tenantId, tokenHash);
      if (row === undefined) return null;
      return {
        tenantId,
        tokenHash,
        runId: row["run_id"] as RunId,
        hookId: row["hook_id"] as EntityId,
        reservedUntil: row["reserved_until"] as TokenRecord["reservedUntil"],
      };
    },
    put: ({ tenantId, tokenHash, runId, hookId, reservedUntil }) => {
      put.run(tenantId, tokenHash, runId, hookId, reservedUntil);
    },
    delete: (tenantId, tokenHash) => {
      remove.run(tenantId, tokenHash);
    },
    removeTenant: (tenantId) => {
      removeTenant.run(tenantId);
    },
  };
}

export function resumeTable(db: Database): ResumeTable {
  const get = db
    .prepare<unknown[], number>("SELECT slot FROM resume WHERE run = ? AND resume_id = ?")
    .pluck();
  const put = db.prepare("INSERT INTO resume (run, resume_id, slot) VALUES (?, ?, ?)");
  return {
    get: (run, resumeId) => {
      const slot = get.get(run.key, resumeId);
      return slot === undefined ? null : positionOf(slot);
    },
    put: (run, resumeId, slot) => {
      put.run(run.key, resumeId, slot);
    },
  };
}

/** Takes away rows of removed runs, at most so many of each table; answers whether any are left. */
export function sweeper(db: Database): (rowsMax: number) => boolean {
  const first = db.prepare<unknown[], number>("SELECT run FROM garbage LIMIT 1").pluck();
  const takes = ["event", "entity", "resume"].map((table) =>
    db.prepare(
      `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE run = ? LIMIT ?)`,
    ),
  );
  const done = db.prepare("DELETE FROM garbage WHERE run = ?");
  return (rowsMax) => {
    const run = first.get();
    if (run === undefined) return false;
    const taken = takes.map((take) => take.run(run, rowsMax).changes);
    if (taken.every((count) => count < rowsMax)) done.run(run);
    return true;
  };
}
