import { beforeEach, describe, expect, it } from "vitest";
import { runIdOf, type RunId, type TenantId } from "../../engine/ids.ts";
import { newEvent } from "../../engine/plan.ts";
import type { World } from "../../engine/ports/world.ts";
import { SERVER_QUOTAS, type Quotas } from "../../tenants/quota.ts";
import { TenantRegistry } from "../../tenants/registry.ts";
import { PURGED_PER_ROUND, ROUND_MS, Upkeep } from "../../tenants/upkeep.ts";
import { Vault } from "../../tenants/vault.ts";
import { HeldClock } from "../../worlds/conformance/held-clock.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import { silentLog } from "../../worlds/platform.ts";
import { ACME, ZETA, keysInMemory, masterKeys } from "./vaults.ts";

const DAY_MS = 86_400_000;
const CREATED = {
  deploymentId: "d".repeat(64),
  workflowName: "w",
  input: new Uint8Array(),
  seed: new Uint8Array(32),
};
const NO_RETENTION: Quotas = { ...SERVER_QUOTAS, retentionMs: null };
let clock: HeldClock;
let world: World;
let lists = 0;

beforeEach(() => {
  clock = new HeldClock(1_700_000_000_000);
  lists = 0;
  const memory = createMemoryWorld({ clock });
  const tenants = {
    ...memory.tenants,
    list: (...of: Parameters<World["tenants"]["list"]>) => {
      lists += 1;
      return memory.tenants.list(...of);
    },
  };
  world = { ...memory, tenants };
});

function setUp(
  defaults: Quotas,
  finishDeletion: (tenantId: TenantId) => Promise<void> = async () => undefined,
) {
  const vault = new Vault(masterKeys(1), keysInMemory());
  const registry = new TenantRegistry({ records: world.tenants, vault, clock, defaults });
  const upkeep = new Upkeep({ world, registry, clock, log: silentLog, finishDeletion });
  return { registry, upkeep };
}

/** Lets everything happen that needs no time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
const advance = (ms: number): Promise<void> => clock.advance(ms, settle);

async function finished(tenantId: TenantId, n: number): Promise<RunId> {
  const runId = runIdOf(`wrun_${String(n).padStart(26, "0")}`);
  const { events } = world.forTenant(tenantId);
  await events.create(runId, newEvent("run_created", null, CREATED));
  await events.create(runId, newEvent("run_cancelled", null, {}));
  return runId;
}

async function kept(tenantId: TenantId): Promise<number> {
  return (await world.forTenant(tenantId).runs.list({ limit: 1000 })).data.length;
}

describe("retention", () => {
  it("removes runs that finished longer ago than it, not younger ones, and not open ones", async () => {
    const { registry, upkeep } = setUp(SERVER_QUOTAS);
    await registry.create(ACME);
    await finished(ACME, 1);
    const open = runIdOf(`wrun_7${"Z".repeat(25)}`);
    await world.forTenant(ACME).events.create(open, newEvent("run_created", null, CREATED));
    upkeep.nudge();
    await advance(3 * DAY_MS);
    await finished(ACME, 2);
    expect(await kept(ACME)).toBe(3);
    await advance(4 * DAY_MS - ROUND_MS);
    expect(await kept(ACME)).toBe(3);
    await advance(2 * ROUND_MS);
    const left = (await world.forTenant(ACME).runs.list()).data.map((run) => run.runId);
    expect(left).toContain(open);
    expect(left.length).toBe(2);
    await advance(3 * DAY_MS + ROUND_MS);
    expect((await world.forTenant(ACME).runs.list()).data.map((run) => run.runId)).toEqual([open]);
    await upkeep.stop();
  });

  it("is each tenant's own, and none of a tenant without one", async () => {
    const { registry, upkeep } = setUp(NO_RETENTION);
    await registry.create(ACME, { retentionMs: 1000 });
    await registry.create(ZETA);
    await finished(ACME, 1);
    await finished(ZETA, 1);
    await advance(2000);
    upkeep.nudge();
    await settle();
    expect([await kept(ACME), await kept(ZETA)]).toEqual([0, 1]);
    await upkeep.stop();
  });

  it("goes in bounded rounds, in which every tenant has its turn (T49)", async () => {
    const { registry, upkeep } = setUp({ ...SERVER_QUOTAS, retentionMs: 1000 });
    await registry.create(ACME);
    await registry.create(ZETA);
    for (let n = 0; n < PURGED_PER_ROUND * 2 + 1; n++) await finished(ACME, n);
    await finished(ZETA, 1);
    await advance(2000);
    upkeep.nudge();
    await settle();
    expect([await kept(ACME), await kept(ZETA)]).toEqual([PURGED_PER_ROUND + 1, 0]);
    await advance(250);
    expect(await kept(ACME)).toBe(1);
    await advance(250);
    expect(await kept(ACME)).toBe(0);
    await upkeep.stop();
  });

  it("that no tenant has costs nothing after the first look, until something changes", async () => {
    const { registry, upkeep } = setUp(NO_RETENTION);
    await registry.create(ACME);
    upkeep.nudge();
    await settle();
    expect(lists).toBe(1);
    await advance(100 * DAY_MS);
    expect(lists).toBe(1);
    await registry.setQuotas(ACME, { retentionMs: 1000 });
    await finished(ACME, 1);
    upkeep.nudge();
    await advance(ROUND_MS);
    expect(await kept(ACME)).toBe(0);
    await upkeep.stop();
    await advance(DAY_MS);
    expect(lists).toBe(3);
  });
});

describe("deletions that were cut short", () => {
  it("are tried again while they fail, and hold up no other tenant", async () => {
    const tried: TenantId[] = [];
    const { registry, upkeep } = setUp(SERVER_QUOTAS, async (tenantId) => {
      tried.push(tenantId);
      throw new Error("a reader holds the WAL");
    });
    await registry.create(ACME);
    await registry.create(ZETA, { retentionMs: 0 });
    await finished(ZETA, 1);
    await registry.change(ACME, (tenant) => ({ ...tenant, status: "deleting" }));
    await advance(1);
    upkeep.nudge();
    await settle();
    expect([tried, await kept(ZETA)]).toEqual([[ACME], 0]);
    await advance(ROUND_MS);
    expect(tried).toEqual([ACME, ACME]);
    await upkeep.stop();
  });
});
