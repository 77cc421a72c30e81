/**
 * Two tenants on one Baton, who do the very same under the very same names: nothing of one is found
 * under the other, and nothing of one is left once it is deleted.
 */
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createBaton } from "../../engine/compose.ts";
import type { Baton, Run } from "../../engine/compose.ts";
import type { Log, LogFields } from "../../engine/ports/host.ts";
import { tenantIdOf } from "../../engine/ids.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import type { BuiltBundle } from "../../tenants/bundles/build.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";

const SOURCE = `
  import { createHook, FatalError, sleep } from "workflow";

  export async function same(own: string) {
    "use workflow";
    const echoed = await echo(own);
    const hook = createHook<string>({ token: "the same token" });
    const payload = await hook;
    let refusal = "";
    try { await fail(own); } catch (error) { refusal = (error as Error).message; }
    return { own, echoed, payload, refusal, secret: await secretLength() };
  }

  async function echo(text: string) {
    "use step";
    console.log("echo of", text, "with", process.env.TOKEN);
    return text;
  }

  async function fail(text: string) {
    "use step";
    throw new FatalError(text + " may not know " + process.env.TOKEN);
  }

  async function secretLength() {
    "use step";
    return [process.env.TOKEN?.length, Object.keys(process.env).join()];
  }

  export async function hoard() {
    "use workflow";
    return keep("x".repeat(100_000));
  }

  async function keep(text: string) {
    "use step";
    return text + text;
  }

  export async function naps() {
    "use workflow";
    await sleep("1h");
  }
`;

const WAIT = { timeout: 60_000 };
/** What is each tenant's own, in every place where it can be. */
const CANARY = { acme: "canary-acme", zeta: "canary-zeta" } as const;
const SECRET = { acme: "secret-of-acme-7F3A", zeta: "secret-of-zeta-9C1B-longer" } as const;
type Name = keyof typeof CANARY;
const NAMES = ["acme", "zeta"] as const;
const otherOf = (name: Name): Name => (name === "acme" ? "zeta" : "acme");

let folder: string;
let baton: Baton;
let bundle: BuiltBundle;
const lines: { fields: LogFields; message: string }[] = [];
const runs = new Map<Name, Run>();

const logInto = (above: LogFields): Log => {
  const write = (fields: LogFields, message: string): void => {
    lines.push({ fields: { ...above, ...fields }, message });
  };
  const child = (fields: LogFields) => logInto({ ...above, ...fields });
  return { debug: write, info: write, warn: write, error: write, child };
};

async function start(): Promise<void> {
  await mkdir(join(folder, "data"), { recursive: true });
  baton = await createBaton({
    world: await openLocalWorld({ path: join(folder, "data", "baton.db") }),
    keyFolder: join(folder, "keys"),
    tenants: {},
    log: logInto({}),
  });
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "baton-tenants-"));
  const projectRoot = join(folder, "..", `${folder.split("/").at(-1)}-project`);
  await mkdir(join(projectRoot, "workflows"), { recursive: true });
  await writeFile(join(projectRoot, "workflows", "same.ts"), SOURCE);
  bundle = await buildBundle({ projectRoot, entries: ["workflows"] });
  await rm(projectRoot, { recursive: true });
  await start();
  for (const tenantId of NAMES) {
    await baton.tenants.create(tenantId);
    await baton.tenants.secrets.set(tenantId, "TOKEN", SECRET[tenantId]);
    await baton.bundles.deploy(bundle, { tenantId });
  }
  for (const tenantId of NAMES) {
    const options = {
      tenantId,
      idempotencyKey: "the same key",
      attributes: { owner: CANARY[tenantId] },
    };
    runs.set(tenantId, await baton.start("same", [CANARY[tenantId]], options));
  }
}, 240_000);

afterAll(async () => {
  await baton.close();
  await rm(folder, { recursive: true, force: true });
});

function runOf(name: Name): Run {
  const run = runs.get(name);
  if (run === undefined) throw new Error(`no run of ${name}`);
  return run;
}

/** All bytes under the folder, by file. */
async function files(): Promise<[name: string, bytes: Buffer][]> {
  const found: [string, Buffer][] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) found.push([path.slice(folder.length + 1), await readFile(path)]);
  }
  return found;
}

/** Every row of the database as text, by the tenant that it belongs to. */
function rowsByTenant(): Map<string, string> {
  const database = new Database(join(folder, "data", "baton.db"), { readonly: true });
  const texts = new Map<string, string>();
  const add = (tenant: string, row: unknown): void => {
    const values = Object.values(row as object).map((value: unknown) =>
      value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value),
    );
    texts.set(tenant, `${texts.get(tenant) ?? ""}\n${values.join(" ")}`);
  };
  for (const table of ["run", "token", "cell", "message"]) {
    for (const row of database.prepare(`SELECT * FROM ${table}`).all()) {
      const { tenant, space, name } = row as Record<"tenant" | "space" | "name", string>;
      add(space === "tenant" ? name : tenant, row);
    }
  }
  for (const table of ["event", "entity", "resume"]) {
    const join = `SELECT run.tenant AS tenant, ${table}.* FROM ${table}, run WHERE run.key = ${table}.run`;
    for (const row of database.prepare(join).all()) add((row as { tenant: string }).tenant, row);
  }
  database.close();
  return texts;
}

