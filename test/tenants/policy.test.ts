import { beforeEach, describe, expect, it } from "vitest";
import type { ZodType } from "zod";
import { HEAP_LIMIT_RANGES } from "../../engine/limits.ts";
import { checkLimits } from "../../sandbox/limits.ts";
import { bundleHashOf, tenantIdOf } from "../../engine/ids.ts";
import { TenantPolicy } from "../../tenants/policy.ts";
import {
  EMBEDDED_QUOTAS,
  SERVER_QUOTAS,
  heapLimitsOf,
  quotasOf,
  quotasSchema,
  type Quotas,
} from "../../tenants/quota.ts";
import { TenantRegistry } from "../../tenants/registry.ts";
import { Storage } from "../../tenants/storage.ts";
import { silentLog } from "../../worlds/platform.ts";
import { UsageCounters } from "../../tenants/usage.ts";
import { Vault } from "../../tenants/vault.ts";
import { RecordingWorld } from "./recording-world.ts";
import { ACME, RUN, OTHER_RUN, ZETA, keysInMemory, masterKeys } from "./vaults.ts";

const MIB = 1024 * 1024;
const clock = { time: 1000, now: () => clock.time, setTimer: () => () => undefined };
let below: RecordingWorld;
let vault: Vault;

function parts(defaults: Quotas = SERVER_QUOTAS) {
  const registry = new TenantRegistry({ records: below.world.tenants, vault, clock, defaults });
  const usage = new UsageCounters({ records: below.world.tenants, clock, log: silentLog });
  const storage = new Storage({ records: below.world.tenants, clock, log: silentLog });
  return {
    registry,
    usage,
    policy: new TenantPolicy({ world: below.world, registry, vault, usage, storage, clock }),
  };
}

beforeEach(() => {
  below = new RecordingWorld();
  vault = new Vault(masterKeys(1), keysInMemory());
  clock.time = 1000;
});

describe("quotas", () => {
  it("of a server are those of the table, and valid", () => {
    expect(quotasSchema.parse(SERVER_QUOTAS)).toEqual(SERVER_QUOTAS);
    expect(SERVER_QUOTAS).toMatchObject({
      heapBytesMax: 32 * MIB,
      cpuSoftMs: 250,
      cpuHardMs: 1000,
      eventsMax: 100_000,
    });
  });

  it("of the embedded tenant limit heaps, CPU, payloads and attempts of steps, and nothing else", () => {
    expect(quotasSchema.parse(EMBEDDED_QUOTAS)).toEqual(EMBEDDED_QUOTAS);
    const limited = Object.entries(EMBEDDED_QUOTAS).filter(([, value]) => value !== null);
    expect(limited.map(([name]) => name).toSorted()).toEqual([
      "cpuHardMs",
      "cpuSoftMs",
      "cpuWeight",
      "heapBytesMax",
      "payloadBytesMax",
      "payloadInlineBytesMax",
      "responseBytesMax",
      "stepCpuMsMax",
      "stepWallMsMax",
    ]);
    expect(Object.values(heapLimitsOf(EMBEDDED_QUOTAS)).every(Number.isSafeInteger)).toBe(true);
  });

  it.each([
    ["embedded", EMBEDDED_QUOTAS],
    ["server", SERVER_QUOTAS],
  ])("the %s defaults come to limits that the sandbox keeps", (_name, quotas) => {
    expect(() => checkLimits(heapLimitsOf(quotas))).not.toThrow();
  });

  it.each(Object.entries(HEAP_LIMIT_RANGES))("bound %s as the sandbox does", (name, [min, max]) => {
    const schema = quotasSchema.shape[name as keyof Quotas] as ZodType | undefined;
    // Two limits of heaps are no quotas: they are the same for all tenants.
    if (schema === undefined) return;
    expect(schema.safeParse(max).success).toBe(true);
    expect(schema.safeParse(max + 1).success).toBe(false);
    expect(schema.safeParse(min - 1).success).toBe(false);
  });

  it("stop a heap at 128 MiB, whoever sets them", () => {
    const heap = quotasSchema.shape.heapBytesMax;
    expect(heap.safeParse(128 * MIB).success).toBe(true);
    expect(heap.safeParse(128 * MIB + 1).success).toBe(false);
    expect(heap.safeParse(1 * MIB).success).toBe(false);
  });

  it.each([
    [{ cpuSoftMs: 1001 }, "cpuSoftMs"],
    [{ eventsWarn: 100_001 }, "eventsWarn"],
    [{ payloadBytesMax: 1 }, "payloadInlineBytesMax"],
  ])("that contradict themselves are refused: %j", (overrides, field) => {
    expect(() => quotasOf(SERVER_QUOTAS, overrides)).toThrow(field);
  });
});

