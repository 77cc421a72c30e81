/** Needs `npm run build` first: threads start from the built entry. */
import { afterEach, describe, expect, it } from "vitest";
import { runIdOf } from "../../engine/ids.ts";
import type {
  BundleCode,
  GuestEvent,
  HeapLimits,
  PassResult,
  Sandbox,
} from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
import type { Incident, ThreadsOptions } from "../../sandbox/threads.ts";
import {
  LIMITS,
  only,
  opened,
  outputOf,
  program,
  quiet,
  requestFor,
  started,
  stepCompleted,
} from "./heaps.ts";

const open: Sandbox[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((sandbox) => sandbox.close()));
});

function threads(options: ThreadsOptions = {}): { sandbox: Sandbox; incidents: Incident[] } {
  const incidents: Incident[] = [];
  const sandbox = createSandbox({
    form: "threads",
    onIncident: (incident) => incidents.push(incident),
    ...options,
  });
  open.push(sandbox);
  return { sandbox, incidents };
}

const TIGHT: HeapLimits = { ...LIMITS, cpuSoftMs: 80, cpuHardMs: 200 };

/** What the engine does when a heap is lost: opens it again and feeds the log from slot 1. */
async function untilEnd(
  sandbox: Sandbox,
  bundle: BundleCode,
  { events, limits, run = 0 }: { events: readonly GuestEvent[]; limits: HeapLimits; run?: number },
): Promise<{ result: PassResult; losses: number }> {
  const runId = runIdOf(`wrun_01HF7YAT00TEST0000000000${String(run).padStart(2, "0")}`);
  for (let losses = 0; ; losses++) {
    const request = requestFor(bundle, { limits, run: { tenantId: bundle.tenantId, runId } });
    const answer = await sandbox.open(request);
    if (answer.kind === "lost") continue;
    if (answer.kind !== "opened") throw new Error(JSON.stringify(answer));
    const result = await answer.heap.pass(events);
    answer.heap.close();
    if (result.kind !== "lost") return { result, losses };
    expect(losses).toBeLessThan(20);
  }
}

/** Programs that the engine does not interrupt, for at least many seconds. */
const UNINTERRUPTIBLE: readonly [string, string][] = [
  ["join of a huge array", `new Array(1_000_000_000) + "";`],
  ["join of an array-like", `Array.prototype.join.call({ length: 2 ** 53 - 1 }, "");`],
  ["reverse", `Array.prototype.reverse.call({ length: 2 ** 50 });`],
  ["includes on an array-like", `Array.prototype.includes.call({ length: 2 ** 50 }, 1);`],
  ["indexOf on an array-like", `Array.prototype.indexOf.call({ length: 2 ** 50 }, 1);`],
  ["forEach on an array-like", `Array.prototype.forEach.call({ length: 2 ** 50 }, () => 0);`],
  ["quadratic search", `("a".repeat(2e6) + "b").includes("a".repeat(1e6) + "c");`],
];

describe("the watchdog", () => {
  it.each(UNINTERRUPTIBLE)("%s ends within its hard limit and 100 ms of CPU", async (_, code) => {
    const { sandbox, incidents } = threads({ threads: 1 });
    const bundle = program(`${code} return 1;`);
    const { result, losses } = await untilEnd(sandbox, bundle, {
      events: [started()],
      limits: TIGHT,
    });
    expect(result).toMatchObject({
      kind: "limit",
      exceeded: { code: "CPU_LIMIT_EXCEEDED", limit: "cpuHardMs", allowed: 200 },
    });
    if (result.kind === "limit") expect(result.exceeded.used).toBeLessThan(300);
    expect(losses).toBe(1);
    expect(incidents.filter(({ kind }) => kind === "cpu_overrun")).toHaveLength(2);
  });

  it("heaps of other tenants on the killed thread are lost, not failed, and resume to their end", async () => {
    const { sandbox } = threads({ threads: 1 });
    const healthy = program(`const a = await step("a"); return a + (await step("b"));`, "globex");
    const heap = await opened(sandbox, requestFor(healthy));
    const first = only(await heap.pass([started()]));
    const image = await heap.snapshot({ slot: heap.consumedSlot, digest: "d" });
    const endless = program(`Array.prototype.reverse.call({ length: 2 ** 50 });`);
    const attacker = await opened(sandbox, requestFor(endless, { limits: TIGHT }));
    const event = stepCompleted(2, first.correlationId, 20);
    // Both go to the thread in this order, so the healthy pass waits behind the attack.
    const [attack, behind] = await Promise.all([attacker.pass([started()]), heap.pass([event])]);
    expect([attack.kind, behind.kind]).toEqual(["lost", "lost"]);
    const again = await opened(sandbox, requestFor(healthy, { image: image as never }));
    const second = only(await again.pass([event]));
    expect(outputOf(await again.pass([stepCompleted(3, second.correlationId, 3)]))).toBe(23);
  });

  it("a soft overrun that the program catches is a soft overrun, not a killed thread", async () => {
    const { sandbox, incidents } = threads({ threads: 1 });
    const heap = await opened(
      sandbox,
      requestFor(program(`for (;;) { try { for (;;); } catch {} }`), { limits: TIGHT }),
    );
    expect(await heap.pass([started()])).toMatchObject({
      kind: "limit",
      exceeded: { limit: "cpuSoftMs" },
    });
    expect(incidents).toEqual([]);
  });

  it("six busy loops beside it convict no healthy program", async () => {
    const { sandbox, incidents } = threads({ threads: 8 });
    const limits = { ...LIMITS, cpuSoftMs: 400, cpuHardMs: 500 };
    const spin = program(`let n = 0; const end = 4_000_000; while (n < end) n++; return n;`);
    const results = await Promise.all(
      Array.from({ length: 7 }, async (_, run) => {
        const { result } = await untilEnd(sandbox, spin, { events: [started()], limits, run });
        return outputOf(result);
      }),
    );
    expect(results).toEqual(Array.from({ length: 7 }, () => 4_000_000));
    expect(incidents).toEqual([]);
  });

  it("a thread that finishes nothing within its wall time is replaced, and no run is blamed", async () => {
    const { sandbox, incidents } = threads({ threads: 1, watchdog: { wallMsMax: 1000 } });
    const endless = program(`Array.prototype.reverse.call({ length: 2 ** 50 });`);
    const limits = { ...LIMITS, cpuSoftMs: 60_000, cpuHardMs: 60_000 };
    const answer = await sandbox.open(requestFor(endless, { limits }));
    // On a machine under load even the start may not end within the wall time.
    const last = answer.kind === "opened" ? await answer.heap.pass([started()]) : answer;
    expect(last).toMatchObject({ kind: "lost" });
    expect(incidents.map(({ kind, runId }) => [kind, runId])).toContainEqual([
      "wall_overrun",
      null,
    ]);
  });
});

