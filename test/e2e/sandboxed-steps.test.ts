/** Steps of a deployed bundle in heaps of their own: no trust, the local World, real threads. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Baton } from "../../engine/compose.ts";
import { Embedded } from "./embedded.ts";

const PROJECT = {
  "workflows/bodies.ts": `
    import { readFileSync } from "node:fs";
    import { FatalError, RetryableError, getStepMetadata, getWritable } from "workflow";

    async function add(a: number, b: number) {
      "use step";
      await new Promise((resolve) => setTimeout(resolve, 1));
      return a + b;
    }

    async function flaky() {
      "use step";
      const { attempt } = getStepMetadata();
      if (attempt < 3) throw new RetryableError("not yet", { retryAfter: 5 });
      return attempt;
    }

    async function remembers() {
      "use step";
      const scope = globalThis as { seen?: number };
      scope.seen = (scope.seen ?? 0) + 1;
      return [scope.seen, Math.random()];
    }

    async function fatal() { "use step"; throw new FatalError("no"); }

    async function reads() { "use step"; return readFileSync("/etc/hostname", "utf8"); }
    reads.maxRetries = 0;

    async function goesOut() { "use step"; return (await fetch("https://a.example")).status; }
    goesOut.maxRetries = 0;

    async function spins() { "use step"; for (;;) {} }
    spins.maxRetries = 0;

    async function hangs() { "use step"; return Array.prototype.reverse.call({ length: 2 ** 50 }); }
    hangs.maxRetries = 0;

    async function reaches() {
      "use step";
      const found = [typeof (globalThis as { require?: unknown }).require];
      for (const make of [(async () => {}).constructor, [].constructor.constructor, eval]) {
        try { found.push(String((make as (code: string) => unknown)("return process"))); }
        catch (error) { found.push((error as Error).name); }
      }
      return [...found, Object.keys(process), Object.keys(process.env)];
    }

    async function settled(work: Promise<unknown>) {
      try { return await work; } catch (error) { return [(error as Error).name, (error as Error).message]; }
    }

    export async function good() {
      "use workflow";
      return [await add(1, 2), await flaky(), await Promise.all([remembers(), remembers()])];
    }

    export async function bad() {
      "use workflow";
      return [await settled(fatal()), await settled(reads()), await settled(goesOut())];
    }

    export async function greedy() {
      "use workflow";
      return [await settled(spins()), await settled(hangs())];
    }

    export async function hostile() { "use workflow"; return reaches(); }

    export async function steady(laps: number) {
      "use workflow";
      let total = 0;
      for (let i = 0; i < laps; i++) total = await add(total, i);
      return total;
    }
  `,
};

let embedded: Embedded;
let baton: Baton;
beforeAll(async () => {
  embedded = await Embedded.open(PROJECT, { steps: {} });
  ({ baton } = embedded);
});
afterAll(() => embedded[Symbol.asyncDispose]());

async function outcome(workflow: string, args: readonly unknown[] = []): Promise<unknown> {
  return (await baton.start(workflow, args)).returnValue();
}

describe("sandboxed steps", () => {
  it("complete, are tried again when they say, and keep nothing between attempts", async () => {
    const [sum, attempts, memories] = (await outcome("good")) as [number, number, number[][]];
    expect([sum, attempts]).toEqual([3, 3]);
    const [one, two] = memories as [number[], number[]];
    expect([one[0], two[0]]).toEqual([1, 1]);
    expect(one[1]).not.toBe(two[1]);
  });

  it("fail as the workflow can see: for good, at Node's modules by file and line, at the network", async () => {
    const [fatal, node, network] = (await outcome("bad")) as [string, string][];
    expect(fatal).toEqual(["FatalError", "no"]);
    expect(node?.[1]).toMatch(/readFileSync\(\) of node:fs, imported at workflows\/bodies\.ts:2/);
    expect(network?.[1]).toMatch(/fetch is denied: the tenant has no egress policy/);
  });

  it("that loop end by their limit while a neighbour goes on to its end", async () => {
    const steady = outcome("steady", [20]);
    const [spun, hung] = (await outcome("greedy")) as [string, string][];
    expect(spun?.[1]).toMatch(/CPU_LIMIT_EXCEEDED.*cpuSoftMs/);
    expect(hung?.[1]).toMatch(/CPU_LIMIT_EXCEEDED.*cpuHardMs/);
    expect(await steady).toBe(190);
  });

  it("have no way to code from text, to modules or to the process", async () => {
    const found = await outcome("hostile");
    const refused = "NotAvailableError";
    expect(found).toEqual(["undefined", refused, refused, refused, ["env"], []]);
  });
});
