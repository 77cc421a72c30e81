import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EMBEDDED_QUOTAS } from "../../tenants/quota.ts";
import { openTenantsPart, tend } from "../../tenants/tenants-part.ts";
import type { Tenancy } from "../../tenants/tenancy.ts";
import type { TenantsPart } from "../../tenants/tenants-part.ts";
import type { TenantId } from "../../engine/ids.ts";
import { newEvent } from "../../engine/plan.ts";
import type { World } from "../../engine/ports/world.ts";
import { slotOf } from "../../engine/slots.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";
import { silentLog, systemClock } from "../../worlds/platform.ts";
import { ACME, HOOK, RUN, ZETA } from "./vaults.ts";

let folder: string;
let forgotten: TenantId[];

interface Open {
  readonly below: World;
  readonly part: TenantsPart;
  readonly tenancy: Tenancy;
  close(): Promise<void>;
}

/** `dies`: which of the World's calls of a purge the process does not live to make. */
async function opened(dies?: (world: World) => World): Promise<Open> {
  const below = await openLocalWorld({ path: join(folder, "baton.db") });
  const clock = systemClock;
  const part = await openTenantsPart({
    world: dies?.(below) ?? below,
    keyFolder: join(folder, "keys"),
    mayCreateMasterKey: true,
    defaults: EMBEDDED_QUOTAS,
    hasDefaultTenant: false,
    clock,
    log: silentLog,
  }).catch(async (error: unknown) => {
    await below.close();
    throw error;
  });
  const engine = {
    recoverTenant: async () => 0,
    inUse: () => ({ runsDelivered: 0, steps: 0, liveHeapBytes: 0, snapshotBytes: null }),
    forgetTenant: (tenantId: TenantId) => void forgotten.push(tenantId),
  };
  const { tenancy, upkeep } = tend(part, engine, { clock, log: silentLog });
  const close = async () => {
    await upkeep.stop();
    await below.close();
  };
  return { below, part, tenancy, close };
}

const WAIT = { timeout: 20_000 };
const CANARY = "canary-of-acme";
const bytes = (text: string) => Buffer.from(text.repeat(100));

/** A run of the tenant with a canary in each place that holds values. */
async function fill({ part, tenancy }: Open, tenantId: TenantId, canary: string): Promise<void> {
  await tenancy.create(tenantId);
  await tenancy.secrets.set(tenantId, "TOKEN", canary);
  const store = part.world.forTenant(tenantId);
  const { events, blobs, streams, snapshots, bundles } = store;
  const created = {
    deploymentId: "d".repeat(64),
    workflowName: "w",
    input: bytes(canary),
    seed: Buffer.alloc(32, 7),
  };
  await events.create(RUN, newEvent("run_created", null, created));
  const tokenHash = await part.policy.tokenHash(tenantId, canary);
  const hook = { token: bytes(canary), tokenHash, isWebhook: false, isSystem: false };
  await events.create(RUN, newEvent("hook_created", HOOK, hook));
  await blobs.put(RUN, "key", bytes(canary));
  await streams.write(RUN, "stream", [bytes(canary)]);
  const bound = ["1", "d".repeat(64), "f".repeat(64)];
  await snapshots.put(RUN, {
    slot: slotOf(1),
    digest: "d".repeat(64),
    fingerprint: "f".repeat(64),
    bytes: await part.policy.sealSnapshot({ tenantId, runId: RUN }, bytes(canary), bound),
  });
  await bundles.put({
    hash: "b".repeat(64) as never,
    workflowCode: `const code = "${canary}";`,
    stepCode: "",
    manifest: "{}",
    guestLibrary: "",
    createdAt: 1,
  });
}

/** Every file that is left, by name. */
async function files(): Promise<[name: string, bytes: Buffer][]> {
  const found: [string, Buffer][] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) found.push([path.slice(folder.length + 1), await readFile(path)]);
  }
  return found;
}

