/**
 * Reads of runs, steps, waits and hooks over any tables, parking, and the removal of what is over.
 *
 * Owns pages and cursors of these listings. Writes no event.
 *
 * W11  A listing bounds what it scans, not only what it returns: a page may be short, and is the
 *      last one only if its cursor is null.
 * W12  Removal is whole: after it nothing of the run, or of the tenant, is found by any read.
 */
import type { BundleHash, EntityId, RunId, RunRef, TenantId } from "../engine/ids.ts";
import type { ParkedReason, RunFilter, StoredUse } from "../engine/ports/world.ts";
import type { Slot } from "../engine/slots.ts";
import { positionOf } from "../engine/slots.ts";
import { runNotFound } from "./event-ledger.ts";
import { rowOf } from "./event-record.ts";
import type { CellSum, EntityRecord, RunPosition, RunRecord, Tables } from "./tables.ts";

/** Rows of runs that one page may look at. */
const RUN_SCAN_MAX = 5_000;
const RUN_SCAN_CHUNK = 500;
/** Blobs, snapshots and chunks that one step of a tenant's purge takes away. */
const PURGE_CELLS = 64;
/** Runs that one step of a measurement counts. */
const MEASURED_RUNS = 250;

/** An entity with the body of the event that made it, where its row needs that. */
export interface EntityAnswer {
  readonly record: EntityRecord;
  /** A hook's token and metadata are payloads: they stand in its creation event only. */
  readonly createdBody: Uint8Array | null;
}

export interface RunPage {
  readonly runs: readonly RunRecord[];
  readonly next: RunPosition | null;
}

export interface EntityPage {
  readonly entities: readonly EntityAnswer[];
  readonly next: Slot | null;
}

export interface UsePage {
  readonly use: StoredUse;
  readonly next: RunPosition | null;
}

export class RowLedger {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  run({ tenantId, runId }: RunRef): RunRecord | null {
    return this.#tables.runs.get(tenantId, runId);
  }

  runs(tenantId: TenantId, filter: RunFilter, below: RunPosition | null, limit: number): RunPage {
    const found: RunRecord[] = [];
    let from = startOf(filter, below);
    for (let scanned = 0; scanned < RUN_SCAN_MAX;) {
      const chunk = this.#tables.runs.scan(tenantId, from, RUN_SCAN_CHUNK);
      for (const run of chunk) {
        if (filter.createdFrom !== undefined && run.createdAt < filter.createdFrom) {
          return { runs: found, next: null };
        }
        from = { createdAt: run.createdAt, runId: run.runId };
        if (matches(run, filter)) found.push(run);
        if (found.length === limit) return { runs: found, next: from };
      }
      if (chunk.length < RUN_SCAN_CHUNK) return { runs: found, next: null };
      scanned += chunk.length;
    }
    return { runs: found, next: from };
  }

  park(place: RunRef, reason: ParkedReason): void {
    this.#tables.runs.update({ ...this.#existing(place), parked: reason });
  }

  unpark(place: RunRef): boolean {
    const run = this.#existing(place);
    if (run.parked === null) return false;
    this.#tables.runs.update({ ...run, parked: null });
    return true;
  }

  entity(place: RunRef, kind: EntityRecord["kind"], id: EntityId): EntityAnswer | null {
    const run = this.run(place);
    const record = run === null ? null : this.#tables.entities.get(run, id);
    if (run === null || record?.kind !== kind || isUnborn(record)) return null;
    return this.#answer(run, record);
  }

