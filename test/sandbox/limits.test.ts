import { afterAll, describe, expect, it } from "vitest";
import type { HeapLimits, PassResult } from "../../engine/ports/sandbox.ts";
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

/** The first pass of a program, under these limits. */
async function firstPass(body: string, limits: Partial<HeapLimits> = {}): Promise<PassResult> {
  const request = requestFor(program(body), { limits: { ...LIMITS, ...limits } });
  const heap = await opened(sandbox, request);
  const result = await heap.pass([started()]);
  if (result.kind !== "quiet") expect(await heap.pass([])).toMatchObject({ kind: "lost" });
  heap.close();
  return result;
}

function overLimit(code: string, limit: string) {
  return { kind: "limit", exceeded: { code, limit } };
}

describe("heap", () => {
  const filling = (megabytes: number) => `
    const kept = []; for (let i = 0; i < ${megabytes}; i++) kept.push(new Uint8Array(1 << 20).fill(i + 1)); return kept.length;`;

  it("what fits the limit runs, one megabyte more ends the run", async () => {
    const limits = { heapBytesMax: 16 << 20 };
    expect(outputOf(await firstPass(filling(9), limits))).toBe(9);
    const over = await firstPass(filling(11), limits);
    expect(over).toMatchObject(overLimit("HEAP_LIMIT_EXCEEDED", "heapBytesMax"));
    if (over.kind !== "limit") return;
    expect(over.exceeded.allowed).toBe(16 << 20);
    expect(over.exceeded.used).toBeGreaterThan(16 << 20);
    expect(over.usage.heapBytes).toBeLessThanOrEqual(17 << 20);
  });

  it("a program that catches the refusal of memory ends all the same", async () => {
    const caught = `try { const a = []; for (;;) a.push(new Uint8Array(1 << 20)); } catch {} return "fine";`;
    expect(await firstPass(caught)).toMatchObject(overLimit("HEAP_LIMIT_EXCEEDED", "heapBytesMax"));
  });

  it("an endless string, array or nesting ends with the limit, not with the host", async () => {
    for (const body of [
      `let s = "x"; for (;;) { s += s; s.indexOf("y"); }`,
      `const a = []; for (;;) a.push(a.slice());`,
      `let o = {}; for (;;) o = { o, p: [o] };`,
      `const m = new Map(); for (let i = 0; ; i++) m.set(i, String(i));`,
    ]) {
      const result = await firstPass(body, { cpuSoftMs: 20_000 });
      expect(result).toMatchObject({ kind: "limit" });
    }
  });
});

describe("CPU", () => {
  it("an endless loop is stopped, whether or not the program catches what stops it", async () => {
    for (const body of [
      `for (;;);`,
      `try { for (;;); } catch {} finally { for (;;); }`,
      `for (;;) { try { await (async () => { for (;;); })(); } catch {} }`,
      `/(x+x+)+y/.test("x".repeat(40));`,
    ]) {
      const result = await firstPass(body, { cpuSoftMs: 60 });
      expect(result).toMatchObject(overLimit("CPU_LIMIT_EXCEEDED", "cpuSoftMs"));
    }
  });

  it("work within the limit is not stopped, and the budget is that of one event", async () => {
    const bundle = program(`
      for (let i = 0; i < 4; i++) { await step("s"); let n = 0; const t = 600000; while (n < t) n++; } return "done";`);
    const request = requestFor(bundle, { limits: { ...LIMITS, cpuSoftMs: 100 } });
    const heap = await opened(sandbox, request);
    let result = await heap.pass([started()]);
    for (let slot = 2; quiet(result).completion === null; slot++) {
      result = await heap.pass([stepCompleted(slot, only(result).correlationId, 0)]);
    }
    expect(outputOf(result)).toBe("done");
  });
});