describe("threads", () => {
  it("many heaps over two threads give what one on the calling thread gives", async () => {
    const { sandbox } = threads({ threads: 2 });
    const bundle = program(
      `let n = 0; for (let i = 0; i < 3; i++) n += await step("s" + i, n); return n;`,
    );
    const outputs = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const heap = await opened(sandbox, requestFor(bundle));
        let result = await heap.pass([started()]);
        for (let slot = 2; quiet(result).completion === null; slot++) {
          result = await heap.pass([stepCompleted(slot, only(result).correlationId, slot)]);
        }
        heap.close();
        return outputOf(result);
      }),
    );
    expect(new Set(outputs)).toEqual(new Set([9]));
  });

  it("deep recursion of every kind is an ordinary guest error, and the heap stays usable", async () => {
    const { sandbox } = threads({ threads: 1 });
    const bundle = program(`
      const tries = [
        () => { const f = () => f() + 1; f(); },
        () => JSON.parse("[".repeat(200000)),
        () => { let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; JSON.stringify(o); },
        () => { const o = { toJSON() { return { o: JSON.stringify(o) }; } }; JSON.stringify(o); },
        () => new RegExp("(".repeat(50000) + ")".repeat(50000)),
        () => { const p = new Proxy({}, { get: (_, k, r) => r[k] }); p.x; },
        () => { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity); },
        () => { const s = { get x() { return this.x; } }; s.x; },
      ];
      const names = []; for (const t of tries) { try { t(); names.push("none"); } catch (e) { names.push(e.constructor.name); } }
      return (await step("alive")) + names.length;`);
    const limits = { ...LIMITS, cpuSoftMs: 5000, cpuHardMs: 10_000, heapBytesMax: 128 << 20 };
    const heap = await opened(sandbox, requestFor(bundle, { limits }));
    const step = only(await heap.pass([started()]));
    expect(outputOf(await heap.pass([stepCompleted(2, step.correlationId, 100)]))).toBe(108);
  });

  it("opens wait while the heaps that are there fill the memory that is allowed", async () => {
    const { sandbox } = threads({ threads: 1, heapBytesMax: 1 << 20 });
    const bundle = program(`await step("a");`);
    const first = await opened(sandbox, requestFor(bundle));
    let isOpen = false;
    const second = opened(sandbox, requestFor(bundle)).then((heap) => {
      isOpen = true;
      return heap;
    });
    only(await first.pass([started()]));
    expect(isOpen).toBe(false);
    first.close();
    only(await (await second).pass([started()]));
  });

  it("after close nothing opens, and what was open answers lost", async () => {
    const { sandbox } = threads({ threads: 1 });
    const heap = await opened(sandbox, requestFor(program(`await step("a");`)));
    await sandbox.close();
    expect(await heap.pass([started()])).toMatchObject({ kind: "lost" });
    await expect(sandbox.open(requestFor(program("")))).rejects.toMatchObject({ code: "CLOSED" });
  });
});
