/** Cases of what lies beside the logs: W13 to W15, snapshots and blobs. */
import { describe, expect, it } from "vitest";
import { bundleHashOf, type TenantId } from "../../engine/ids.ts";
import type {
  StoredBundle,
  StoredUse,
  StoredUsePage,
  TenantRecords,
} from "../../engine/ports/world.ts";
import { slotOf } from "../../engine/slots.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

const bundle = (digit: string, createdAt = 1_800_000_000_000): StoredBundle => ({
  hash: bundleHashOf(digit.repeat(64)),
  workflowCode: "export const a = '\u2603';",
  stepCode: "",
  manifest: "{}",
  guestLibrary: "lib",
  createdAt,
});

const snapshot = (slot: number, text: string) => ({
  slot: slotOf(slot),
  digest: String(slot).repeat(64).slice(0, 64),
  fingerprint: "f".repeat(64),
  bytes: h.bytes(text),
});

/** All parts of a measurement, added up. */
async function counted(tenants: TenantRecords, tenantId: TenantId): Promise<StoredUse> {
  const pages: StoredUse[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const page: StoredUsePage = await tenants.measure(tenantId, ...(cursor === "" ? [] : [cursor]));
    pages.push(page.use);
    cursor = page.cursor;
  }
  const sum = (name: keyof StoredUse) => pages.reduce((all, use) => all + use[name], 0);
  return {
    runs: sum("runs"),
    openRuns: sum("openRuns"),
    events: sum("events"),
    eventBytes: sum("eventBytes"),
    blobBytes: sum("blobBytes"),
    streamBytes: sum("streamBytes"),
    snapshotBytes: sum("snapshotBytes"),
    bundles: sum("bundles"),
    bundleBytes: sum("bundleBytes"),
  };
}

