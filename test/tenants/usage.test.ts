import { beforeEach, describe, expect, it } from "vitest";
import type { TenantRecords } from "../../engine/ports/world.ts";
import { FLUSH_MS, UsageCounters } from "../../tenants/usage.ts";
import { HeldClock } from "../../worlds/conformance/held-clock.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import { silentLog } from "../../worlds/platform.ts";
import { ACME, ZETA } from "./vaults.ts";

let clock: HeldClock;
let records: TenantRecords;

beforeEach(async () => {
  clock = new HeldClock();
  records = createMemoryWorld({ clock }).tenants;
  await records.put(ACME, "{}", 0);
  await records.put(ZETA, "{}", 0);
});

const counters = (over: Partial<TenantRecords> = {}) =>
  new UsageCounters({ records: { ...records, ...over }, clock, log: silentLog });

/** As a process that starts now sees it. */
const stored = (tenantId = ACME) => counters().of(tenantId);

describe("counted use (T70)", () => {
  it("outlives its process, and is added to by the next", async () => {
    const first = counters();
    first.add(ACME, { cpuMs: 1.5, passes: 1, heapBytesPeak: 9 });
    await first.close();
    const second = counters();
    second.add(ACME, { cpuMs: 2, stepAttempts: 3, heapBytesPeak: 7 });
    expect(await second.of(ACME)).toMatchObject({ cpuMs: 3.5, passes: 1, stepAttempts: 3 });
    await second.close();
    expect(await stored()).toMatchObject({ cpuMs: 3.5, stepAttempts: 3, heapBytesPeak: 9 });
    expect(await stored(ZETA)).toMatchObject({ cpuMs: 0, passes: 0 });
  });

  it("is stored after a while by itself, once, and nothing is written while nothing is counted", async () => {
    let writes = 0;
    const counting = counters({
      putUsage: (...of) => {
        writes += 1;
        return records.putUsage(...of);
      },
    });
    for (let n = 0; n < 1000; n++) counting.add(ACME, { passes: 1 });
    await clock.advance(FLUSH_MS - 1);
    expect(await stored()).toMatchObject({ passes: 0 });
    await clock.advance(1);
    expect(await stored()).toMatchObject({ passes: 1000 });
    await clock.advance(100 * FLUSH_MS);
    expect(writes).toBe(1);
  });

  it("of two processes adds up, however their writes meet", async () => {
    const both = [counters(), counters()];
    for (let n = 0; n < 20; n++) {
      for (const one of both) one.add(ACME, { events: 1 });
      await Promise.all(both.map((one) => one.flush()));
    }
    expect(await stored()).toMatchObject({ events: 40 });
  });

  it("is kept while it cannot be stored, and stored later", async () => {
    let isDown = true;
    const counting = counters({
      putUsage: async (...of) => {
        if (isDown) throw new Error("the World does not answer");
        return records.putUsage(...of);
      },
    });
    counting.add(ACME, { events: 5 });
    await clock.advance(FLUSH_MS);
    counting.add(ACME, { events: 1 });
    expect(await counting.of(ACME)).toMatchObject({ events: 6 });
    isDown = false;
    await clock.advance(FLUSH_MS);
    expect(await stored()).toMatchObject({ events: 6 });
    expect(await counting.of(ACME)).toMatchObject({ events: 6 });
  });

  it("of a tenant that was deleted is not written back", async () => {
    const counting = counters();
    counting.add(ACME, { events: 5 });
    await records.purge(ACME);
    await counting.close();
    expect(await records.getUsage(ACME)).toBeNull();
  });

  it("that another build stored, with counters more or less, is read for what is known", async () => {
    await records.putUsage(ACME, JSON.stringify({ events: 3, novelty: 8 }), 0);
    expect(await stored()).toMatchObject({ events: 3, passes: 0 });
    expect(await stored()).not.toHaveProperty("novelty");
  });
});
