import { execFileSync } from "node:child_process";
import { writeFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { runIdOf } from "../../engine/ids.ts";
import type { BundleCode, GuestEvent, Heap, HeapImage } from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
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

const sandbox = createSandbox({ form: "calling-thread" });
afterAll(() => sandbox.close());

/** Holds most kinds of guest state across its steps. */
const STATEFUL = program(`
  class Acc { #n = 0; static made = 0; constructor() { Acc.made++; } add(x) { this.#n += x; return this; } get n() { return this.#n; } }
  function* gen() { let i = 0; for (;;) { const by = yield i++; if (by) i += by; } }
  async function* steps() { for (let i = 0; i < 3; i++) yield await step("g" + i, i); }
  const acc = new Acc(); const g = gen(); g.next(); g.next(5);
  const map = new Map([["k", { deep: [1, { x: 3 }] }]]); const set = new Set([NaN]); const floats = new Float64Array([1.5, 2.5]);
  const big = 2n ** 200n; const re = /a(?<n>b+)/gy; re.lastIndex = 1; const sym = Symbol("s"); const weak = new WeakMap([[map, "w"]]);
  let count = 10; const inc = () => ++count; const at = new Date(86400000);
  const proxy = new Proxy({}, { get: (_, k) => "p:" + String(k) });
  acc.add(await step("a", 1)); inc();
  const seen = []; for await (const x of steps()) seen.push(x);
  const settled = await Promise.allSettled([step("b"), Promise.reject(new Error("no", { cause: "c" }))]);
  inc();
  return [acc.n, Acc.made, g.next().value, map.get("k").deep[1].x, set.has(NaN), [...floats], String(big), re.exec("xabb").groups.n,
    { [sym]: 1 }[sym], weak.get(map), count, at.toISOString(), proxy.foo, seen, settled.map((s) => s.status + (s.reason?.cause ?? ""))];`);

const DIGEST = "d".repeat(64);

async function imageOf(heap: Heap): Promise<HeapImage> {
  const image = await heap.snapshot({ slot: heap.consumedSlot, digest: DIGEST });
  expect(image).not.toBeNull();
  return image as HeapImage;
}

/** Runs to the end, one event a pass, with what `between` does to the heap before each. */
async function runThrough(bundle: BundleCode, between: (heap: Heap) => Promise<Heap>) {
  let heap = await opened(sandbox, requestFor(bundle));
  const asked: unknown[] = [];
  let event: GuestEvent = started();
  for (let slot = 2; ; slot++) {
    const result = quiet(await heap.pass([event]));
    asked.push(result.operations);
    if (result.completion !== null) {
      heap.close();
      return { asked, output: outputOf(result) };
    }
    event = stepCompleted(slot, result.operations[0]?.correlationId as never, slot);
    heap = await between(heap);
  }
}

async function restored(image: HeapImage, bundle: BundleCode): Promise<Heap> {
  return opened(sandbox, requestFor(bundle, { image }));
}

describe("restoring", () => {
  it("a restore after every pass changes no operation and no output", async () => {
    const live = await runThrough(STATEFUL, async (heap) => heap);
    const stored = await runThrough(STATEFUL, async (heap) => {
      const image = await imageOf(heap);
      heap.close();
      return restored(image, STATEFUL);
    });
    expect(stored).toEqual(live);
  });

  it("a restore in a new process gives the same operations and the same end", async () => {
    const heap = await opened(sandbox, requestFor(STATEFUL));
    const before = quiet(await heap.pass([started()]));
    const folder = mkdtempSync(join(tmpdir(), "baton-snapshot-"));
    try {
      const image = await imageOf(heap);
      writeFileSync(join(folder, "image"), image.image);
      const script = new URL("restore-elsewhere.ts", import.meta.url).pathname;
      const args = [folder, image.fingerprint, DIGEST, STATEFUL.workflowCode];
      execFileSync(process.execPath, ["--import", "tsx", script, ...args]);
      const elsewhere = JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as unknown;
      const live = [before.operations];
      let result = before;
      for (let slot = 2; result.completion === null; slot++) {
        const id = result.operations[0]?.correlationId as never;
        result = quiet(await heap.pass([stepCompleted(slot, id, slot)]));
        live.push(result.operations);
      }
      const plain = JSON.parse(JSON.stringify({ live, output: outputOf(result) })) as unknown;
      expect(elsewhere).toEqual(plain);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("the first report after a restore lists all that is open", async () => {
    const bundle = program(`await Promise.all([step("a"), step("b")]); return 1;`);
    const heap = await opened(sandbox, requestFor(bundle));
    const { operations } = quiet(await heap.pass([started()]));
    const again = await restored(await imageOf(heap), bundle);
    expect(quiet(await again.pass([])).operations).toEqual(operations);
    expect(again.consumedSlot).toBe(1);
  });

  it("a heap that grew is restored into an instance that did not", async () => {
    const bundle = program(`
      const kept = []; for (let i = 0; i < 3000; i++) kept.push({ i, text: "x".repeat(1000) + i });
      await step("a"); return kept.length + kept[2999].text.length;`);
    const heap = await opened(sandbox, requestFor(bundle));
    const { usage } = quiet(await heap.pass([started()]));
    expect(usage.heapBytes).toBeGreaterThan(8 << 20);
    const again = await restored(await imageOf(heap), bundle);
    const step = only(await again.pass([]));
    expect(outputOf(await again.pass([stepCompleted(2, step.correlationId, 0)]))).toBe(4004);
  });
});

describe("refusals", () => {
  it("every truncation and every flipped bit is refused", async () => {
    const bundle = program(`await step("a");`);
    const heap = await opened(sandbox, requestFor(bundle));
    await heap.pass([started()]);
    const image = await imageOf(heap);
    const damaged: Uint8Array[] = [];
    for (let cut = 0; cut < image.image.length; cut += 97) damaged.push(image.image.slice(0, cut));
    for (let bit = 0; bit < image.image.length * 8; bit += 331) {
      const flipped = image.image.slice();
      flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
      damaged.push(flipped);
    }
    damaged.push(Uint8Array.from([...image.image, 0]));
    for (const bytes of damaged) {
      const request = requestFor(bundle, { image: { ...image, image: bytes } });
      expect(await sandbox.open(request)).toMatchObject({ kind: "image_refused" });
    }
    expect(damaged.length).toBeGreaterThan(200);
    expect(await sandbox.open(requestFor(bundle, { image }))).toMatchObject({ kind: "opened" });
  });

  it("an image of another run, tenant, slot, log, bundle or stack limit is refused", async () => {
    const bundle = program(`await step("a"); await step("b");`);
    const heap = await opened(sandbox, requestFor(bundle));
    const step = only(await heap.pass([started()]));
    const image = await imageOf(heap);
    await heap.pass([stepCompleted(2, step.correlationId, 0)]);
    const later = await imageOf(heap);
    const { run } = requestFor(bundle);
    const other = program(`await step("a"); await step("c");`);
    const foreign = program(`await step("a"); await step("b");`, "globex");
    const requests = [
      requestFor(bundle, {
        image,
        run: { ...run, runId: runIdOf("wrun_01HF7YAT00TEST00000000000B") },
      }),
      requestFor(foreign, { image }),
      requestFor(bundle, { image: { ...later, slot: image.slot } }),
      requestFor(bundle, { image: { ...image, slot: later.slot } }),
      requestFor(bundle, { image: { ...image, digest: "e".repeat(64) } }),
      requestFor(other, { image }),
      requestFor(
        { ...bundle, guestLibrary: `${bundle.guestLibrary};`, hash: other.hash },
        { image },
      ),
      requestFor(bundle, { image, limits: { ...LIMITS, stackBytesMax: 128 << 10 } }),
    ];
    for (const request of requests) {
      expect(await sandbox.open(request)).toMatchObject({ kind: "image_refused" });
    }
    expect(await sandbox.open(requestFor(bundle, { image }))).toMatchObject({ kind: "opened" });
  });

  it("an image that is larger than the heap may be is refused", async () => {
    const bundle = program(`globalThis.kept = new Uint8Array(4 << 20).fill(1); await step("a");`);
    const heap = await opened(sandbox, requestFor(bundle));
    await heap.pass([started()]);
    const image = await imageOf(heap);
    const limits = { ...LIMITS, heapBytesMax: 7 << 20 };
    expect(await sandbox.open(requestFor(bundle, { image, limits }))).toMatchObject({
      kind: "image_refused",
    });
  });

  it("no snapshot is taken for a slot that the heap has not consumed, nor of a heap that is gone", async () => {
    const heap = await opened(sandbox, requestFor(program(`await step("a"); for (;;);`)));
    const step = only(await heap.pass([started()]));
    expect(await heap.snapshot({ slot: 2 as never, digest: DIGEST })).toBeNull();
    const end = await heap.pass([stepCompleted(2, step.correlationId, 0)]);
    expect(end).toMatchObject({ kind: "limit" });
    expect(await heap.snapshot({ slot: 1 as never, digest: DIGEST })).toBeNull();
  });
});

describe("sizes", () => {
  it("the snapshot of a run of three steps takes a few kilobytes", async () => {
    const bundle = program(`for (let i = 0; i < 9; i++) await step("s" + i, i);`);
    const heap = await opened(sandbox, requestFor(bundle));
    let result = await heap.pass([started()]);
    for (let slot = 2; slot < 5; slot++) {
      result = await heap.pass([stepCompleted(slot, only(result).correlationId, slot)]);
    }
    expect((await imageOf(heap)).image.length).toBeLessThan(10 << 10);
  });
});