export const cellCases: Cases = (use) => {
  describe("sizes of snapshots", () => {
    it("all runs' snapshots are listed, the one that was put longest ago first, page by page", async () => {
      const bench = use();
      const { snapshots } = bench.store();
      const runs = [await bench.started(), await bench.started(), await bench.started()] as const;
      for (const run of runs) await snapshots.put(run, snapshot(1, "ab"));
      await snapshots.put(runs[0], snapshot(2, "abcd"));
      const first = await snapshots.list({ limit: 2 });
      expect(first.data).toEqual([
        { runId: runs[1], bytes: h.bytes("ab").length },
        { runId: runs[2], bytes: h.bytes("ab").length },
      ]);
      const rest = await snapshots.list({ cursor: first.cursor ?? "" });
      const newest = { runId: runs[0], bytes: h.bytes("abcd").length };
      expect(rest).toEqual({ data: [newest], cursor: null });
      await snapshots.delete(runs[1]);
      expect((await snapshots.list()).data.map(({ runId }) => runId)).toEqual([runs[2], runs[0]]);
    });

    it("another tenant's are not among them", async () => {
      const bench = use();
      await bench.store().snapshots.put(await bench.started(), snapshot(1, "ab"));
      expect(await bench.store(h.B).snapshots.list()).toEqual({ data: [], cursor: null });
    });
  });

  describe("streams (W13)", () => {
    it("chunks come back in the order written, by index", async () => {
      const bench = use();
      const runId = await bench.started();
      const { streams } = bench.store();
      expect(await streams.write(runId, "out", [h.bytes("a"), h.bytes("b")])).toBe(1);
      expect(await streams.write(runId, "out", [h.bytes("c")])).toBe(2);
      expect(await streams.getChunks(runId, "out", { startIndex: 1 })).toEqual({
        chunks: [h.bytes("b"), h.bytes("c")],
        startIndex: 1,
        done: false,
      });
    });

    it("a stream that nobody wrote is null, and reads as empty and open", async () => {
      const bench = use();
      const runId = await bench.started();
      expect(await bench.store().streams.getInfo(runId, "out")).toBeNull();
      expect(await bench.store().streams.getChunks(runId, "out", { startIndex: 0 })).toEqual({
        chunks: [],
        startIndex: 0,
        done: false,
      });
    });

    it("a closed stream takes no more, and its last page says so", async () => {
      const bench = use();
      const runId = await bench.started();
      const { streams } = bench.store();
      await streams.write(runId, "out", [h.bytes("a"), h.bytes("b")]);
      await streams.close(runId, "out");
      await h.refusal(streams.write(runId, "out", [h.bytes("c")]), "ENTITY_CONFLICT");
      expect(await streams.getInfo(runId, "out")).toEqual({
        tailIndex: 1,
        bytes: 2 * h.bytes("a").length,
        done: true,
      });
      const first = await streams.getChunks(runId, "out", { startIndex: 0, limit: 1 });
      expect(first.done).toBe(false);
      const last = await streams.getChunks(runId, "out", { startIndex: 1, limit: 1 });
      expect([last.done, last.chunks]).toEqual([true, [h.bytes("b")]]);
    });

    it("closing twice is closing, also before the first chunk", async () => {
      const bench = use();
      const runId = await bench.started();
      const { streams } = bench.store();
      await streams.close(runId, "out");
      await streams.close(runId, "out");
      expect(await streams.getInfo(runId, "out")).toEqual({ tailIndex: -1, bytes: 0, done: true });
      expect((await streams.getChunks(runId, "out", { startIndex: 0 })).done).toBe(true);
    });

    it("10,000 chunks of two writers have dense indexes", async () => {
      const bench = use();
      const runId = await bench.started();
      const { streams } = bench.store();
      const chunk = h.bytes("x");
      await Promise.all(
        Array.from({ length: 20 }, async () =>
          streams.write(
            runId,
            "out",
            Array.from({ length: 500 }, () => chunk),
          ),
        ),
      );
      expect(await streams.getInfo(runId, "out")).toEqual({
        tailIndex: 9_999,
        bytes: 10_000 * chunk.length,
        done: false,
      });
      let read = 0;
      while (read < 10_000) {
        const page = await streams.getChunks(runId, "out", { startIndex: read, limit: 1_000 });
        expect(page.chunks.length).toBe(1_000);
        read += page.chunks.length;
      }
      const end = await streams.getChunks(runId, "out", { startIndex: read });
      expect(end.chunks).toEqual([]);
    });

    it("streams of a run are listed by name, and of another run are others", async () => {
      const bench = use();
      const [one, two] = [await bench.started(), await bench.started()];
      const { streams } = bench.store();
      await streams.write(one, "b", [h.bytes("1")]);
      await streams.write(one, "a", [h.bytes("2")]);
      await streams.write(two, "c", [h.bytes("3")]);
      expect(await streams.list(one)).toEqual(["a", "b"]);
      expect(await streams.list(two)).toEqual(["c"]);
    });
  });

  describe("snapshots", () => {
    it("the newest put is what get gives", async () => {
      const bench = use();
      const runId = await bench.started();
      const { snapshots } = bench.store();
      await snapshots.put(runId, snapshot(1, "one"));
      await snapshots.put(runId, snapshot(2, "two"));
      expect(await snapshots.get(runId)).toEqual(snapshot(2, "two"));
    });

    it("a lost snapshot is null, and the run is as it was", async () => {
      const bench = use();
      const runId = await bench.started();
      const { snapshots } = bench.store();
      expect(await snapshots.get(runId)).toBeNull();
      await snapshots.put(runId, snapshot(1, "one"));
      await snapshots.delete(runId);
      await snapshots.delete(runId);
      expect(await snapshots.get(runId)).toBeNull();
      expect((await bench.log(runId)).length).toBe(1);
    });

    it("a megabyte comes back byte for byte", async () => {
      const bench = use();
      const runId = await bench.started();
      const bytes = Uint8Array.from({ length: 1 << 20 }, (_, i) => (i * 31) % 251);
      await bench.store().snapshots.put(runId, { ...snapshot(1, ""), bytes });
      const stored = await bench.store().snapshots.get(runId);
      expect(Buffer.compare(stored?.bytes ?? h.bytes(""), bytes)).toBe(0);
    });
  });

  describe("blobs", () => {
    it("a blob is written, replaced, read and deleted by its key", async () => {
      const bench = use();
      const runId = await bench.started();
      const { blobs } = bench.store();
      await blobs.put(runId, "k", h.bytes("1"));
      await blobs.put(runId, "k", h.bytes("2"));
      expect(await blobs.get(runId, "k")).toEqual(h.bytes("2"));
      expect(await blobs.get(runId, "K")).toBeNull();
      await blobs.delete(runId, "k");
      expect(await blobs.get(runId, "k")).toBeNull();
    });

    it("an empty blob is not a missing one", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.store().blobs.put(runId, "k", new Uint8Array(0));
      expect(await bench.store().blobs.get(runId, "k")).toEqual(new Uint8Array(0));
    });

    it("a blob may be there before its run is", async () => {
      const bench = use();
      const runId = h.newRunId();
      await bench.store().blobs.put(runId, "input", h.bytes("big"));
      await bench.started(h.A, runId);
      expect(await bench.store().blobs.get(runId, "input")).toEqual(h.bytes("big"));
    });
  });

  describe("bundles (W14)", () => {
    it("a bundle comes back as it was put, and a second put changes nothing", async () => {
      const bench = use();
      const { bundles } = bench.store();
      const first = bundle("a");
      await bundles.put(first);
      await bundles.put({ ...first, workflowCode: "changed", createdAt: 5 });
      expect(await bundles.get(first.hash)).toEqual(first);
      expect(await bundles.get(bundle("b").hash)).toBeNull();
    });

    it("bundles are listed newest first, in pages", async () => {
      const bench = use();
      const { bundles } = bench.store();
      for (const [i, digit] of ["a", "b", "c"].entries()) await bundles.put(bundle(digit, 100 + i));
      const first = await bundles.list({ limit: 2 });
      expect(first.data.map((row) => row.createdAt)).toEqual([102, 101]);
      const rest = await bundles.list({ limit: 2, cursor: first.cursor ?? "" });
      expect(rest).toEqual({ data: [{ hash: bundle("a").hash, createdAt: 100 }], cursor: null });
    });

    it("a bundle stays while an open run is on it", async () => {
      const bench = use();
      const { bundles, events } = bench.store();
      const { hash } = bundle("a");
      await bundles.put(bundle("a"));
      const runId = h.newRunId();
      await events.create(runId, h.runCreated({ deploymentId: hash }));
      await h.refusal(bundles.delete(hash), "ENTITY_CONFLICT");
      await bench.inBand(runId, h.runCompleted());
      expect(await bundles.delete(hash)).toBe(true);
      expect(await bundles.delete(hash)).toBe(false);
      expect(await bundles.get(hash)).toBeNull();
    });

    it("an alias names one bundle, and moves", async () => {
      const bench = use();
      const { bundles } = bench.store();
      await bundles.setAlias("live", bundle("a").hash);
      await bundles.setAlias("live", bundle("b").hash);
      await bundles.setAlias("beta", bundle("a").hash);
      expect(await bundles.getAlias("live")).toBe(bundle("b").hash);
      expect(await bundles.getAlias("gone")).toBeNull();
      expect(await bundles.listAliases()).toEqual([
        { alias: "beta", hash: bundle("a").hash },
        { alias: "live", hash: bundle("b").hash },
      ]);
    });
  });

  describe("tenants' records (W15)", () => {
    it("a record is made once and replaced only by who has read it", async () => {
      const bench = use();
      const { tenants } = bench.world;
      expect(await tenants.get(h.A)).toBeNull();
      expect(await tenants.put(h.A, '{"n":1}', 0)).toBe(true);
      expect(await tenants.put(h.A, '{"n":2}', 0)).toBe(false);
      expect(await tenants.put(h.A, '{"n":2}', 1)).toBe(true);
      expect(await tenants.put(h.A, '{"n":3}', 1)).toBe(false);
      expect(await tenants.get(h.A)).toEqual({ tenantId: h.A, revision: 2, body: '{"n":2}' });
    });

    it("of concurrent writers at one revision exactly one wins", async () => {
      const bench = use();
      const wins = await Promise.all(
        Array.from({ length: 50 }, async (_, i) => bench.world.tenants.put(h.A, `${i}`, 0)),
      );
      expect(wins.filter(Boolean).length).toBe(1);
    });

    it("use is kept beside the record, under revisions of its own, and only of a tenant", async () => {
      const bench = use();
      const { tenants } = bench.world;
      expect(await tenants.putUsage(h.A, "{}", 0)).toBe(false);
      await tenants.put(h.A, '{"n":1}', 0);
      expect(await tenants.getUsage(h.A)).toBeNull();
      expect(await tenants.putUsage(h.A, '{"u":1}', 0)).toBe(true);
      expect(await tenants.putUsage(h.A, '{"u":2}', 0)).toBe(false);
      expect(await tenants.getUsage(h.A)).toEqual({ tenantId: h.A, revision: 1, body: '{"u":1}' });
      expect((await tenants.get(h.A))?.revision).toBe(1);
      expect(await tenants.getUsage(h.B)).toBeNull();
      await tenants.purge(h.A);
      expect(await tenants.getUsage(h.A)).toBeNull();
    });

    it("what is held is counted from the rows: all of the tenant's, and of nobody else", async () => {
      const bench = use();
      const { tenants } = bench.world;
      const nothing = await counted(tenants, h.A);
      expect(new Set(Object.values(nothing))).toEqual(new Set([0]));
      const first = await bench.started(h.A);
      const other = await bench.started(h.B);
      const { blobs, streams, bundles } = bench.store(h.A);
      await blobs.put(first, "k", h.bytes("x".repeat(1000)));
      await blobs.put(first, "k", h.bytes("x".repeat(500)));
      await streams.write(first, "s", [h.bytes("ab"), h.bytes("cde")]);
      await bundles.put(bundle("a"));
      await bench.store(h.B).blobs.put(other, "k", h.bytes("y".repeat(70)));
      const held = await counted(tenants, h.A);
      expect(held).toMatchObject({
        runs: 1,
        openRuns: 1,
        blobBytes: h.bytes("x".repeat(500)).length,
        streamBytes: h.bytes("ab").length + h.bytes("cde").length,
        bundles: 1,
      });
      expect(held.events).toBe((await bench.log(first, h.A)).length);
      expect(held.bundleBytes).toBeGreaterThan(0);
      await bench.store(h.A).events.create(first, h.runCancelled());
      const ended = await counted(tenants, h.A);
      expect(ended).toMatchObject({ openRuns: 0, events: held.events + 1 });
      expect(ended.eventBytes).toBeGreaterThan(held.eventBytes);
      expect(await counted(tenants, h.B)).toMatchObject({
        runs: 1,
        blobBytes: h.bytes("y".repeat(70)).length,
        bundles: 0,
      });
    });

    it("counting goes page by page over any number of runs", async () => {
      const bench = use();
      for (let n = 0; n < 260; n++) {
        await bench.store(h.A).events.create(h.newRunId(), h.runCreated());
      }
      expect(await counted(bench.world.tenants, h.A)).toMatchObject({ runs: 260, events: 260 });
      expect((await bench.world.tenants.measure(h.A)).cursor).not.toBeNull();
    });

    it("records are listed in the order of their ids, in pages", async () => {
      const bench = use();
      const { tenants } = bench.world;
      for (const id of [h.B, h.A]) await tenants.put(id, "{}", 0);
      const first = await tenants.list({ limit: 1 });
      expect(first.data.map((row) => row.tenantId)).toEqual([h.A]);
      const rest = await tenants.list({ limit: 5, cursor: first.cursor ?? "" });
      expect(rest.data.map((row) => row.tenantId)).toEqual([h.B]);
      expect(rest.cursor).toBeNull();
    });
  });
};
