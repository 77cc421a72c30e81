/** Every example runs as its README says, with its steps in heaps. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Baton, Run } from "../../engine/compose.ts";
import { createTestBaton } from "../../engine/testing.ts";
import type { TestBaton } from "../../engine/testing.ts";
import { EMBEDDED_QUOTAS } from "../../tenants/quota.ts";
import type { Order } from "../../examples/checkout/order.ts";
import type { Index, Progress } from "../../examples/documents/workflows/index-document.ts";

const example = (name: string) => ({ projectRoot: join("examples", name), entries: ["workflows"] });

async function all<T>(stream: ReadableStream<unknown>): Promise<T[]> {
  const chunks: T[] = [];
  for await (const chunk of stream as unknown as AsyncIterable<T>) chunks.push(chunk);
  return chunks;
}

describe("the checkout", () => {
  let testing: TestBaton;
  let baton: Baton;
  beforeAll(async () => {
    testing = await createTestBaton({ deploy: example("checkout") });
    ({ baton } = testing);
  });
  afterAll(() => testing.close());

  const start = async (order: Order): Promise<Run> => baton.start("checkout", [order]);
  const audit = (run: Run) => all<string>(run.getReadable({ namespace: "audit" }));
  const SMALL = [{ sku: "lamp", quantity: 2, unitCents: 4_500 }];
  const LARGE = [...SMALL, { sku: "desk", quantity: 2, unitCents: 50_000 }];
  const UNDONE = ["gave back 109000", "put back 2 desk", "put back 2 lamp"];

  it("ships a small order at once, and one whose provider is busy a minute later", async () => {
    const small = await start({ id: "a-1", lines: SMALL, card: "good" });
    expect(await small.returnValue()).toEqual({
      status: "shipped",
      totalCents: 9_000,
      parcel: "parcel-a-1",
    });
    expect((await small.row()).attributes).toEqual({ phase: "shipped" });
    expect(await audit(small)).toEqual(
      ["reserving", "paying", "shipping", "shipped"].map((phase) => `a-1: ${phase}`),
    );
    const busy = await start({ id: "a-2", lines: SMALL, card: "busy" });
    await testing.settle();
    expect(await busy.status()).toBe("running");
    await testing.advance(60_000);
    expect(await busy.returnValue()).toMatchObject({ status: "shipped" });
  });

  it("asks a person about a large one, and ships or undoes as they say", async () => {
    for (const [id, approved] of [
      ["b-1", true],
      ["b-2", false],
    ] as const) {
      const run = await start({ id, lines: LARGE, card: "good" });
      await testing.waitForHook(run, { token: `approve:${id}` });
      await baton.resumeHook(`approve:${id}`, { approved, by: "ada" });
      expect(await run.returnValue()).toEqual(
        approved
          ? { status: "shipped", totalCents: 109_000, parcel: `parcel-${id}` }
          : { status: "cancelled", why: "refused by ada", undone: UNDONE },
      );
    }
  });

  it("undoes, the last first, what nobody approves in two days", async () => {
    const run = await start({ id: "c-1", lines: LARGE, card: "good" });
    await testing.waitForSleep(run);
    await testing.advance(2 * 86_400_000 - 1);
    expect(await run.status()).toBe("running");
    await testing.advance(1);
    expect(await run.returnValue()).toEqual({
      status: "cancelled",
      why: "nobody approved within 2d",
      undone: UNDONE,
    });
    // Its token is free again.
    await expect(baton.resumeHook("approve:c-1", {})).rejects.toMatchObject({
      code: "HOOK_NOT_FOUND",
    });
  });

  it.each([
    ["declined", SMALL, "the card was declined", ["put back 2 lamp"]],
    ["expires", SMALL, "the authorisation has expired", ["gave back 9000", "put back 2 lamp"]],
    [
      "good",
      [...SMALL, { sku: "piano", quantity: 1, unitCents: 1 }],
      "not enough of piano",
      ["put back 2 lamp"],
    ],
  ] as const)(
    "undoes what was done before it stopped: card %s",
    async (card, lines, why, undone) => {
      const run = await start({ id: `d-${why.length}`, lines, card });
      expect(await run.returnValue()).toEqual({ status: "cancelled", why, undone });
    },
  );
});

describe("the document pipeline", () => {
  it("counts 200 pages side by side, tells of each, and leaves out the one it cannot read", async () => {
    await using testing = await createTestBaton({
      deploy: example("documents"),
      sandbox: { form: "threads", threads: 1, stepThreads: 3 },
    });
    const words = Array.from({ length: 200 }, (_, i) =>
      i === 70 ? "b\uFFFDd" : `w${"xyz"[i % 3]}`,
    );
    // One word to a page: each is as long as a page.
    const text = words.map((word) => word.padEnd(9, ".")).join(" ");
    const run = await testing.baton.start("indexDocument", [text, 9]);
    const live = all<Progress>(run.getReadable({ namespace: "progress" }));
    const index = (await run.returnValue()) as Index;
    expect(index).toMatchObject({ pages: 200, unread: [70], words: 199 });
    expect(index.top).toEqual(
      [
        ["wx", 67],
        ["wz", 66],
        ["wy", 66],
      ].sort(byCount),
    );
    const told = await live;
    expect(told.map(({ page }) => page).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 200 }, (_, i) => i).filter((page) => page !== 70),
    );
    expect(told.reduce((sum, one) => sum + one.words, 0)).toBe(199);
  });
});

function byCount(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  return Number(b[1]) - Number(a[1]) || (String(a[0]) < String(b[0]) ? -1 : 1);
}

describe("the agent", () => {
  let testing: TestBaton;
  let baton: Baton;
  beforeAll(async () => {
    testing = await createTestBaton({ deploy: example("agent") });
    ({ baton } = testing);
  });
  afterAll(() => testing.close());

  it("buys once a person agrees, and shows each turn as it happens", async () => {
    const run = await baton.start("agent", ["a green lamp"]);
    const { token } = await testing.waitForHook(run);
    expect(token).toBe(`ask:${run.runId}:1`);
    await baton.resumeHook(token, { agrees: true, comment: "but hurry" });
    const answer = "Bought for 36 EUR: receipt 36 EUR signed";
    expect(await run.returnValue()).toBe(answer);
    expect((await all<{ who: string }>(run.getReadable())).map(({ who }) => who)).toEqual([
      "user",
      "model",
      "tool",
      "model",
      "tool",
      "person",
      "model",
    ]);
  });

  it("takes a no, and an hour of silence, for a no", async () => {
    const refused = await baton.start("agent", ["a red lamp"]);
    const { token } = await testing.waitForHook(refused);
    await baton.resumeHook(token, { agrees: false, comment: "too dear" });
    expect(await refused.returnValue()).toBe("I did not buy it: no, too dear");
    const silent = await baton.start("agent", ["a blue lamp"]);
    await testing.waitForSleep(silent);
    await testing.advance(3_600_000);
    expect(await silent.returnValue()).toBe("I did not buy it: no, nobody answered");
  });

  it("fails with what its model says for good", async () => {
    const run = await baton.start("agent", ["nonsense"]);
    await expect(run.returnValue()).rejects.toMatchObject({
      code: "RUN_FAILED",
      cause: { name: "FatalError", message: "the model refuses" },
    });
  });
});

describe("a tenant that misbehaves", () => {
  const STRANGER = { tenantId: "stranger" };
  let testing: TestBaton;
  let baton: Baton;
  beforeAll(async () => {
    testing = await createTestBaton({
      deploy: example("misbehaving"),
      sandbox: { form: "threads", threads: 2, stepThreads: 3 },
      quotas: { ...EMBEDDED_QUOTAS, openOperationsMax: 50, payloadBytesMax: 200_000 },
    });
    ({ baton } = testing);
    await baton.tenants.create(STRANGER.tenantId);
    const { data } = await baton.bundles.list();
    const bundle = await import("../../tenants/bundles/build.ts").then(({ buildBundle }) =>
      buildBundle(example("misbehaving")),
    );
    expect(bundle.hash).toBe(data[0]?.hash);
    await baton.bundles.deploy(bundle, STRANGER);
  });
  afterAll(() => testing.close());

  const valueOf = async (workflow: string, ...args: unknown[]) =>
    (await baton.start(workflow, args)).returnValue();

  it.each([
    ["loopsForEver", "CPU_LIMIT_EXCEEDED", /cpu(Soft|Hard)Ms.*\d+.*\d+/],
    ["loopsInOneCall", "CPU_LIMIT_EXCEEDED", /cpu(Soft|Hard)Ms.*\d+.*\d+/],
    ["hoardsMemory", "HEAP_LIMIT_EXCEEDED", /heapBytesMax.*\d+.*\d+/],
  ])("%s fails with %s, which says why, while others go on", async (workflow, code, why) => {
    const neighbour = await baton.start("behaves", [15], STRANGER);
    const own = await baton.start("behaves", [15]);
    const failure = await valueOf(workflow).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "RUN_FAILED", details: { errorCode: code } });
    expect(String((failure as Error).cause)).toMatch(why);
    expect([await neighbour.returnValue(), await own.returnValue()]).toEqual([105, 105]);
  });

  it("can catch what a call is refused for, with the limit, what was used and what is allowed", async () => {
    const [count, why] = (await valueOf("floodsWithSteps", 60)) as [number, string];
    expect(count).toBe(10);
    expect(why).toBe(
      "QuotaExceededError: the run has 50 open steps, waits and hooks; 50 are allowed at once",
    );
    const [large, small] = (await valueOf("sendsTooMuch", 300_000)) as string[];
    expect(large).toMatch(/Failed to serialize step arguments.*200000/s);
    expect(small).toBe("allowed: small");
    expect(await valueOf("spinsInAStep")).toMatch(/CPU_LIMIT_EXCEEDED.*cpuSoftMs/);
  });

  it("finds no network, no compiler and no process", async () => {
    for (const told of (await valueOf("callsHome")) as string[]) {
      expect(told).toMatch(/fetch is denied: the tenant has no egress policy/);
    }
    const [evaluated, constructed, required, exited] = (await valueOf("makesCode")) as string[];
    expect([evaluated, constructed]).toEqual(
      Array(2).fill(expect.stringMatching(/^NotAvailableError/)),
    );
    expect([required, exited]).toEqual(Array(2).fill("allowed: undefined"));
  });

  it("finds neither runs nor hooks of others", async () => {
    const victim = await baton.start("behaves", [1], STRANGER);
    await victim.returnValue();
    const [exists, ...told] = (await valueOf(
      "readsNeighbours",
      victim.runId,
      "their-token",
    )) as string[];
    expect(exists).toBe("false");
    expect(told).toEqual([
      expect.stringMatching(/^WorkflowRunNotFoundError/),
      expect.stringMatching(/^WorkflowRunNotFoundError/),
      expect.stringMatching(/^HookNotFoundError/),
    ]);
    expect(await victim.status()).toBe("completed");
  });
});