describe("two tenants who use the same names", () => {
  it("have runs of their own under one idempotency key, and hooks of their own under one token", async () => {
    expect(runOf("acme").runId).not.toBe(runOf("zeta").runId);
    await vi.waitFor(
      () => baton.resumeHook("the same token", "for zeta alone", { tenantId: "zeta" }),
      WAIT,
    );
    expect(await runOf("zeta").returnValue()).toMatchObject({ payload: "for zeta alone" });
    expect(await runOf("acme").status()).toBe("running");
    await vi.waitFor(
      () => baton.resumeHook("the same token", "for acme alone", { tenantId: "acme" }),
      WAIT,
    );
    expect(await runOf("acme").returnValue()).toMatchObject({ payload: "for acme alone" });
  });

  it("each get their own values back, and read their own secret, which leaves no step", async () => {
    for (const name of NAMES) {
      expect(await runOf(name).returnValue()).toMatchObject({
        own: CANARY[name],
        echoed: CANARY[name],
        refusal: `${CANARY[name]} may not know [redacted]`,
        secret: [SECRET[name].length, "TOKEN"],
      });
    }
  });

  it("find nothing of each other by a run's id, and are told so in the same words as of no run", async () => {
    const unknown = `wrun_${"0".repeat(26)}`;
    const answer = async (runId: string): Promise<unknown> => {
      const run = baton.getRun(runId, { tenantId: "zeta" });
      const thrown = await run.status().then(
        () => null,
        (error: unknown) => error as { code: string; message: string; details: object },
      );
      return [await run.exists(), thrown?.code, thrown?.message, thrown?.details];
    };
    expect(await answer(runOf("acme").runId)).toEqual(await answer(unknown));
    expect(((await answer(runOf("acme").runId)) as unknown[])[0]).toBe(false);
    for (const act of ["cancel", "wakeUp"] as const) {
      await expect(
        baton.getRun(runOf("acme").runId, { tenantId: "zeta" })[act](),
      ).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    }
    expect(await runOf("acme").status()).toBe("completed");
  });

  it("stand apart in every row: none of a tenant's holds anything of the other", () => {
    const texts = rowsByTenant();
    for (const name of NAMES) {
      // The control: its own attribute, which is plain, is found.
      expect(texts.get(name)).toContain(CANARY[name]);
      expect(texts.get(name)).not.toContain(CANARY[otherOf(name)]);
      expect(texts.get(name)).not.toContain(runOf(otherOf(name)).runId);
    }
    expect([...texts.keys()].toSorted()).toEqual(["acme", "zeta"]);
  });

  it("have keys, ids and secrets that do not meet: equal plain values give different bytes", async () => {
    const keys = await Promise.all(
      NAMES.map((name) => readFile(join(folder, "keys", "tenants", `${name}.key`), "utf8")),
    );
    expect(new Set(keys).size).toBe(2);
    const database = new Database(join(folder, "data", "baton.db"), { readonly: true });
    const hashes = database.prepare("SELECT DISTINCT body FROM entity WHERE kind = 'hook'").all();
    const tokens = new Set(
      (hashes as { body: string }[]).map(
        ({ body }) => (JSON.parse(body) as { tokenHash: string }).tokenHash,
      ),
    );
    database.close();
    expect(tokens.size).toBe(2);
    for (const [name, held] of await files()) {
      for (const secret of Object.values(SECRET)) expect(held.includes(secret), name).toBe(false);
    }
  });

  it("are told apart in log lines, which hold no value of either", () => {
    const ofTenant = (name: Name) =>
      lines.filter(({ fields }) => fields["tenantId"] === name).map((line) => JSON.stringify(line));
    for (const name of NAMES) {
      const text = ofTenant(name).join("\n");
      expect(text).toContain("echo of");
      expect(text).not.toContain(CANARY[otherOf(name)]);
      expect(text).not.toContain(runOf(otherOf(name)).runId);
    }
    const all = lines.map((line) => JSON.stringify(line)).join("\n");
    for (const secret of Object.values(SECRET)) expect(all).not.toContain(secret);
    expect(all).toContain("[redacted]");
    // Whatever is said of a run or a step says whose it is.
    const nameless = lines.filter(({ fields }) => "runId" in fields && !("tenantId" in fields));
    expect(nameless).toEqual([]);
  });

  it("are counted apart, and what was counted outlives a restart", async () => {
    const kept = async (name: Name) => {
      const { counted, stored, storedBytes } = await baton.tenants.usage(name);
      return { counted, stored, storedBytes };
    };
    const before = await Promise.all(NAMES.map(kept));
    for (const { counted, stored } of before) {
      expect(stored).toMatchObject({ runs: 1, openRuns: 0, bundles: 1 });
      expect(counted.stepAttempts).toBeGreaterThanOrEqual(3);
      expect(counted.passes).toBeGreaterThan(0);
      expect(stored.events).toBeGreaterThan(8);
    }
    await baton.close();
    await start();
    expect(await Promise.all(NAMES.map(kept))).toEqual(before);
  });
});

