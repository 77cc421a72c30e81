/** What a process remembers between deliveries: bounded, and never the truth. */
import { describe, expect, it } from "vitest";
import { ConsumedPositions } from "../../engine/consumed-position.ts";
import { runIdOf, tenantIdOf } from "../../engine/ids.ts";
import type { RunRef } from "../../engine/ids.ts";
import { LiveHeaps } from "../../engine/live-heaps.ts";
import { RunLog } from "../../engine/log.ts";
import type { Heap } from "../../engine/ports/sandbox.ts";
import { STOP_GRACE_MS } from "../../engine/limits.ts";
import { Progress, Stopping } from "../../engine/progress.ts";
import { RecentKeys } from "../../engine/recent-keys.ts";
import { slotOf } from "../../engine/slots.ts";
import { HeldClock } from "../../worlds/conformance/index.ts";

const runOf = (tenant: string, n: number): RunRef => ({
  tenantId: tenantIdOf(tenant),
  runId: runIdOf(`wrun_${String(n).padStart(26, "0")}`),
});

describe("live heaps", () => {
  function cache(bytesMax: number) {
    const closed: string[] = [];
    const heaps = new LiveHeaps(bytesMax);
    const put = (tenant: string, n: number, heapBytes: number) => {
      const heap = { close: () => closed.push(`${tenant}${n}`) } as unknown as Heap;
      heaps.put(runOf(tenant, n), { heap, log: new RunLog(), snapshotSlot: 0, heapBytes });
    };
    return { heaps, closed, put };
  }

  it("evict the largest tenant first, and of it the run that rested longest", () => {
    const { heaps, closed, put } = cache(100);
    put("a", 1, 30);
    put("b", 1, 20);
    put("b", 2, 20);
    put("a", 2, 20);
    put("b", 3, 20);
    expect(closed).toEqual(["b1"]);
    put("a", 3, 20);
    expect(closed).toEqual(["b1", "a1"]);
    expect(heaps.heapCount).toBe(4);
  });

  it("what is taken out is the taker's to close", () => {
    const { heaps, closed, put } = cache(100);
    put("a", 1, 10);
    expect(heaps.take(runOf("a", 1))?.heapBytes).toBe(10);
    expect(heaps.take(runOf("a", 1))).toBeNull();
    expect(heaps.take(runOf("b", 1))).toBeNull();
    expect(closed).toEqual([]);
  });

  it("a second heap of a run takes the place of the first", () => {
    const { heaps, closed, put } = cache(100);
    put("a", 1, 10);
    put("a", 1, 20);
    expect([closed, heaps.heapCount]).toEqual([["a1"], 1]);
  });

  it("a heap that is too large alone is closed, and evicts nobody", () => {
    const { heaps, closed, put } = cache(100);
    put("a", 1, 100);
    put("a", 2, 101);
    expect([closed, heaps.heapCount]).toEqual([["a2"], 1]);
  });

  it("closed, it holds none and takes none", () => {
    const { heaps, closed, put } = cache(100);
    put("a", 1, 10);
    heaps.close();
    put("a", 2, 10);
    expect([closed, heaps.heapCount]).toEqual([["a1", "a2"], 0]);
  });
});

describe("consumed positions", () => {
  const run = runOf("a", 1);

  it("are relied on until the next wait is due", () => {
    const positions = new ConsumedPositions(10);
    positions.record(run, { slot: slotOf(4), nextDueMs: 100_000 });
    expect(positions.restingAt(run, 99_999)).toBe(4);
    expect(positions.restingAt(run, 100_000)).toBeNull();
    positions.record(run, { slot: slotOf(5), nextDueMs: null });
    expect(positions.restingAt(run, 1e15)).toBe(5);
    positions.forget(run);
    expect(positions.restingAt(run, 0)).toBeNull();
  });

  it("are forgotten from the oldest on", () => {
    const positions = new ConsumedPositions(2);
    for (const n of [1, 2, 1, 3]) {
      positions.record(runOf("a", n), { slot: slotOf(n), nextDueMs: null });
    }
    const known = [1, 2, 3].map((n) => positions.restingAt(runOf("a", n), 0));
    expect(known).toEqual([1, null, 3]);
  });
});

describe("recent keys", () => {
  it("forget the oldest", () => {
    const keys = new RecentKeys(2);
    for (const key of ["a", "b", "a", "c"]) keys.add(key);
    expect(["a", "b", "c"].map((key) => keys.has(key))).toEqual([true, false, true]);
  });
});

describe("progress", () => {
  it("a notice before the wait ends it at once, and is used up", async () => {
    const clock = new HeldClock();
    const progress = new Progress(clock);
    progress.notify();
    await progress.wait(null);
    let isOver = false;
    const waiting = progress.wait(clock.now() + 1_000).then(() => (isOver = true));
    await clock.advance(999);
    expect(isOver).toBe(false);
    await clock.advance(1);
    await waiting;
  });

  it("a notice ends a wait without a limit, and leaves no timer", async () => {
    const clock = new HeldClock();
    const progress = new Progress(clock);
    const waits = [progress.wait(null)];
    progress.notify();
    await waits[0];
    const limited = progress.wait(clock.now() + 1_000);
    progress.notify();
    await limited;
    expect(clock.nextTimerAt).toBeNull();
  });

  it("all listeners hear that the process is stopping, but those that left", () => {
    const stopping = new Stopping(new HeldClock());
    const heard: string[] = [];
    const listen = (name: string) =>
      stopping.listen({
        onBegin: () => heard.push(`${name} begins`),
        onCut: () => heard.push(`${name} is cut`),
      });
    listen("a");
    listen("b")();
    stopping.begin();
    expect([stopping.hasBegun, heard]).toEqual([true, ["a begins"]]);
  });

  it("who comes to listen late hears of the stop and of the end of its grace at once", async () => {
    const clock = new HeldClock();
    const stopping = new Stopping(clock);
    const heard: string[] = [];
    stopping.begin();
    await clock.advance(STOP_GRACE_MS);
    stopping.listen({ onBegin: () => heard.push("begins"), onCut: () => heard.push("is cut") });
    expect(heard).toEqual(["begins", "is cut"]);
  });
});
