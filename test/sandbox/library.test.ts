/** The real guest library behind the port: what it limits and what the host checks must agree. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, describe, expect, it } from "vitest";
import type { BundleCode, HeapLimits, PassResult } from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { LIMITS, bundleOf, eventFrom, opened, outputOf, quiet, requestFor } from "./heaps.ts";

const sandbox = createSandbox({ form: "calling-thread" });
afterAll(() => sandbox.close());

const require = createRequire(import.meta.url);
const guestLibrary = readFileSync(require.resolve("#built/guest/workflow.js"), "utf8");

function workflow(body: string): BundleCode {
  const code = `
    const work = globalThis[Symbol.for("WORKFLOW_USE_STEP")]("step//./test//work");
    const { sleep, createHook } = globalThis[Symbol.for("baton.guest")].workflow;
    globalThis.__private_workflows.set("main", async () => {${body}});`;
  return { ...bundleOf(code), guestLibrary };
}

async function firstPass(body: string, limits: Partial<HeapLimits> = {}): Promise<PassResult> {
  const request = requestFor(workflow(body), { limits: { ...LIMITS, ...limits } });
  const heap = await opened(sandbox, request);
  const result = await heap.pass([eventFrom(1, { eventType: "run_created" }, [[]])]);
  heap.close();
  return result;
}

describe("the library's limits stay inside the host's", () => {
  it("a flood of console lines, in any script, is cut and never a violation", async () => {
    for (const unit of ["x", "ä", "語", "👩‍👩‍👧", "\\ud800"]) {
      for (const consoleBytesPerPassMax of [0, 10, 1000, 64 << 10]) {
        const body = `for (let i = 0; i < 3000; i++) console.log("${unit}".repeat(i % 97), i); return 1;`;
        const result = quiet(await firstPass(body, { consoleBytesPerPassMax, cpuSoftMs: 5000 }));
        const bytes = result.console.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
        expect(bytes).toBeLessThanOrEqual(consoleBytesPerPassMax);
      }
    }
  });

  it("one open operation too many is an error that the workflow can catch", async () => {
    const body = `
      for (let i = 0; i < 20; i++) work(i).catch(() => 0);
      try { await work(20); return "none"; } catch (error) { return error.name; }`;
    const result = await firstPass(body, { openOperationsMax: 20 });
    expect(outputOf(result)).toEqual(["QuotaExceededError"]);
    expect(quiet(result).operations).toHaveLength(20);
  });

  it("a value too large for a payload is an error at the call, in any script", async () => {
    for (const unit of ["x", "ä", "語", "\\ud800"]) {
      const body = `
        const sizes = []; for (let n = 100; n < 140; n++) { try { work("${unit}".repeat(n)); sizes.push(n); } catch {} }
        try { await work("${unit}".repeat(4000)); return "none"; } catch (error) { return typeof error.message; }`;
      const result = await firstPass(body, { payloadBytesMax: 400 });
      expect(result).toMatchObject({ kind: "quiet" });
    }
  });

  it("a result too large for a payload fails the run and is no violation", async () => {
    const result = await firstPass(`return "x".repeat(5000);`, { payloadBytesMax: 400 });
    expect(quiet(result).completion).toMatchObject({ kind: "failed" });
  });
});
