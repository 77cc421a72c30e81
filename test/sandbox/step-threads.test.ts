import { describe, expect, it } from "vitest";
import { tenantIdOf } from "../../engine/ids.ts";
import { StepThreads } from "../../sandbox/step-threads.ts";
import type { Seat } from "../../sandbox/step-threads.ts";

const A = tenantIdOf("acme");
const B = tenantIdOf("globex");
const C = tenantIdOf("initech");

function pool(threadsMax: number) {
  let count = 0;
  const threads = new StepThreads<number>({ threadsMax, start: () => ++count });
  const seats: { seat: Seat<number> | null; done: boolean }[] = [];
  /** The thread, or null while it waits. */
  const take = async (tenantId: typeof A, isAlone = false) => {
    const entry: { seat: Seat<number> | null; done: boolean } = { seat: null, done: false };
    seats.push(entry);
    void threads.take(tenantId, isAlone).then((seat) => Object.assign(entry, { seat, done: true }));
    await Promise.resolve();
    await Promise.resolve();
    return entry;
  };
  return { threads, take, started: () => count };
}

const on = (entry: { seat: Seat<number> | null }) => entry.seat?.thread ?? null;

describe("threads of step heaps", () => {
  it("are started up to their number, then shared where fewest are", async () => {
    const { take, started } = pool(2);
    const threads = [];
    for (const tenant of [A, B, C, A]) threads.push(on(await take(tenant)));
    expect(threads).toEqual([1, 2, 1, 2]);
    expect(started()).toBe(2);
  });

  it("that are idle are used before a new one, the tenant's own first", async () => {
    const { take } = pool(4);
    const [a, b] = [await take(A), await take(B)];
    a.seat?.leave();
    b.seat?.leave();
    expect(on(await take(B))).toBe(2);
    expect(on(await take(B))).toBe(1);
  });

  it("seat no other tenant beside a body that is to be alone", async () => {
    const { take } = pool(2);
    const lone = await take(A, true);
    const others = [await take(B), await take(C), await take(B)];
    expect(others.map(on)).toEqual([2, 2, 2]);
    expect(on(await take(A, true))).toBe(on(lone));
    lone.seat?.leave();
    expect(on(await take(B))).toBe(2);
  });

  it("seat a body that is to be alone on no thread with another tenant's body", async () => {
    const { take } = pool(1);
    const shared = await take(A);
    const lone = await take(B, true);
    expect(on(lone)).toBe(null);
    // The thread is kept for it, so others cannot come in between for ever.
    const later = await take(C);
    expect(on(later)).toBe(null);
    shared.seat?.leave();
    await Promise.resolve();
    expect([on(lone), on(later)]).toEqual([1, null]);
    lone.seat?.leave();
    await Promise.resolve();
    expect(on(later)).toBe(1);
  });

  it("leave one for tenants in good standing, and half to other tenants", async () => {
    const { take } = pool(4);
    const own = [];
    for (let i = 0; i < 4; i++) own.push(on(await take(A, true)));
    expect(new Set(own).size).toBe(2);
    expect(on(await take(B, true))).toBe(3);
    expect(on(await take(C, true))).toBe(null);
    expect(on(await take(B))).not.toBe(null);
  });

  it("are given to waiting tenants in turns, whoever holds them and however many wait", async () => {
    const { take } = pool(1);
    const bodies = [await take(A, true), await take(B, true), await take(B, true), await take(C)];
    const seated = () => bodies.map(({ seat }) => seat !== null);
    expect(seated()).toEqual([true, false, false, false]);
    for (const [leaver, next] of [
      [0, 1],
      [1, 3],
      [3, 2],
    ] as const) {
      bodies[leaver]?.seat?.leave();
      await Promise.resolve();
      expect(bodies[next]?.done).toBe(true);
    }
    expect(seated()).toEqual([true, true, true, true]);
  });

  it("that are gone are replaced, and their seats mean nothing any more", async () => {
    const { threads, take } = pool(1);
    const lost = await take(A, true);
    const waiting = await take(B);
    threads.forget(1);
    await Promise.resolve();
    expect(on(waiting)).toBe(2);
    lost.seat?.leave();
    expect(on(await take(C))).toBe(2);
  });

  it("once closed seat nobody that waits", async () => {
    const { threads, take } = pool(1);
    await take(A, true);
    const waiting = await take(B);
    threads.close();
    await Promise.resolve();
    expect(waiting).toEqual({ seat: null, done: true });
  });
});
