/**
 * How many bytes of snapshots a tenant keeps: what is over its limit goes, the oldest first.
 *
 * Owns an upper bound for each tenant, which each snapshot that is put raises. Only past the limit the
 * World is asked what there really is. A snapshot only saves time, so dropping one costs no run more
 * than a replay.
 */
import type { RunId, TenantId } from "./ids.ts";
import { SNAPSHOT_SHELVES_MAX, SNAPSHOTS_KEPT_FRACTION } from "./limits.ts";
import type { SnapshotSize, Snapshots } from "./ports/world.ts";

export class SnapshotShelf {
  /** Bytes by tenant; absent: not known. */
  readonly #bytesAtMost = new Map<TenantId, number>();

  /** Bytes that the tenant keeps at most; null: not known here. */
  bytesOf(tenantId: TenantId): number | null {
    return this.#bytesAtMost.get(tenantId) ?? null;
  }

  /** A snapshot was put; drops others of the tenant until all are within `bytesMax`. */
  async keepWithin(
    { tenantId, snapshots }: { readonly tenantId: TenantId; readonly snapshots: Snapshots },
    putBytes: number,
    bytesMax: number,
  ): Promise<void> {
    const known = this.#bytesAtMost.get(tenantId);
    if (known !== undefined && known + putBytes <= bytesMax) {
      this.#bytesAtMost.set(tenantId, known + putBytes);
      return;
    }
    const all = await sizesOf(snapshots);
    let bytes = all.reduce((sum, size) => sum + size.bytes, 0);
    // Some room is made, so that the next one need not ask again.
    const aimBytes = bytes > bytesMax ? bytesMax * SNAPSHOTS_KEPT_FRACTION : bytesMax;
    for (const size of all) {
      if (bytes <= aimBytes) break;
      await snapshots.delete(size.runId);
      bytes -= size.bytes;
    }
    if (this.#bytesAtMost.size >= SNAPSHOT_SHELVES_MAX) this.#bytesAtMost.clear();
    this.#bytesAtMost.set(tenantId, bytes);
  }
}

async function sizesOf(snapshots: Snapshots): Promise<readonly SnapshotSize[]> {
  const all = new Map<RunId, SnapshotSize>();
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Snapshots["list"]>> = await snapshots.list({
      limit: 1_000,
      ...(cursor === null ? {} : { cursor }),
    });
    // One that was put again while it was listed is as old as its newest.
    for (const size of page.data) {
      all.delete(size.runId);
      all.set(size.runId, size);
    }
    cursor = page.cursor;
  } while (cursor !== null);
  return [...all.values()];
}
