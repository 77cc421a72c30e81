/** What only the local World has: a file, a lock, a version, a check and a backup. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BatonError } from "../../engine/errors.ts";
import type { LocalWorld, LocalWorldOptions } from "../../worlds/local/index.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";
import * as h from "../../worlds/conformance/harness.ts";

let folder = "";
let path = "";
const worlds: LocalWorld[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "baton-file-"));
  path = join(folder, "world.db");
});

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
  rmSync(folder, { recursive: true });
});

async function opened(options: Partial<LocalWorldOptions> = {}): Promise<LocalWorld> {
  const world = await openLocalWorld({ path, ...options });
  worlds.push(world);
  return world;
}

async function written(world: LocalWorld, events = 3) {
  const runId = h.newRunId();
  const store = world.forTenant(h.A);
  await store.events.create(runId, h.runCreated());
  for (let i = 1; i < events; i++) await store.events.create(runId, h.attrSet());
  return runId;
}

describe("one writer", () => {
  it("a second writer is refused and told why; the first goes on", async () => {
    const first = await opened();
    const error = await h.refusal(openLocalWorld({ path }), "WORLD_LOCKED");
    expect(error.message).toContain("read-only");
    await written(first);
  });

  it("the lock is free once the writer has closed", async () => {
    const first = await opened();
    await first.close();
    await written(await opened());
  });

  it("a reader beside the writer sees what is committed, and may write nothing", async () => {
    const writer = await opened();
    const runId = await written(writer);
    const reader = await opened({ readOnly: true });
    const store = reader.forTenant(h.A);
    expect((await store.events.list(runId)).events.length).toBe(3);
    await writer.forTenant(h.A).events.create(runId, h.attrSet());
    expect((await store.events.list(runId)).events.length).toBe(4);
    await h.refusal(store.events.create(runId, h.attrSet()), "WORLD_READ_ONLY");
    await h.refusal(reader.queue.send(h.wake(runId)), "WORLD_READ_ONLY");
    await h.refusal(reader.tenants.put(h.A, "{}", 0), "WORLD_READ_ONLY");
    expect(reader.capabilities.liveFeed).toBe(false);
    expect((await store.runs.get(runId))?.counts.seq).toBe(4);
  });

  it("a reader does not make a file that is not there", async () => {
    await expect(openLocalWorld({ path, readOnly: true })).rejects.toThrow();
    await h.refusal(openLocalWorld({ path, readOnly: true }), "WORLD_UNAVAILABLE");
  });
});

describe("settings", () => {
  it.each([
    ["full", 2, "power-loss"],
    ["power-loss-loses-newest", 1, "process-crash"],
    ["power-loss-may-corrupt", 0, "process-crash"],
  ] as const)("%s is synchronous = %i and survives %s", async (durability, value, survives) => {
    const world = await opened({ durability });
    expect(await world.setting("synchronous")).toBe(value);
    expect(await world.setting("journal_mode")).toBe("wal");
    expect(world.durability).toBe(survives);
  });

  it("the default is the safest", async () => {
    expect(await (await opened()).setting("synchronous")).toBe(2);
  });
});

describe("versions", () => {
  it("a file of a later schema is refused and left as it is", async () => {
    await (await opened()).close();
    const db = new Database(path);
    db.exec("UPDATE baton_meta SET value = 99 WHERE name = 'schema'");
    db.close();
    const before = readFileSync(path);
    const error = await h.refusal(openLocalWorld({ path }), "WORLD_VERSION");
    expect(error.details).toMatchObject({ used: 99 });
    await h.refusal(openLocalWorld({ path, readOnly: true }), "WORLD_VERSION");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("a database that is not ours is refused and left as it is", async () => {
    const db = new Database(path);
    db.exec("CREATE TABLE theirs (a)");
    db.close();
    await h.refusal(openLocalWorld({ path }), "WORLD_VERSION");
    const after = new Database(path);
    expect(after.prepare("SELECT name FROM sqlite_schema").pluck().all()).toEqual(["theirs"]);
    after.close();
  });

  it("a refused open does not keep the lock", async () => {
    const db = new Database(path);
    db.exec("CREATE TABLE theirs (a)");
    db.close();
    await h.refusal(openLocalWorld({ path }), "WORLD_VERSION");
    rmSync(path);
    await written(await opened());
  });

  it("a run of another version can be read, and nothing is written to it", async () => {
    const world = await opened();
    const runId = await written(world);
    await world.close();
    const db = new Database(path);
    db.exec("UPDATE run SET spec_version = 10");
    db.close();
    const store = (await opened()).forTenant(h.A);
    await h.refusal(store.events.create(runId, h.attrSet()), "RUN_NOT_SUPPORTED");
    expect((await store.events.list(runId)).events.length).toBe(3);
    expect((await store.runs.get(runId))?.specVersion).toBe(10);
  });
});

describe("integrity and backup", () => {
  it("a sound file is found sound, and its logs are counted", async () => {
    const world = await opened();
    await written(world, 3);
    await written(world, 5);
    expect(await world.integrityCheck()).toEqual({
      ok: true,
      runs: 2,
      events: 8,
      problems: 0,
      findings: [],
    });
  });

  it.each([
    ["a missing event", "DELETE FROM event WHERE slot = 2"],
    [
      "a changed body",
      "UPDATE event SET row = CAST(substr(row, 1, 60) || x'00' || substr(row, 62) AS BLOB) WHERE slot = 2",
    ],
    ["a cut body", "UPDATE event SET row = substr(row, 1, 20) WHERE slot = 2"],
    ["counts that are off", "UPDATE run SET seq = 9"],
    ["another end", "UPDATE run SET digest = zeroblob(32)"],
  ])("%s is found", async (_, damage) => {
    const world = await opened();
    await written(world, 4);
    await world.close();
    const db = new Database(path);
    db.exec(damage);
    db.close();
    const report = await (await opened()).integrityCheck();
    expect(report.ok).toBe(false);
    expect(report.findings.length).toBeGreaterThan(0);
  });

  it("a backup taken under writes is whole and opens by itself", async () => {
    const world = await opened();
    const runId = await written(world, 50);
    const writing = written(world, 50);
    const target = join(folder, "copy.db");
    await world.backup(target);
    await writing;
    const copy = await openLocalWorld({ path: target });
    worlds.push(copy);
    expect((await copy.integrityCheck()).ok).toBe(true);
    expect((await copy.forTenant(h.A).events.list(runId)).events.length).toBe(50);
  });
});

describe("what is removed", () => {
  it("a purged tenant's bytes are in none of the files", async () => {
    const world = await opened();
    const runId = h.newRunId();
    const secret = "a-secret-that-must-go";
    const store = world.forTenant(h.A);
    await store.events.create(runId, h.runCreated({ input: h.bytes(secret) }));
    await store.blobs.put(runId, "k", h.bytes(secret));
    await world.queue.send(h.stepMessage(runId, { stepInput: h.bytes(secret) }));
    const holds = () =>
      ["", "-wal"].some((ending) => readFileSync(`${path}${ending}`).includes(secret));
    expect(holds()).toBe(true);
    await world.tenants.purge(h.A);
    expect(holds()).toBe(false);
  });
});

describe("what cannot be stored", () => {
  it("a file that is no database is refused with a clear code", async () => {
    writeFileSync(path, "this is a text, and a long one: ".repeat(400));
    const error: BatonError = await h.refusal(openLocalWorld({ path }), "WORLD_UNAVAILABLE");
    expect(error.message).toContain("not a database");
  });
});