describe("jobs", () => {
  const chain = (jobs: number) => `for (let i = 0; i < ${jobs}; i++) await null; return "ok";`;

  it("as many as allowed run, a promise loop without an end is stopped", async () => {
    expect(outputOf(await firstPass(chain(900), { jobsPerEventMax: 1000 }))).toBe("ok");
    for (const body of [
      chain(2000),
      `for (;;) await 0;`,
      `const f = () => Promise.resolve().then(f); await f();`,
    ]) {
      expect(await firstPass(body, { jobsPerEventMax: 1000, cpuSoftMs: 5000 })).toMatchObject(
        overLimit("JOB_LIMIT_EXCEEDED", "jobsPerEventMax"),
      );
    }
  });
});

describe("operations, payloads, console", () => {
  it("as many open operations as allowed, and not one more", async () => {
    const many = (count: number) =>
      `const all = []; for (let i = 0; i < ${count}; i++) all.push(step("s", i)); await Promise.all(all);`;
    const limits = { openOperationsMax: 50 };
    expect(quiet(await firstPass(many(50), limits)).operations).toHaveLength(50);
    expect(await firstPass(many(51), limits)).toMatchObject(
      overLimit("DECISION_LIMIT_EXCEEDED", "openOperationsMax"),
    );
  });

  it("a payload of the largest size passes, one byte more does not", async () => {
    // Two quotes are part of the text.
    const limits = { payloadBytesMax: 1002 };
    const exact = await firstPass(`await step("s", "x".repeat(1000));`, limits);
    expect(quiet(exact).operations).toHaveLength(1);
    expect(await firstPass(`await step("s", "x".repeat(1001));`, limits)).toMatchObject(
      overLimit("PAYLOAD_LIMIT_EXCEEDED", "payloadBytesMax"),
    );
    expect(await firstPass(`await step("s", "ä".repeat(501));`, limits)).toMatchObject(
      overLimit("PAYLOAD_LIMIT_EXCEEDED", "payloadBytesMax"),
    );
  });

  it("console lines past the limit, which the library would have cut, are a violation", async () => {
    const limits = { consoleBytesPerPassMax: 100 };
    const fits = quiet(await firstPass(`print("x".repeat(100)); await step("s");`, limits));
    expect(fits.console).toEqual([{ level: "log", text: "x".repeat(100) }]);
    expect(await firstPass(`print("x".repeat(101)); await step("s");`, limits)).toMatchObject(
      overLimit("GUEST_PROTOCOL_VIOLATION", "violationsMax"),
    );
  });
});

describe("limits that the sandbox cannot keep", () => {
  it("are refused by name before a heap is made", async () => {
    for (const [field, value] of [
      ["heapBytesMax", (128 << 20) + 1],
      ["heapBytesMax", 1 << 20],
      ["stackBytesMax", 1 << 20],
      ["cpuSoftMs", Number.NaN],
      ["openOperationsMax", 0],
    ] as const) {
      const limits = { ...LIMITS, [field]: value };
      await expect(sandbox.open(requestFor(program(""), { limits }))).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        details: { field },
      });
    }
    const limits = { ...LIMITS, heapBytesMax: 128 << 20 };
    expect(await sandbox.open(requestFor(program(""), { limits }))).toMatchObject({
      kind: "opened",
    });
  });
});

describe("pooled instances", () => {
  it("a run sees nothing that the run before it in the same instance left behind", async () => {
    const spoil = program(`
      globalThis.leak = "secret-of-run-one"; globalThis[Symbol.for("leak")] = 1; delete globalThis.Map;
      globalThis.JSON = null; Array.prototype.push = () => "spoiled"; Object.prototype.polluted = 1; return 1;`);
    const look = program(`
      return [typeof leak, typeof globalThis[Symbol.for("leak")], typeof Map, typeof JSON, [].push.call([], 1), "polluted" in {}];`);
    for (let i = 0; i < 3; i++) {
      const spoiler = await opened(sandbox, requestFor(spoil));
      await spoiler.pass([started()]);
      spoiler.close();
      const looker = await opened(sandbox, requestFor(look));
      expect(outputOf(await looker.pass([started()]))).toEqual([
        "undefined",
        "undefined",
        "function",
        "object",
        1,
        false,
      ]);
      looker.close();
    }
  });
});
