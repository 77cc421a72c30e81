/** A tenant's bytes of snapshots: within its quota, the oldest go first. */
import { describe, expect, it } from "vitest";
import { runIdOf, tenantIdOf, ulid } from "../../engine/ids.ts";
import type { RunId } from "../../engine/ids.ts";
import type { SnapshotSize, Snapshots } from "../../engine/ports/world.ts";
import { SnapshotShelf } from "../../engine/snapshot-shelf.ts";

const tenantId = tenantIdOf("acme");
const MAX = 100;

/** Sizes alone, as a World keeps them. */
class Shelf {
  readonly sizes = new Map<RunId, number>();
  lists = 0;
  readonly #shelf = new SnapshotShelf();
  readonly #snapshots: Snapshots = {
    put: () => Promise.resolve(),
    get: () => Promise.resolve(null),
    delete: (runId) => {
      this.sizes.delete(runId);
      return Promise.resolve();
    },
    list: () => {
      this.lists++;
      const data: SnapshotSize[] = [...this.sizes].map(([runId, bytes]) => ({ runId, bytes }));
      return Promise.resolve({ data, cursor: null });
    },
  };

  /** The run's snapshot, so many bytes of it. */
  async put(n: number, bytes: number): Promise<void> {
    const runId = idOf(n);
    this.sizes.delete(runId);
    this.sizes.set(runId, bytes);
    await this.#shelf.keepWithin({ tenantId, snapshots: this.#snapshots }, bytes, MAX);
  }

  get runs(): readonly RunId[] {
    return [...this.sizes.keys()];
  }
}

function idOf(n: number): RunId {
  return runIdOf(`wrun_${ulid(n, new Uint8Array(10))}`);
}

describe("a tenant's snapshots", () => {
  it("that just fit are all kept", async () => {
    const shelf = new Shelf();
    for (let n = 1; n <= 10; n++) await shelf.put(n, MAX / 10);
    expect(shelf.runs).toHaveLength(10);
  });

  it("give way to one more, the oldest first, with a little room made", async () => {
    const shelf = new Shelf();
    for (let n = 1; n <= 10; n++) await shelf.put(n, MAX / 10);
    await shelf.put(1, MAX / 10);
    await shelf.put(11, MAX / 10);
    // Eleven tenths are two too many for nine; the first run's is new again.
    expect(shelf.runs).toEqual([4, 5, 6, 7, 8, 9, 10, 1, 11].map(idOf));
  });

  it("one more that alone is over the limit is not kept either", async () => {
    const shelf = new Shelf();
    await shelf.put(1, MAX + 1);
    expect(shelf.runs).toEqual([]);
  });

  it("are counted again only when what was put may be over the limit", async () => {
    const shelf = new Shelf();
    for (let n = 1; n <= 10; n++) await shelf.put(1, 1);
    expect(shelf.lists).toBe(1);
  });
});
