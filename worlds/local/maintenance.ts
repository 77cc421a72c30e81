/**
 * Whether a local World's file is sound: what SQLite says, and what the contract says.
 *
 * Owns the check of logs: dense slots, the chain of digests, and counts that agree with the rows.
 */
import type { Database } from "better-sqlite3";
import type { RunId } from "../../engine/ids.ts";
import type { EventRow } from "../event-record.ts";
import { EMPTY_DIGEST, nextDigest, unpackRows } from "../event-record.ts";

/** Findings that one check lists; more are only counted. */
const FINDINGS_MAX = 100;

export interface IntegrityReport {
  readonly ok: boolean;
  readonly runs: number;
  readonly events: number;
  readonly problems: number;
  /** The first of them, for people. */
  readonly findings: readonly string[];
}

interface CheckedRun {
  readonly key: number;
  readonly run_id: string;
  readonly seq: number;
  readonly digest: Buffer;
}

export function checkIntegrity(database: Database): IntegrityReport {
  const findings: string[] = [];
  let problems = 0;
  const report = (finding: string) => {
    problems++;
    if (findings.length < FINDINGS_MAX) findings.push(finding);
  };
  for (const line of database.prepare("PRAGMA integrity_check").pluck().all() as string[]) {
    if (line !== "ok") report(`sqlite: ${line}`);
  }
  const next = database.prepare<unknown[], CheckedRun>(
    "SELECT key, run_id, seq, digest FROM run WHERE key > ? ORDER BY key LIMIT 1",
  );
  let runCount = 0;
  let eventCount = 0;
  for (let run = next.get(0); run !== undefined; run = next.get(run.key)) {
    runCount++;
    eventCount += checkLog(database, run, report);
  }
  return { ok: problems === 0, runs: runCount, events: eventCount, problems, findings };
}

function checkLog(database: Database, run: CheckedRun, report: (finding: string) => void): number {
  const events = database
    .prepare<unknown[], Buffer>("SELECT row FROM event WHERE run = ? ORDER BY slot")
    .pluck()
    .iterate(run.key);
  let digest: Uint8Array = EMPTY_DIGEST;
  let count = 0;
  for (const packed of events) {
    count++;
    const row = readable(packed);
    if (row === null) {
      report(`${run.run_id}: slot ${count} cannot be read`);
      continue;
    }
    if (row.slot !== count) report(`${run.run_id}: slot ${count} is missing or doubled`);
    digest = nextDigest(digest, run.run_id as RunId, row);
    if (Buffer.compare(row.digest, digest) !== 0) {
      report(`${run.run_id}: slot ${count} is not what was written`);
    }
  }
  if (count !== run.seq) report(`${run.run_id}: holds ${count} events, counts ${run.seq}`);
  if (!run.digest.equals(digest)) report(`${run.run_id}: the log ends in another digest`);
  return count;
}

function readable(packed: Buffer): EventRow | null {
  try {
    return unpackRows(packed)[0] ?? null;
  } catch {
    return null;
  }
}