describe("a tenant that is suspended", () => {
  it("starts nothing and runs nothing, takes payloads, and goes on at once when resumed", async () => {
    const { runId } = await baton.start("same", ["later"], { tenantId: "acme" });
    const run = baton.getRun(runId, { tenantId: "acme" });
    await baton.tenants.suspend("acme");
    await expect(baton.start("same", ["x"], { tenantId: "acme" })).rejects.toMatchObject({
      code: "TENANT_SUSPENDED",
    });
    const mine = { tenantId: "zeta", idempotencyKey: "while acme is suspended" };
    const other = await baton.start("same", ["y"], mine);
    await vi.waitFor(() => baton.resumeHook("the same token", "go", { tenantId: "zeta" }), WAIT);
    expect(await other.returnValue()).toMatchObject({ payload: "go" });
    await baton.tenants.resume("acme");
    await vi.waitFor(() => baton.resumeHook("the same token", "go", { tenantId: "acme" }), WAIT);
    expect(await run.returnValue()).toMatchObject({ own: "later", payload: "go" });
  });
});

describe("a tenant that has stored what it may", () => {
  it("starts nothing more, and then has its running runs fail; its neighbour notices nothing", async () => {
    const napping = await baton.start("naps", [], { tenantId: "acme" });
    await vi.waitFor(async () => expect(await napping.status()).toBe("running"), WAIT);
    const { storedBytes } = await baton.tenants.usage("acme");
    await baton.tenants.setQuotas("acme", { storedBytesMax: storedBytes });
    await expect(baton.start("hoard", [], { tenantId: "acme" })).rejects.toMatchObject({
      code: "STORED_BYTES_EXCEEDED",
      status: 507,
      details: { field: "storedBytesMax", allowed: storedBytes },
    });
    await baton.tenants.setQuotas("acme", { storedBytesMax: Math.floor(storedBytes / 2) });
    await napping.wakeUp();
    await expect(napping.returnValue()).rejects.toMatchObject({
      code: "RUN_FAILED",
      details: { errorCode: "STORED_BYTES_EXCEEDED" },
    });
    const run = await baton.start("hoard", [], { tenantId: "zeta" });
    expect(((await run.returnValue()) as string).length).toBe(200_000);
    await baton.tenants.setQuotas("acme", { storedBytesMax: 1 << 30 });
    const again = await baton.start("hoard", [], { tenantId: "acme" });
    expect(((await again.returnValue()) as string).length).toBe(200_000);
  });
});

describe("a tenant that is deleted", () => {
  it("leaves nothing in any file, whatever it was doing, and its neighbour all that it had", async () => {
    await baton.start("same", [CANARY.acme], { tenantId: "acme" });
    await baton.start("naps", [], { tenantId: "acme", attributes: { owner: CANARY.acme } });
    const held = async () => (await files()).filter(([, bytes]) => bytes.includes(CANARY.acme));
    expect((await held()).length).toBeGreaterThan(0);
    const receipt = await baton.tenants.delete("acme");
    expect(receipt.covers.length).toBeGreaterThan(0);
    expect((await held()).map(([name]) => name)).toEqual([]);
    expect(await readdir(join(folder, "keys", "tenants"))).toEqual(["zeta.key"]);
    expect([...rowsByTenant().keys()]).toEqual(["zeta"]);
    await expect(baton.start("same", ["x"], { tenantId: "acme" })).rejects.toMatchObject({
      code: "TENANT_NOT_FOUND",
    });
    const kept = baton.getRun(runOf("zeta").runId, { tenantId: "zeta" });
    expect(await kept.returnValue()).toMatchObject({ own: CANARY.zeta });
    await baton.close();
    for (const [name, bytes] of await files()) expect(bytes.includes("acme"), name).toBe(false);
    await start();
    const zeta = baton.getRun(runOf("zeta").runId, { tenantId: "zeta" });
    expect(await zeta.returnValue()).toMatchObject({ own: CANARY.zeta });
    expect(await baton.world.tenants.get(tenantIdOf("acme"))).toBeNull();
  });
});
