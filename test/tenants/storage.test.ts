import { beforeEach, describe, expect, it } from "vitest";
import { newEvent } from "../../engine/plan.ts";
import type { TenantStore, World } from "../../engine/ports/world.ts";
import { meterWorld } from "../../tenants/metered-world.ts";
import {
  MEASURED_MS,
  MEASURED_WHEN_OVER_MS,
  Storage,
  measured,
  storedBytesOf,
} from "../../tenants/storage.ts";
import { HeldClock } from "../../worlds/conformance/held-clock.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import { silentLog } from "../../worlds/platform.ts";
import { ACME, RUN, STEP, ZETA } from "./vaults.ts";

const KIB = 1024;
const bytes = (count: number) => new Uint8Array(count);
const created = { deploymentId: "d".repeat(64), workflowName: "w", seed: bytes(32) };
const FULL = { code: "STORED_BYTES_EXCEEDED", status: 507 };

let clock: HeldClock;
let below: World;
let storage: Storage;
let world: World;
let measures: number;

beforeEach(async () => {
  clock = new HeldClock();
  below = createMemoryWorld({ clock });
  measures = 0;
  const measure: World["tenants"]["measure"] = (...of) => {
    measures += 1;
    return below.tenants.measure(...of);
  };
  storage = new Storage({ records: { measure }, clock, log: silentLog });
  world = meterWorld(below, storage);
});

async function started(tenantId = ACME, input = 0): Promise<TenantStore> {
  const store = world.forTenant(tenantId);
  const event = newEvent("run_created", null, { ...created, input: bytes(input) });
  await store.events.create(RUN, event);
  return store;
}

const stepCreated = (input: number) =>
  newEvent("step_created", STEP, { stepName: "s", input: bytes(input), inline: false });

describe("the estimate of stored bytes (T71)", () => {
  it("follows what this process writes, and is what the rows hold after a restart", async () => {
    const allowed = 100 * KIB;
    const store = await started();
    const before = await storage.bytesOf(ACME, allowed);
    await store.blobs.put(RUN, "k", bytes(5000));
    await store.streams.write(RUN, "s", [bytes(300), bytes(200)]);
    await store.events.create(RUN, stepCreated(1000));
    expect(await storage.bytesOf(ACME, allowed)).toBeGreaterThanOrEqual(before + 6500);
    expect(measures).toBe(1);
    const restarted = new Storage({ records: below.tenants, clock, log: silentLog });
    const truth = storedBytesOf(await measured(below.tenants, ACME));
    expect(await restarted.bytesOf(ACME, allowed)).toBe(truth);
    expect(truth).toBeGreaterThan(6500);
    expect(await storage.bytesOf(ZETA, allowed)).toBe(0);
  });

  it("is measured again after a while, and soon where there is no room", async () => {
    const store = await started();
    await storage.bytesOf(ACME, 100 * KIB);
    await clock.advance(MEASURED_MS - 1);
    await storage.bytesOf(ACME, 100 * KIB);
    expect(measures).toBe(1);
    await clock.advance(1);
    await storage.bytesOf(ACME, 100 * KIB);
    expect(measures).toBe(2);
    await store.blobs.put(RUN, "k", bytes(200 * KIB));
    await storage.bytesOf(ACME, 100 * KIB);
    await store.events.create(RUN, newEvent("run_cancelled", null, {}));
    await clock.advance(1);
    expect(await below.forTenant(ACME).runs.purgeFinished(clock.now(), 10)).toBe(1);
    expect(await storage.bytesOf(ACME, 100 * KIB)).toBeGreaterThan(200 * KIB);
    await clock.advance(MEASURED_WHEN_OVER_MS);
    await storage.bytesOf(ACME, 100 * KIB);
    await clock.advance(1);
    expect(await storage.bytesOf(ACME, 100 * KIB)).toBe(0);
  });

  it("stays as it was while the World does not measure", async () => {
    const failing = new Storage({
      records: { measure: () => Promise.reject(new Error("down")) },
      clock,
      log: silentLog,
    });
    expect(await failing.bytesOf(ACME, KIB)).toBe(0);
    failing.wrote(ACME, 5 * KIB);
    expect(await failing.bytesOf(ACME, KIB)).toBe(5 * KIB);
    expect(() => failing.assertNotFull(ACME)).toThrow("all that it may");
  });
});

describe("a tenant past the hard limit (T72)", () => {
  async function full(): Promise<TenantStore> {
    const store = await started();
    await storage.bytesOf(ACME, 10 * KIB);
    await store.blobs.put(RUN, "k", bytes(20 * KIB));
    return store;
  }

  it("just below it writes on; at it no payload is taken, in any form", async () => {
    const store = await started();
    const used = await storage.bytesOf(ACME, 10 * KIB);
    await store.blobs.put(RUN, "k", bytes(20 * KIB - used - 1));
    await store.blobs.put(RUN, "one more", bytes(1));
    await expect(store.blobs.put(RUN, "too much", bytes(1))).rejects.toMatchObject({
      ...FULL,
      details: { field: "storedBytesMax", used: 20 * KIB, allowed: 20 * KIB },
    });
    await expect(store.streams.write(RUN, "s", [bytes(1)])).rejects.toMatchObject(FULL);
    await expect(store.events.create(RUN, stepCreated(1))).rejects.toMatchObject(FULL);
    const fence = { inBand: true, expectedSeqInBand: 1, eventCount: 1 };
    await expect(store.events.createBatch(RUN, [stepCreated(1)], fence)).rejects.toMatchObject(
      FULL,
    );
    const output = newEvent("run_completed", null, { output: bytes(1) });
    await expect(store.events.create(RUN, output)).rejects.toMatchObject(FULL);
    expect((await below.forTenant(ACME).events.list(RUN)).events.length).toBe(1);
    expect(await below.forTenant(ACME).blobs.get(RUN, "too much")).toBeNull();
  });

  it("can end its runs, with an error but not with a large one", async () => {
    const store = await full();
    const failed = (size: number) =>
      newEvent("run_failed", null, { error: bytes(size), errorCode: "USER_ERROR" });
    await expect(store.events.create(RUN, failed(65 * KIB))).rejects.toMatchObject(FULL);
    await store.events.create(RUN, failed(KIB));
    expect((await store.runs.get(RUN))?.status).toBe("failed");
  });

  it("keeps no other tenant from writing", async () => {
    await full();
    await storage.bytesOf(ZETA, 10 * KIB);
    const store = await started(ZETA, KIB);
    await store.blobs.put(RUN, "k", bytes(KIB));
    expect((await store.blobs.get(RUN, "k"))?.length).toBe(KIB);
  });

  it("may be one without a limit: then nothing is measured or refused", async () => {
    const store = await started();
    for (let n = 0; n < 50; n++) await store.blobs.put(RUN, `k${n}`, bytes(10 * KIB));
    expect(measures).toBe(0);
  });
});
