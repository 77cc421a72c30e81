/**
 * The local World's file: its tables, and how an older file becomes a present one.
 *
 * Owns the schema's version, kept as a row of `baton_meta`. A file of a later version, or one that
 * is not ours, is refused and left as it is.
 *
 * Tables have rowids, and (run, slot) is an index: a table clustered by run would dirty a page for
 * each run of a commit, and group commit across runs would gain nothing. For the same reason only
 * two indexes that every append touches begin with the run; others begin with a key that grows with
 * time, so that all runs of a commit share their last page.
 */
import type { Database } from "better-sqlite3";
import { BatonError } from "../../engine/errors.ts";

/** One entry for each version: what leads from the version before to it. Only ever added to. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE run (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    spec_version INTEGER NOT NULL,
    status TEXT NOT NULL,
    workflow_name TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    attributes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    seq INTEGER NOT NULL,
    seq_in_band INTEGER NOT NULL,
    digest BLOB NOT NULL,
    parked TEXT
  );
  CREATE UNIQUE INDEX run_by_id ON run (tenant, run_id);
  CREATE INDEX run_by_time ON run (tenant, created_at, run_id);
  CREATE INDEX run_finished ON run (tenant, completed_at) WHERE completed_at IS NOT NULL;
  CREATE INDEX run_open_on ON run (tenant, deployment_id) WHERE completed_at IS NULL;

  -- Runs that are gone for every reader, and whose rows are still to be swept.
  CREATE TABLE garbage (run INTEGER PRIMARY KEY);

  CREATE TABLE event (
    run INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    entity INTEGER,
    row BLOB NOT NULL
  );
  CREATE UNIQUE INDEX event_by_slot ON event (run, slot);
  CREATE INDEX event_by_entity ON event (entity, slot) WHERE entity IS NOT NULL;

  CREATE TABLE entity (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    slot INTEGER NOT NULL,
    is_open INTEGER NOT NULL,
    body TEXT NOT NULL
  );
  CREATE UNIQUE INDEX entity_by_id ON entity (run, id);
  CREATE INDEX entity_open ON entity (run, slot) WHERE is_open = 1;

  CREATE TABLE resume (run INTEGER NOT NULL, resume_id TEXT NOT NULL, slot INTEGER NOT NULL);
  CREATE UNIQUE INDEX resume_by_id ON resume (run, resume_id);

  CREATE TABLE token (
    tenant TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    run_id TEXT NOT NULL,
    hook_id TEXT NOT NULL,
    reserved_until INTEGER
  );
  CREATE UNIQUE INDEX token_by_hash ON token (tenant, token_hash);

  CREATE TABLE cell (
    tenant TEXT NOT NULL,
    space TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    idx INTEGER NOT NULL,
    head TEXT NOT NULL,
    bytes BLOB
  );
  CREATE UNIQUE INDEX cell_by_place ON cell (tenant, owner, space, name, idx);

  CREATE TABLE message (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT,
    due_at INTEGER NOT NULL,
    -- 0 until it is due, 1 once it is (or was sent so), 2 while it is claimed.
    state INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    uncounted INTEGER NOT NULL,
    body BLOB NOT NULL
  );
  CREATE UNIQUE INDEX message_by_id ON message (message_id);
  CREATE UNIQUE INDEX message_by_key ON message (tenant, run_id, key) WHERE key IS NOT NULL;
  CREATE INDEX message_of_run ON message (tenant, run_id);
  -- What is due by turns of the tenants; what is not due yet by time. Neither grows with the other.
  CREATE INDEX message_ready ON message (kind, tenant, due_at, place) WHERE state = 1;
  CREATE INDEX message_later ON message (due_at) WHERE state = 0;
  CREATE INDEX message_claimed ON message (state) WHERE state = 2;
  `,
  `
  ALTER TABLE run ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
  UPDATE run SET bytes =
    (SELECT COALESCE(SUM(LENGTH(row)), 0) FROM event WHERE event.run = run.key);
  `,
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** Brings the file to the present version, in one transaction. */
export function migrate(database: Database): void {
  database.transaction(() => {
    const found = versionOf(database);
    if (found === SCHEMA_VERSION) return;
    refuseUnknown(found);
    if (found === 0) {
      database.exec("CREATE TABLE baton_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL)");
    }
    for (const migration of MIGRATIONS.slice(found)) database.exec(migration);
    database
      .prepare("INSERT OR REPLACE INTO baton_meta (name, value) VALUES ('schema', ?)")
      .run(SCHEMA_VERSION);
  })();
}

/** A reader changes nothing: it takes the file as it is, or not at all. */
export function requirePresentVersion(database: Database): void {
  const found = versionOf(database);
  if (found !== SCHEMA_VERSION) refuseUnknown(found === 0 ? -1 : found + SCHEMA_VERSION);
}

/** 0: the file is empty. */
function versionOf(database: Database): number {
  const tables = database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all();
  if (tables.length === 0) return 0;
  if (!tables.includes("baton_meta")) refuseUnknown(-1);
  const version: unknown = database
    .prepare("SELECT value FROM baton_meta WHERE name = 'schema'")
    .pluck()
    .get();
  return typeof version === "number" ? version : -1;
}

function refuseUnknown(found: number): void {
  if (found >= 0 && found <= SCHEMA_VERSION) return;
  throw new BatonError("WORLD_VERSION", "the file has a schema that this build does not know", {
    field: "schema",
    used: found,
    allowed: SCHEMA_VERSION,
  });
}
