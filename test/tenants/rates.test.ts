/** Rates and minutes of CPU (T60, T61), and the bound on open runs (T62). */
import { describe, expect, it } from "vitest";
import { tenantIdOf } from "../../engine/ids.ts";
import { OpenRuns } from "../../tenants/open-runs.ts";
import { CpuMinutes, Rates } from "../../tenants/rates.ts";

const A = tenantIdOf("a");
const B = tenantIdOf("b");

describe("so many a second", () => {
  it("fit at once, one more fits after the time that the refusal names and not before", () => {
    const rates = new Rates();
    for (let i = 0; i < 50; i++) expect(rates.take("a", 50, 1_000)).toBeNull();
    const afterMs = rates.take("a", 50, 1_000) ?? 0;
    expect(afterMs).toBe(20);
    expect(rates.take("a", 50, 1_000 + afterMs - 1)).toBe(1);
    expect(rates.take("a", 50, 1_000 + afterMs)).toBeNull();
  });

  it("a refusal is not counted, and another key is not touched", () => {
    const rates = new Rates();
    expect(rates.take("a", 1, 0)).toBeNull();
    for (let i = 0; i < 100; i++) expect(rates.take("a", 1, 0)).toBe(1_000);
    expect(rates.take("a", 1, 1_000)).toBeNull();
    expect(rates.take("b", 1, 0)).toBeNull();
  });

  it("of none, nothing ever fits", () => {
    expect(new Rates().take("a", 0, 5)).toBe(1_000);
  });
});

describe("CPU of a minute", () => {
  it("is free below the limit, and at it has to be waited for until enough is a minute old", () => {
    const minutes = new CpuMinutes();
    minutes.add(A, 600, 10_000);
    minutes.add(A, 399, 20_000);
    expect(minutes.waitMs(A, 1_000, 25_000)).toBe(0);
    minutes.add(A, 1, 25_000);
    // The 600 ms of second 10 leave with second 70.
    expect(minutes.waitMs(A, 1_000, 25_000)).toBe(45_000);
    expect(minutes.waitMs(A, 1_000, 69_999)).toBe(1);
    expect(minutes.waitMs(A, 1_000, 70_000)).toBe(0);
  });

  it("is a tenant's own, and gone after a minute", () => {
    const minutes = new CpuMinutes();
    minutes.add(A, 5_000, 0);
    expect([minutes.usedMs(A, 59_999), minutes.usedMs(B, 59_999)]).toEqual([5_000, 0]);
    expect(minutes.usedMs(A, 60_000)).toBe(0);
    minutes.add(A, 1, 3_600_000);
    expect(minutes.usedMs(A, 3_600_500)).toBe(1);
  });

  it("has to be waited for no longer than a minute, whatever the limit", () => {
    const minutes = new CpuMinutes();
    minutes.add(A, 1, 500);
    expect(minutes.waitMs(A, 0, 500)).toBe(59_500);
  });
});

/** The counts of a World, and the time, as the test sets them. */
function opened(open: number) {
  const state = { open, counts: 0, nowMs: 1_000 };
  const runs = {
    countOpen: (max: number) => {
      state.counts++;
      return Promise.resolve(Math.min(state.open, max));
    },
  };
  const world = { forTenant: () => ({ runs }) } as unknown as ConstructorParameters<
    typeof OpenRuns
  >[0];
  const clock = { now: () => state.nowMs, setTimer: () => () => undefined };
  return { state, openRuns: new OpenRuns(world, clock) };
}

describe("open runs", () => {
  it("are started up to the limit, however many ask at once, and no further", async () => {
    const { openRuns } = opened(7);
    const answers = await Promise.all(Array.from({ length: 10 }, () => openRuns.take(A, 10)));
    expect(answers.filter((answer) => answer === null)).toHaveLength(3);
    expect(answers.filter((answer) => answer === 10)).toHaveLength(7);
  });

  it("are not counted for each start, and at the limit only now and then", async () => {
    const { openRuns, state } = opened(0);
    for (let i = 0; i < 10; i++) {
      expect(await openRuns.take(A, 10)).toBeNull();
      openRuns.end(A);
    }
    state.open = 10;
    expect(state.counts).toBe(1);
    for (let i = 0; i < 10; i++) expect(await openRuns.take(A, 10)).toBe(10);
    expect(state.counts).toBe(1);
    state.nowMs += 1_000;
    expect(await openRuns.take(A, 10)).toBe(10);
    expect(state.counts).toBe(2);
  });

  it("that ended make room once they are counted again", async () => {
    const { openRuns, state } = opened(10);
    expect(await openRuns.take(A, 10)).toBe(10);
    state.open = 9;
    state.nowMs += 1_000;
    expect(await openRuns.take(A, 10)).toBeNull();
    expect(await openRuns.take(A, 10)).toBe(10);
  });

  it("a start that was given up makes room again", async () => {
    const { openRuns, state } = opened(9);
    expect(await openRuns.take(A, 10)).toBeNull();
    openRuns.end(A);
    state.nowMs += 1_000;
    expect(await openRuns.take(A, 10)).toBeNull();
  });
});
