/**
 * Snapshots, bundles, aliases, blobs, streams and tenants' records over any tables: small values
 * beside the logs. Synchronous: one call is one atomic step.
 *
 * W13  A stream's chunks have dense indexes from 0; a closed stream takes no more.
 * W14  A bundle never changes under its hash, and stays while an open run is on it.
 * W15  A tenant's record is replaced only by a writer that has read its present revision.
 */
import { BatonError } from "../engine/errors.ts";
import type { BundleHash, RunId, RunRef, TenantId } from "../engine/ids.ts";
import type {
  StoredBundle,
  StoredSnapshot,
  StoredTenant,
  StreamInfo,
  StreamPage,
} from "../engine/ports/world.ts";
import type { RowLedger } from "./row-ledger.ts";
import type { Cell, CellPlace, CellSize, Tables } from "./tables.ts";

/** Bundles that one listing looks at; quotas keep far below it. */
const BUNDLES_LISTED_MAX = 10_000;
const ALIASES_LISTED_MAX = 10_000;
const STREAMS_LISTED_MAX = 10_000;
const NO_STREAM: StreamInfo = { tailIndex: -1, bytes: 0, done: false };

export class CellLedger {
  readonly #tables: Tables;
  readonly #rows: RowLedger;

  constructor(tables: Tables, rows: RowLedger) {
    this.#tables = tables;
    this.#rows = rows;
  }

  putSnapshot(run: RunRef, { slot, digest, fingerprint, bytes }: StoredSnapshot): void {
    // Put anew, so that the order of snapshots is that of their age.
    this.deleteSnapshot(run);
    this.#put(snapshotAt(run), { slot, digest, fingerprint }, bytes);
  }

  snapshotSizes(tenantId: TenantId, after: number, limit: number): readonly CellSize[] {
    return this.#tables.cells.sizes(tenantId, "snapshot", after, limit);
  }

  snapshot(run: RunRef): StoredSnapshot | null {
    const cell = this.#tables.cells.get(snapshotAt(run));
    if (cell === null) return null;
    const head = JSON.parse(cell.head) as Omit<StoredSnapshot, "bytes">;
    return { ...head, bytes: bytesOf(cell) };
  }

  deleteSnapshot(run: RunRef): void {
    this.#tables.cells.delete(snapshotAt(run));
  }

