import { describe, expect, it, vi } from "vitest";
import { runIdOf, tenantIdOf } from "../../engine/ids.ts";
import { Conduct, MemoryBudget, PENALTY_MS } from "../../sandbox/placement.ts";

const MIB = 1 << 20;
const tenantId = tenantIdOf("acme");
const run = { tenantId, runId: runIdOf("wrun_01HF7YAT00TEST00000000000A") };
const other = { tenantId, runId: runIdOf("wrun_01HF7YAT00TEST00000000000B") };

describe("overruns", () => {
  it("convict a run at the second time only, and only at the same event", () => {
    const conduct = new Conduct();
    expect(conduct.overran(run, 3, 0)).toBe(false);
    expect(conduct.overran(other, 3, 0)).toBe(false);
    expect(conduct.overran(run, 4, 0)).toBe(false);
    expect(conduct.overran(run, 4, 0)).toBe(true);
    // After a conviction the count starts anew.
    expect(conduct.overran(run, 4, 0)).toBe(false);
  });

  it("without an event count like one event of their own", () => {
    const conduct = new Conduct();
    expect(conduct.overran(run, null, 0)).toBe(false);
    expect(conduct.overran(run, null, 0)).toBe(true);
  });

  it("bring the tenant under watch, for a while and no longer", () => {
    const conduct = new Conduct();
    expect(conduct.isPenalized(tenantId, 0)).toBe(false);
    conduct.overran(run, 1, 1000);
    expect(conduct.isPenalized(tenantId, 1000 + PENALTY_MS - 1)).toBe(true);
    expect(conduct.isPenalized(tenantId, 1000 + PENALTY_MS)).toBe(false);
    expect(conduct.isPenalized(tenantIdOf("globex"), 1001)).toBe(false);
  });
});

describe("memory", () => {
  it("admits in the order of asking, and never more than fit", async () => {
    // Room for two heaps of 2 MiB beside what one thread may grow.
    const budget = new MemoryBudget(12 * MIB, 1);
    const admitted: number[] = [];
    const asks = [0, 1, 2, 3].map(async (n) => {
      const reservation = await budget.reserve(tenantId, 8 * MIB);
      admitted.push(n);
      return reservation;
    });
    const [first, second] = await Promise.all(asks.slice(0, 2));
    expect(admitted).toEqual([0, 1]);
    first?.release();
    await asks[2];
    expect(admitted).toEqual([0, 1, 2]);
    second?.release();
    await asks[3];
    expect(admitted).toEqual([0, 1, 2, 3]);
  });

  it("a heap that grew keeps others waiting until it is smaller or gone", async () => {
    const budget = new MemoryBudget(20 * MIB, 1);
    const first = await budget.reserve(tenantId, 8 * MIB);
    first.note(20 * MIB);
    let isAdmitted = false;
    const second = budget.reserve(tenantId, 8 * MIB).then(() => (isAdmitted = true));
    await Promise.resolve();
    expect(isAdmitted).toBe(false);
    first.note(6 * MIB);
    await second;
    expect(isAdmitted).toBe(true);
  });

  it("a heap alone is admitted, however small the budget", async () => {
    const budget = new MemoryBudget(1, 8);
    const first = await budget.reserve(tenantId, 32 * MIB);
    first.release();
    first.release();
    await expect(budget.reserve(tenantId, 32 * MIB)).resolves.toBeDefined();
  });
});

describe("who gets memory first (S33)", () => {
  const hog = tenantIdOf("hog");
  const guest = tenantIdOf("guest");

  it("a tenant that holds nothing comes before one that fills the memory and asked before it", async () => {
    const budget = new MemoryBudget(20 * MIB, 1);
    const held = [];
    // 8 MiB for the growth of one heap, and 2 for each.
    for (let i = 0; i < 6; i++) held.push(await budget.reserve(hog, 8 * MIB));
    const order: string[] = [];
    for (let i = 0; i < 5; i++) {
      void budget.reserve(hog, 8 * MIB).then(() => void order.push("hog"));
    }
    void budget.reserve(guest, 8 * MIB).then(() => void order.push("guest"));
    await Promise.resolve();
    expect(order).toEqual([]);
    held[0]?.release();
    await vi.waitFor(() => expect(order.length).toBe(1));
    held[1]?.release();
    await vi.waitFor(() => expect(order.length).toBe(2));
    expect(order).toEqual(["guest", "hog"]);
  });

  it("as many heaps as just fit are there at once, and the next waits", async () => {
    const budget = new MemoryBudget(20 * MIB, 1);
    for (let i = 0; i < 6; i++) await budget.reserve(hog, 8 * MIB);
    let isAdmitted = false;
    void budget.reserve(guest, 8 * MIB).then(() => (isAdmitted = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isAdmitted).toBe(false);
  });
});