async function holding(text: string): Promise<string[]> {
  return (await files()).filter(([, held]) => held.includes(text)).map(([name]) => name);
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "baton-deletion-"));
  forgotten = [];
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe("the deletion of a tenant (T46, T47, T48)", () => {
  it("leaves nothing of it in any file, and all of its neighbour", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    await fill(open, ZETA, "canary-of-zeta");
    const key = await readFile(join(folder, "keys", "tenants", "acme.key"), "utf8");
    const sealed = (await open.below.forTenant(ACME).blobs.get(RUN, "key")) ?? new Uint8Array();
    // The control: before it, the bundle's code and the sealed bytes are found.
    expect((await holding(CANARY)).length).toBeGreaterThan(0);

    const receipt = await open.tenancy.delete(ACME);
    expect(receipt).toMatchObject({ tenantId: ACME });
    expect(receipt.covers).toContain("its data key");
    expect(receipt.cannotReach.join()).toContain("backups");
    expect(forgotten).toContain(ACME);
    expect(await holding(CANARY)).toEqual([]);
    expect(await holding(JSON.parse(key).wrapped)).toEqual([]);
    for (const [name, held] of await files()) {
      expect(held.includes(Buffer.from(sealed).subarray(21, 60)), name).toBe(false);
    }
    expect(await open.tenancy.get(ACME)).toBeNull();
    expect((await open.tenancy.list()).data.map((tenant) => tenant.tenantId)).toEqual([ZETA]);
    const kept = await open.part.world.forTenant(ZETA).blobs.get(RUN, "key");
    expect(Buffer.from(kept ?? []).includes("canary-of-zeta")).toBe(true);
    await open.close();
    expect(await holding("acme")).toEqual([]);
  });

  it("makes a copy of the World that was taken before unreadable", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    const target = join(folder, "backup.db");
    await (open.below as Awaited<ReturnType<typeof openLocalWorld>>).backup(target);
    await open.tenancy.delete(ACME);
    const copy = new Database(target, { readonly: true });
    const rows = copy.prepare("SELECT bytes FROM cell WHERE space = 'blob'").pluck().all();
    copy.close();
    expect(rows.length).toBe(1);
    const place = {
      run: { tenantId: ACME, runId: RUN },
      purpose: "blob",
      binding: ["key"],
    } as const;
    await expect(open.part.vault.forTenant(ACME)).rejects.toMatchObject({
      code: "PAYLOAD_UNREADABLE",
    });
    // Not even a tenant that is made again under the same id opens it.
    await open.tenancy.create(ACME);
    const keys = await open.part.vault.forTenant(ACME);
    expect(() => keys.open(place, rows[0] as Uint8Array)).toThrow();
    await open.close();
  });

  it("that died after the key went is finished by the next start", async () => {
    const dead = await opened((world) => ({
      ...world,
      tenants: { ...world.tenants, purge: () => Promise.reject(new Error("the process dies")) },
    }));
    await fill(dead, ACME, CANARY);
    await expect(dead.tenancy.delete(ACME)).rejects.toThrow("dies");
    // The key is gone already: what is still there opens no more.
    await expect(dead.part.world.forTenant(ACME).blobs.get(RUN, "key")).rejects.toMatchObject({
      code: "PAYLOAD_UNREADABLE",
    });
    expect(await dead.tenancy.get(ACME)).toMatchObject({ status: "deleting", secretNames: [] });
    await dead.close();
    expect((await holding(CANARY)).length).toBeGreaterThan(0);

    const next = await opened();
    await vi.waitFor(async () => expect(await next.tenancy.get(ACME)).toBeNull(), WAIT);
    await next.close();
    expect(await holding(CANARY)).toEqual([]);
  });

  it("that died before the key went destroys it at the next start", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    await open.part.registry.change(ACME, (tenant) => ({ ...tenant, status: "deleting" }));
    await open.close();
    const next = await opened();
    await vi.waitFor(async () => expect(await next.tenancy.get(ACME)).toBeNull(), WAIT);
    await next.close();
    expect(await readdir(join(folder, "keys", "tenants"))).toEqual([]);
    expect(await holding(CANARY)).toEqual([]);
  });

  it("takes no write from what was under way", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    const store = open.part.world.forTenant(ACME);
    const bound = ["1", "d".repeat(64), "f".repeat(64)];
    const run = { tenantId: ACME, runId: RUN };
    const image = await open.part.policy.sealSnapshot(run, bytes(CANARY), bound);
    await open.tenancy.delete(ACME);
    const snapshot = { slot: slotOf(1), digest: "d".repeat(64), fingerprint: "f".repeat(64) };
    const refused = { code: "PAYLOAD_UNREADABLE" };
    await expect(store.snapshots.put(RUN, { ...snapshot, bytes: image })).rejects.toMatchObject(
      refused,
    );
    await expect(store.blobs.put(RUN, "late", bytes(CANARY))).rejects.toMatchObject(refused);
    await expect(store.streams.write(RUN, "late", [bytes(CANARY)])).rejects.toMatchObject(refused);
    await expect(store.bundles.setAlias("live", "b".repeat(64) as never)).rejects.toMatchObject(
      refused,
    );
    await expect(
      store.events.create(RUN, newEvent("run_cancelled", null, {})),
    ).rejects.toMatchObject(refused);
    await open.close();
  });

  it("answers every other call as being deleted, or as unknown, and is not undone", async () => {
    const dead = await opened((world) => ({
      ...world,
      tenants: { ...world.tenants, purge: () => Promise.reject(new Error("the process dies")) },
    }));
    await fill(dead, ACME, CANARY);
    const { key } = await dead.tenancy.apiKeys.issue(ACME);
    await expect(dead.tenancy.delete(ACME)).rejects.toThrow("dies");
    const refused = { code: "TENANT_SUSPENDED" };
    await expect(dead.tenancy.resume(ACME)).rejects.toMatchObject(refused);
    await expect(dead.tenancy.suspend(ACME)).rejects.toMatchObject(refused);
    await expect(dead.tenancy.apiKeys.issue(ACME)).rejects.toMatchObject(refused);
    await expect(dead.tenancy.secrets.set(ACME, "A", "b")).rejects.toMatchObject(refused);
    await expect(dead.tenancy.authenticate(key)).rejects.toMatchObject({ code: "API_KEY_REFUSED" });
    await expect(dead.tenancy.create(ACME)).rejects.toMatchObject({ code: "ENTITY_CONFLICT" });
    expect(await readdir(join(folder, "keys", "tenants"))).toEqual([]);
    await dead.close();
  });

  it("is not told as done while the WAL is held open by a reader", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    const reader = new Database(join(folder, "baton.db"), { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT COUNT(*) FROM cell").get();
    await expect(open.tenancy.delete(ACME)).rejects.toMatchObject({ code: "WORLD_UNAVAILABLE" });
    reader.close();
    expect(await open.tenancy.delete(ACME)).toMatchObject({ tenantId: ACME });
    expect(await holding(CANARY)).toEqual([]);
    await open.close();
  });
});

describe("a rotation of the master key", () => {
  it("through the operator's surface leaves everything readable, and the old key removable", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    await fill(open, ZETA, "canary-of-zeta");
    expect(open.tenancy.addMasterKey()).toBe(2);
    await expect(open.tenancy.removeMasterKey(1)).rejects.toMatchObject({ code: "MASTER_KEY" });
    expect(await open.tenancy.rotateMasterKey()).toMatchObject({ rewrapped: 2, removable: [1] });
    await open.tenancy.removeMasterKey(1);
    await open.close();
    const next = await opened();
    const kept = await next.part.world.forTenant(ACME).blobs.get(RUN, "key");
    expect(Buffer.from(kept ?? []).includes(CANARY)).toBe(true);
    await next.close();
  });
});

describe("a start", () => {
  it("without the data keys of tenants that have data is refused (T11)", async () => {
    const open = await opened();
    await fill(open, ACME, CANARY);
    await open.close();
    await rm(join(folder, "keys"), { recursive: true });
    await expect(opened()).rejects.toMatchObject({ code: "MASTER_KEY" });
  });
});