  putBundle(tenantId: TenantId, bundle: StoredBundle): void {
    const place = at(tenantId, "bundle", "", bundle.hash);
    if (this.#tables.cells.get(place) !== null) return;
    const { hash: _, createdAt, ...sources } = bundle;
    this.#put(place, { createdAt }, Buffer.from(JSON.stringify(sources)));
  }

  bundle(tenantId: TenantId, hash: BundleHash): StoredBundle | null {
    const cell = this.#tables.cells.get(at(tenantId, "bundle", "", hash));
    if (cell === null) return null;
    const sources = JSON.parse(Buffer.from(bytesOf(cell)).toString("utf8")) as Omit<
      StoredBundle,
      "hash" | "createdAt"
    >;
    return { ...sources, hash, ...(JSON.parse(cell.head) as { createdAt: number }) };
  }

  /** Newest first. */
  bundles(tenantId: TenantId): { hash: BundleHash; createdAt: number }[] {
    return this.#tables.cells
      .names(at(tenantId, "bundle", "", ""), BUNDLES_LISTED_MAX)
      .map(({ name, head }) => ({
        hash: name as BundleHash,
        createdAt: (JSON.parse(head) as { createdAt: number }).createdAt,
      }))
      .sort((a, b) => b.createdAt - a.createdAt || (a.hash < b.hash ? 1 : -1));
  }

  deleteBundle(tenantId: TenantId, hash: BundleHash): boolean {
    const place = at(tenantId, "bundle", "", hash);
    if (this.#tables.cells.get(place) === null) return false;
    if (this.#rows.hasOpenRunOn(tenantId, hash)) {
      throw new BatonError("ENTITY_CONFLICT", "a bundle stays while an open run is on it", {
        field: "hash",
      });
    }
    return this.#tables.cells.delete(place);
  }

  setAlias(tenantId: TenantId, alias: string, hash: BundleHash): void {
    this.#put(at(tenantId, "alias", "", alias), { hash }, null);
  }

  alias(tenantId: TenantId, alias: string): BundleHash | null {
    const cell = this.#tables.cells.get(at(tenantId, "alias", "", alias));
    return cell === null ? null : (JSON.parse(cell.head) as { hash: BundleHash }).hash;
  }

  aliases(tenantId: TenantId): { alias: string; hash: BundleHash }[] {
    return this.#tables.cells
      .names(at(tenantId, "alias", "", ""), ALIASES_LISTED_MAX)
      .map(({ name, head }) => ({
        alias: name,
        hash: (JSON.parse(head) as { hash: BundleHash }).hash,
      }));
  }

  putBlob(run: RunRef, key: string, bytes: Uint8Array): void {
    this.#put(at(run.tenantId, "blob", run.runId, key), {}, bytes);
  }

  blob(run: RunRef, key: string): Uint8Array | null {
    const cell = this.#tables.cells.get(at(run.tenantId, "blob", run.runId, key));
    return cell === null ? null : bytesOf(cell);
  }

  deleteBlob(run: RunRef, key: string): void {
    this.#tables.cells.delete(at(run.tenantId, "blob", run.runId, key));
  }

  writeStream(run: RunRef, name: string, chunks: readonly Uint8Array[]): number {
    const info = this.streamInfo(run, name) ?? NO_STREAM;
    if (info.done) {
      throw new BatonError("ENTITY_CONFLICT", "a closed stream takes no more", { field: "name" });
    }
    let { tailIndex, bytes } = info;
    for (const chunk of chunks) {
      tailIndex++;
      bytes += chunk.length;
      this.#put(chunkAt(run, name, tailIndex), {}, chunk);
    }
    this.#put(streamAt(run, name), { tailIndex, bytes, done: false }, null);
    return tailIndex;
  }

  closeStream(run: RunRef, name: string): void {
    const info = this.streamInfo(run, name) ?? NO_STREAM;
    this.#put(streamAt(run, name), { ...info, done: true }, null);
  }

  streamInfo(run: RunRef, name: string): StreamInfo | null {
    const cell = this.#tables.cells.get(streamAt(run, name));
    return cell === null ? null : { ...NO_STREAM, ...(JSON.parse(cell.head) as StreamInfo) };
  }

  chunks(run: RunRef, name: string, startIndex: number, limit: number): StreamPage {
    const info = this.streamInfo(run, name) ?? NO_STREAM;
    const chunks = this.#tables.cells
      .range(chunkAt(run, name, startIndex), limit)
      .map((cell) => bytesOf(cell));
    const reachesEnd = startIndex + chunks.length > info.tailIndex;
    return { chunks, startIndex, done: info.done && reachesEnd };
  }

  streams(run: RunRef): string[] {
    return this.#tables.cells.names(streamAt(run, ""), STREAMS_LISTED_MAX).map(({ name }) => name);
  }

  tenant(tenantId: TenantId): StoredTenant | null {
    const cell = this.#tables.cells.get(tenantAt(tenantId));
    return cell === null ? null : storedTenant(tenantId, cell.head);
  }

  tenants(after: string, limit: number): StoredTenant[] {
    return this.#tables.cells
      .names(tenantAt(after), limit)
      .map(({ name, head }) => storedTenant(name as TenantId, head));
  }

  putTenant(tenantId: TenantId, body: string, expectedRevision: number): boolean {
    if ((this.tenant(tenantId)?.revision ?? 0) !== expectedRevision) return false;
    this.#put(tenantAt(tenantId), { revision: expectedRevision + 1, body }, null);
    return true;
  }

  usage(tenantId: TenantId): StoredTenant | null {
    const cell = this.#tables.cells.get(usageAt(tenantId));
    return cell === null ? null : storedTenant(tenantId, cell.head);
  }

  /** Stands among the tenant's own data, and goes with it. */
  putUsage(tenantId: TenantId, body: string, expectedRevision: number): boolean {
    if (this.tenant(tenantId) === null) return false;
    if ((this.usage(tenantId)?.revision ?? 0) !== expectedRevision) return false;
    this.#put(usageAt(tenantId), { revision: expectedRevision + 1, body }, null);
    return true;
  }

  deleteTenant(tenantId: TenantId): void {
    this.#tables.cells.delete(tenantAt(tenantId));
  }

  #put(place: CellPlace, head: object, bytes: Uint8Array | null): void {
    this.#tables.cells.put(place, { head: JSON.stringify(head), bytes });
  }
}

function storedTenant(tenantId: TenantId, head: string): StoredTenant {
  return { tenantId, ...(JSON.parse(head) as Omit<StoredTenant, "tenantId">) };
}

function bytesOf(cell: Cell): Uint8Array {
  return new Uint8Array(cell.bytes ?? []);
}

function snapshotAt(run: RunRef): CellPlace {
  return at(run.tenantId, "snapshot", run.runId, "");
}

function streamAt(run: RunRef, name: string): CellPlace {
  return at(run.tenantId, "stream", run.runId, name);
}

function chunkAt(run: RunRef, name: string, index: number): CellPlace {
  return { ...at(run.tenantId, "chunk", run.runId, name), index };
}

/** Records are the operator's, not a tenant's: they stand outside of every tenant's data. */
function tenantAt(name: string): CellPlace {
  return at("", "tenant", "", name);
}

function usageAt(tenantId: TenantId): CellPlace {
  return at(tenantId, "usage", "", "");
}

function at(
  tenantId: TenantId | "",
  space: CellPlace["space"],
  owner: RunId | "",
  name: string,
): CellPlace {
  return { tenantId, space, owner, name, index: 0 };
}