  entities(place: RunRef, kind: EntityRecord["kind"], afterSlot: Slot, limit: number): EntityPage {
    const run = this.run(place);
    if (run === null) return { entities: [], next: null };
    const found = this.#tables.entities.list(run, kind, afterSlot, limit);
    const last = found.at(-1);
    return {
      entities: found.filter((record) => !isUnborn(record)).map((r) => this.#answer(run, r)),
      next: found.length < limit || last === undefined ? null : positionOf(last.slot),
    };
  }

  open(place: RunRef): readonly EntityAnswer[] {
    const run = this.run(place);
    if (run === null) return [];
    return this.#tables.entities.open(run).map((record) => this.#answer(run, record));
  }

  hookByToken(
    tenantId: TenantId,
    tokenHash: string,
  ): (EntityAnswer & { readonly runId: RunId }) | null {
    const token = this.#tables.tokens.get(tenantId, tokenHash);
    if (token === null || token.reservedUntil !== null) return null;
    const answer = this.entity({ tenantId, runId: token.runId }, "hook", token.hookId);
    return answer === null ? null : { ...answer, runId: token.runId };
  }

  hasOpenRunOn(tenantId: TenantId, deploymentId: BundleHash): boolean {
    return this.#tables.runs.hasOpenOn(tenantId, deploymentId);
  }

  countOpen(tenantId: TenantId, max: number): number {
    return this.#tables.runs.countOpen(tenantId, max);
  }

  /** What is held of so many runs; the first page counts what belongs to no run as well. */
  measure(tenantId: TenantId, below: RunPosition | null): UsePage {
    const runs = this.#tables.runs.scan(tenantId, below, MEASURED_RUNS);
    const cells = runs.flatMap((run) => this.#tables.cells.sums(tenantId, run.runId));
    if (below === null) cells.push(...this.#tables.cells.sums(tenantId, ""));
    const last = runs.at(-1);
    return {
      use: useOf(runs, cells),
      next: last === undefined || runs.length < MEASURED_RUNS ? null : last,
    };
  }

  purgeFinished(tenantId: TenantId, finishedBefore: number, limit: number): number {
    const runs = this.#tables.runs.finishedBefore(tenantId, finishedBefore, limit);
    for (const run of runs) {
      this.#tables.messages.removeRun(tenantId, run.runId);
      this.#tables.cells.removeOwner(tenantId, run.runId);
      this.#tables.runs.remove(run);
    }
    return runs.length;
  }

  /** Called until it answers false: what is large goes in many steps, so that others are served. */
  purgeTenant(tenantId: TenantId): boolean {
    this.#tables.messages.removeTenant(tenantId);
    this.#tables.tokens.removeTenant(tenantId);
    this.#tables.runs.removeTenant(tenantId);
    return this.#tables.cells.removeTenant(tenantId, PURGE_CELLS);
  }

  #existing(place: RunRef): RunRecord {
    const run = this.run(place);
    if (run === null) throw runNotFound();
    return run;
  }

  #answer(run: RunRecord, record: EntityRecord): EntityAnswer {
    if (record.kind !== "hook") return { record, createdBody: null };
    const created = this.#tables.events.get(run, record.slot);
    return { record, createdBody: created === null ? null : rowOf(created).body };
  }
}

function useOf(runs: readonly RunRecord[], cells: readonly CellSum[]): StoredUse {
  const ofRuns = (count: (run: RunRecord) => number) =>
    runs.reduce((sum, run) => sum + count(run), 0);
  const ofCells = (space: CellSum["space"], field: "count" | "bytes") =>
    cells.reduce((sum, cell) => sum + (cell.space === space ? cell[field] : 0), 0);
  return {
    runs: runs.length,
    openRuns: ofRuns((run) => (run.completedAt === null ? 1 : 0)),
    events: ofRuns((run) => run.seq),
    eventBytes: ofRuns((run) => run.bytes),
    blobBytes: ofCells("blob", "bytes"),
    streamBytes: ofCells("chunk", "bytes"),
    snapshotBytes: ofCells("snapshot", "bytes"),
    bundles: ofCells("bundle", "count"),
    bundleBytes: ofCells("bundle", "bytes"),
  };
}

/** A hook that met a taken token never came to be: its row only makes its creation idempotent. */
function isUnborn(record: EntityRecord): boolean {
  return record.kind === "hook" && record.body.status === "conflict";
}

function startOf(filter: RunFilter, below: RunPosition | null): RunPosition | null {
  if (below !== null || filter.createdBefore === undefined) return below;
  // The smallest run id: everything of that very millisecond is left out.
  return { createdAt: filter.createdBefore, runId: "" as RunId };
}

function matches(run: RunRecord, filter: RunFilter): boolean {
  if (filter.status !== undefined && run.status !== filter.status) return false;
  if (filter.workflowName !== undefined && run.workflowName !== filter.workflowName) return false;
  return filter.parked === undefined || (run.parked !== null) === filter.parked;
}