describe("the registry", () => {
  it("makes a tenant once, with a data key, and lists it", async () => {
    const { registry } = parts();
    const made = await registry.create(ACME, { heapBytesMax: 64 * MIB });
    expect(await registry.get(ACME)).toEqual(made);
    expect((await registry.list()).data).toEqual([made]);
    expect((await vault.forTenant(ACME)).tokenHash("t")).toMatch(/^[0-9a-f]{64}$/);
    await expect(registry.create(ACME)).rejects.toMatchObject({ code: "ENTITY_CONFLICT" });
    expect(await registry.get(ZETA)).toBe(null);
  });

  it("refuses quotas out of range and leaves nothing behind", async () => {
    const { registry } = parts();
    await expect(registry.create(ACME, { heapBytesMax: 1 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "heapBytesMax" },
    });
    expect(below.records.size).toBe(0);
    await expect(vault.forTenant(ACME)).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
  });

  it("of two writers that met lets both changes stand", async () => {
    const { registry } = parts();
    await registry.create(ACME);
    await Promise.all([
      registry.suspend(ACME),
      registry.setQuotas(ACME, { stepsMax: 7 }),
      registry.setQuotas(ACME, { feedsMax: 3 }),
    ]);
    expect(await registry.get(ACME)).toMatchObject({
      status: "suspended",
      quotas: { stepsMax: 7, feedsMax: 3 },
      revision: 4,
    });
  });

  it("does not bring back a tenant that is being deleted", async () => {
    const { registry } = parts();
    await registry.create(ACME);
    const stored = below.records.get(ACME);
    const body = stored?.body.replace("active", "deleting") ?? "";
    below.records.set(ACME, { tenantId: ACME, revision: 1, body });
    await expect(registry.resume(ACME)).rejects.toMatchObject({ code: "TENANT_SUSPENDED" });
    await expect(registry.suspend(ZETA)).rejects.toMatchObject({ code: "TENANT_NOT_FOUND" });
  });

  it("refuses a record that it does not know, rather than guessing", async () => {
    below.records.set(ACME, { tenantId: ACME, revision: 1, body: `{"version":2}` });
    await expect(parts().registry.get(ACME)).rejects.toMatchObject({ code: "WORLD_VERSION" });
  });

  it("makes the embedded tenant once, however many starts ask", async () => {
    const { registry } = parts(EMBEDDED_QUOTAS);
    const both = await Promise.all([registry.ensureDefault(), registry.ensureDefault()]);
    expect(new Set(both.map((tenant) => tenant.tenantId))).toEqual(
      new Set([tenantIdOf("default")]),
    );
    expect(below.records.get(tenantIdOf("default"))?.revision).toBe(1);
  });
});

describe("the policy", () => {
  it("says a tenant's standing, and a suspension within a second", async () => {
    const { registry, policy } = parts();
    await registry.create(ACME, { heapBytesMax: 64 * MIB });
    expect(await policy.standingOf(ACME)).toMatchObject({
      status: "active",
      limits: { heap: { heapBytesMax: 64 * MIB }, eventsMax: 100_000 },
    });
    await registry.suspend(ACME);
    clock.time += 1000;
    expect(await policy.standingOf(ACME)).toMatchObject({ status: "suspended" });
    expect(await policy.standingOf(ZETA)).toBe(null);
  });

  it("gives a bundle to its own tenant alone", async () => {
    const { policy } = parts();
    const hash = bundleHashOf("a".repeat(64));
    const bundle = {
      hash,
      workflowCode: "w",
      stepCode: "s",
      manifest: "{}",
      guestLibrary: "g",
      createdAt: 0,
    };
    await below.world.forTenant(ACME).bundles.put(bundle);
    expect(await policy.bundleOf(ACME, hash)).toEqual({
      tenantId: ACME,
      hash,
      workflowCode: "w",
      guestLibrary: "g",
    });
    expect(await policy.bundleOf(ZETA, hash)).toBe(null);
    expect(await policy.bundleOf(ACME, "no hash")).toBe(null);
  });

  it("opens a snapshot only for its run and for everything it is bound to", async () => {
    const { registry, policy } = parts();
    await registry.create(ACME);
    await registry.create(ZETA);
    const run = { tenantId: ACME, runId: RUN };
    const bound = ["3", "digest", "fingerprint"];
    const plain = new Uint8Array(5000).fill(1);
    const sealed = await policy.sealSnapshot(run, plain, bound);
    expect(await policy.openSnapshot(run, sealed, bound)).toEqual(plain);
    for (const other of [
      ["4", "digest", "fingerprint"],
      ["3", "other", "fingerprint"],
      ["3", "digest", "x"],
    ]) {
      expect(await policy.openSnapshot(run, sealed, other)).toBe(null);
    }
    expect(await policy.openSnapshot({ ...run, runId: OTHER_RUN }, sealed, bound)).toBe(null);
    expect(await policy.openSnapshot({ ...run, tenantId: ZETA }, sealed, bound)).toBe(null);
    expect(await policy.openSnapshot(run, plain, bound)).toBe(null);
  });

  it("adds up use, keeps the largest heap, and keeps tenants apart", async () => {
    const { policy, usage } = parts();
    policy.count(ACME, { passes: 1, cpuMs: 2.5, heapBytesPeak: 10 });
    policy.count(ACME, { passes: 1, heapBytesPeak: 7, events: 3 });
    expect(await usage.of(ACME)).toMatchObject({
      passes: 2,
      cpuMs: 2.5,
      heapBytesPeak: 10,
      events: 3,
    });
    expect(await usage.of(ZETA)).toMatchObject({ passes: 0 });
  });
});
