/**
 * The example's runs, led live by the engine: their logs decide the same in heaps that are put
 * away and brought back after every event in another process, and in heaps that start from nothing.
 */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createBaton } from "../../engine/compose.ts";
import type { Baton } from "../../engine/compose.ts";
import { nextFeed } from "../../engine/consume.ts";
import type { RunEvent } from "../../engine/events.ts";
import { runIdOf, tenantIdOf } from "../../engine/ids.ts";
import { RunLog } from "../../engine/log.ts";
import type { GuestEvent, HeapImage, HeapRequest } from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import { heapLimitsOf, EMBEDDED_QUOTAS } from "../../tenants/quota.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";
import { expectedOf } from "../../examples/orders/oracle.ts";
import type { OrderEntry } from "../../examples/orders/oracle.ts";
import { Elsewhere } from "../sandbox/equivalence/elsewhere.ts";
import { lasting, replayCold } from "../sandbox/equivalence/lead.ts";

const TENANT = tenantIdOf("default");
const ORDERS = "examples/orders";
const ENTRIES = JSON.parse(readFileSync(`${ORDERS}/orders.json`, "utf8")) as OrderEntry[];
/** One of each kind of outcome, without the two whose 300 lines say nothing more. */
const CHOSEN = ["order-01", "order-15", "order-19", "order-20", "order-25", "order-27", "order-40"];

const sandbox = createSandbox({ form: "calling-thread" });
let elsewhere: Elsewhere;
let folder: string;
let baton: Baton;

beforeAll(async () => {
  elsewhere = new Elsewhere({ TZ: "Asia/Kathmandu", LANG: "de_DE.UTF-8" });
  folder = await mkdtemp(join(tmpdir(), "baton-orders-"));
  const world = await openLocalWorld({ path: join(folder, "baton.db") });
  baton = await createBaton({ world, keyFolder: join(folder, "keys"), steps: { trust: "host" } });
  await baton.bundles.deploy(await buildBundle({ projectRoot: ORDERS, entries: ["workflows"] }));
});

afterAll(async () => {
  elsewhere.close();
  await sandbox.close();
  await baton.close();
  await rm(folder, { recursive: true, force: true });
});

/** Runs an order to its end, with no long sleeps; its log. */
async function logOf({ input, answer }: OrderEntry): Promise<readonly RunEvent[]> {
  const run = await baton.start("order", [{ ...input, shipAfterMs: 5 }]);
  const expected = expectedOf({ input, answer });
  if (expected.asks && answer !== null) {
    const { approved, by } = answer;
    await vi.waitFor(() => baton.resumeHook(`approve:${input.id}`, { approved, by }), 20_000);
  }
  const result = await run.returnValue().then(
    (output) => ({ kind: "completed", output }),
    ({ cause }: { cause: Error }) => ({
      kind: "failed",
      name: cause.name,
      message: cause.message,
    }),
  );
  expect(result).toEqual(expected.result);
  const page = await baton.world.forTenant(TENANT).events.list(runIdOf(run.runId));
  expect(page.hasMore).toBe(false);
  return page.events;
}

/** What a heap was fed of a log, one event at a time. */
function fedOf(events: readonly RunEvent[]): readonly GuestEvent[] {
  const log = new RunLog();
  for (const event of events) log.append(event);
  return nextFeed(log, events.length)?.events ?? [];
}

async function requestOf(events: readonly RunEvent[]): Promise<HeapRequest> {
  const [created] = events;
  if (created?.eventType !== "run_created") throw new Error("a log begins with run_created");
  const { deploymentId, workflowName, seed } = created.eventData;
  const hash = deploymentId as Parameters<ReturnType<typeof bundlesOf>["get"]>[0];
  const bundle = await bundlesOf().get(hash);
  if (bundle === null) throw new Error("the bundle is stored");
  const { workflowCode, guestLibrary } = bundle;
  return {
    run: { tenantId: TENANT, runId: created.runId },
    bundle: { tenantId: TENANT, hash, workflowCode, guestLibrary },
    workflowName,
    seed,
    createdAt: created.createdAt,
    limits: heapLimitsOf(EMBEDDED_QUOTAS),
  };
}

const bundlesOf = () => baton.world.forTenant(TENANT).bundles;

describe.each(CHOSEN)("%s", (id) => {
  it("decides the same live, restored in another process after every event, and from cold", async () => {
    const entry = ENTRIES.find(({ input }) => input.id === id);
    if (entry === undefined) throw new Error(`there is no ${id}`);
    const events = await logOf(entry);
    const request = await requestOf(events);
    const passes = fedOf(events).map((event) => ({ events: [event] }));
    let image: HeapImage | null = null;
    for (const [i, pass] of passes.entries()) {
      const from: HeapRequest = image === null ? request : { ...request, image };
      const restored = await elsewhere.do({ kind: "restore", request: from, ...pass });
      const cold = await replayCold(sandbox, request, passes, i);
      expect(lasting(restored.after)).toBe(lasting(cold));
      image = restored.image;
    }
    // What the replay comes to is what the live run wrote.
    const last = events.at(-1);
    const { completion } = JSON.parse(
      await replayCold(sandbox, request, passes, passes.length - 1),
    );
    expect(`run_${completion.kind}`).toBe(last?.eventType);
  });
});
