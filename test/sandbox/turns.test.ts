/** Turns of tenants (S30, S31, S32): tables and properties. */
import { array, assert, double, integer, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import { tenantIdOf } from "../../engine/ids.ts";
import type { TenantId } from "../../engine/ids.ts";
import { QUANTUM_MS, Turns } from "../../sandbox/turns.ts";

const A = tenantIdOf("a");
const B = tenantIdOf("b");

/** Serves one piece of work; whose it was, and what it cost. */
function serve(turns: Turns<number>): { readonly tenantId: TenantId; readonly costMs: number } {
  const turn = turns.next();
  if (turn === null) throw new Error("something waits");
  turns.settle(turn, turn.item);
  return { tenantId: turn.tenantId, costMs: turn.item };
}

const costMs = double({ min: 0.05, max: 250, noNaN: true });
const neighbours = array(
  record({ weight: integer({ min: 1, max: 8 }), costs: array(costMs, { minLength: 1 }) }),
  { minLength: 2, maxLength: 6 },
);
const nameOf = (i: number): TenantId => tenantIdOf(`t${i}`);

/** Tenants that always have something waiting, their costs over and over. */
class Backlog {
  readonly turns = new Turns<number>();
  readonly #work = new Map<TenantId, { weight: number; costs: readonly number[]; next: number }>();

  join(tenantId: TenantId, weight: number, costs: readonly number[]): void {
    this.#work.set(tenantId, { weight, costs, next: 0 });
    this.#ask(tenantId);
    this.#ask(tenantId);
  }

  serve() {
    const done = serve(this.turns);
    this.#ask(done.tenantId);
    return done;
  }

  /** CPU ms that each tenant got until `totalMs` were used. */
  serveFor(totalMs: number): ReadonlyMap<TenantId, number> {
    const used = new Map<TenantId, number>();
    for (let sum = 0; sum < totalMs;) {
      const { tenantId, costMs: cost } = this.serve();
      used.set(tenantId, (used.get(tenantId) ?? 0) + cost);
      sum += cost;
    }
    return used;
  }

  #ask(tenantId: TenantId): void {
    const work = this.#work.get(tenantId);
    if (work === undefined) return;
    this.turns.add(tenantId, work.weight, work.costs[work.next++ % work.costs.length] ?? 1);
  }
}

describe("turns", () => {
  it("a tenant's work is done in the order it came", () => {
    const turns = new Turns<number>();
    for (const cost of [3, 1, 2]) turns.add(A, 1, cost);
    expect([serve(turns).costMs, serve(turns).costMs, serve(turns).costMs]).toEqual([3, 1, 2]);
    expect(turns.next()).toBeNull();
  });

  it("a thousand pieces of one tenant do not come before the first of another", () => {
    const turns = new Turns<number>();
    for (let i = 0; i < 1_000; i++) turns.add(A, 1, QUANTUM_MS);
    serve(turns);
    turns.add(B, 1, QUANTUM_MS);
    expect([serve(turns).tenantId, serve(turns).tenantId]).toContain(B);
  });

  it("after one piece of 250 ms others get 250 ms before its tenant's next", () => {
    const turns = new Turns<number>();
    turns.add(A, 1, 250);
    turns.add(A, 1, 250);
    expect(serve(turns).tenantId).toBe(A);
    for (let i = 0; i < 1_000; i++) turns.add(B, 1, 1);
    let ofB = 0;
    while (serve(turns).tenantId === B) ofB++;
    expect(ofB).toBeGreaterThanOrEqual(249);
    expect(ofB).toBeLessThanOrEqual(252);
  });

  it("an idle tenant's debt is not paid by the time it was idle", () => {
    const turns = new Turns<number>();
    turns.add(A, 1, 100);
    serve(turns);
    // Nobody else used anything meanwhile: the debt stands, and only B's use pays it off.
    for (let i = 0; i < 300; i++) turns.add(B, 1, 1);
    turns.add(A, 1, 1);
    let ofB = 0;
    while (serve(turns).tenantId === B) ofB++;
    expect(ofB).toBeGreaterThan(90);
  });

  it("work whose cost nobody told counts as what was expected of it", () => {
    const turns = new Turns<number>();
    for (let i = 0; i < 100; i++) {
      turns.add(A, 1, i);
      turns.add(B, 1, i);
    }
    let ofA = 0;
    for (let i = 0; i < 100; i++) {
      const turn = turns.next();
      if (turn === null) throw new Error("something waits");
      turns.settle(turn, null);
      if (turn.tenantId === A) ofA++;
    }
    expect(Math.abs(ofA - 50)).toBeLessThanOrEqual(2);
  });
});

describe("turns, whatever the work costs", () => {
  it("tenants that all wait get CPU in proportion to their weights (S30)", () => {
    assert(
      property(neighbours, (tenants) => {
        const backlog = new Backlog();
        tenants.forEach(({ weight, costs }, i) => backlog.join(nameOf(i), weight, costs));
        const used = backlog.serveFor(5_000);
        const perWeight = tenants.map(({ weight }, i) => (used.get(nameOf(i)) ?? 0) / weight);
        // One round's credit, and a piece of work on either side.
        expect(Math.max(...perWeight) - Math.min(...perWeight)).toBeLessThanOrEqual(
          QUANTUM_MS + 2 * 250,
        );
      }),
      { numRuns: 50 },
    );
  });

  it("whoever waits is served after a bounded amount of others' work (S31)", () => {
    assert(
      property(neighbours, costMs, (tenants, firstMs) => {
        const backlog = new Backlog();
        backlog.turns.add(A, 1, firstMs);
        backlog.serve();
        tenants.forEach(({ weight, costs }, i) => backlog.join(nameOf(i), weight, costs));
        backlog.turns.add(A, 1, 1);
        let othersMs = 0;
        for (let done = backlog.serve(); done.tenantId !== A; done = backlog.serve()) {
          othersMs += done.costMs;
        }
        // What A owes is paid in rounds, and in each the others get their credit; then their debts.
        const weights = tenants.reduce((sum, { weight }) => sum + weight, 0);
        const rounds = Math.ceil(firstMs / QUANTUM_MS) + 1;
        expect(othersMs).toBeLessThanOrEqual(weights * QUANTUM_MS * rounds + tenants.length * 250);
      }),
      { numRuns: 50 },
    );
  });

  it("a tenant that was idle is ahead by one round's credit and one piece at most (S32)", () => {
    assert(
      property(integer({ min: 1, max: 3_000 }), costMs, (idleMs, cost) => {
        const backlog = new Backlog();
        backlog.turns.add(A, 1, 1);
        backlog.join(B, 1, [1]);
        backlog.serveFor(idleMs);
        backlog.join(A, 1, [cost]);
        const used = backlog.serveFor(2_000);
        const ahead = (used.get(A) ?? 0) - (used.get(B) ?? 0);
        expect(ahead).toBeLessThanOrEqual(QUANTUM_MS + 2 * cost + 1);
      }),
      { numRuns: 50 },
    );
  });
});
