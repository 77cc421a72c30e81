/** Which calls of the local World share a transaction (W34). */
import { describe, expect, it } from "vitest";
import type { LedgerCall } from "../../worlds/ledger.ts";
import { fairBatch } from "../../worlds/local/fair-batch.ts";

interface Named {
  readonly name: string;
  readonly call: LedgerCall;
}

const of = (part: LedgerCall["part"], method: string, ...args: readonly unknown[]): LedgerCall => ({
  part,
  method,
  args,
});
const create = (tenantId: string, n: number): Named => ({
  name: `${tenantId}${n}`,
  call: of("events", "create", { tenantId, runId: `wrun_${n}` }),
});
const flood = Array.from({ length: 10 }, (_, n) => create("flood", n));
const names = (all: readonly Named[]) => all.map(({ name }) => name);

describe("a transaction", () => {
  it("takes all that waits, as it came, while it fits", () => {
    const waiting = [...flood, create("other", 1)];
    expect(fairBatch(waiting, 11)).toEqual({ batch: waiting, left: [] });
  });

  it("takes another tenant's call before the eleventh of a flood", () => {
    const { batch, left } = fairBatch([...flood, create("other", 1)], 4);
    expect(names(batch)).toEqual(["flood0", "other1", "flood1", "flood2"]);
    expect(names(left)).toEqual([3, 4, 5, 6, 7, 8, 9].map((n) => `flood${n}`));
  });

  it.each<[string, LedgerCall]>([
    ["a send", of("queue", "sendAll", [{ message: { tenantId: "other" } }], 1)],
    ["a read by the tenant", of("rows", "runs", "other", {}, null, 1)],
    ["a read of a run", of("rows", "run", { tenantId: "other", runId: "wrun_1" })],
    ["an answer of a delivery", of("queue", "settle", "msg_1", 1, { kind: "ack" }, 1)],
    ["a call about nobody", of("cells", "tenants")],
  ])("counts %s as not the flood's", (name, call) => {
    expect(names(fairBatch([...flood, { name, call }], 2).batch)).toContain(name);
  });

  it("keeps each tenant's order over the transactions that follow", () => {
    let left: readonly Named[] = [...flood, create("other", 1), create("other", 2)];
    const seen: string[] = [];
    while (left.length > 0) {
      const next = fairBatch(left, 3);
      seen.push(...names(next.batch));
      left = next.left;
    }
    expect(seen.filter((name) => name.startsWith("flood"))).toEqual(names(flood));
    expect(seen.filter((name) => name.startsWith("other"))).toEqual(["other1", "other2"]);
  });
});
