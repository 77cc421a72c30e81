/** What one run's misuse costs: that run, and nobody else. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Embedded } from "./embedded.ts";

const PROJECT = {
  "workflows/limits.ts": `
    import { sleep } from "workflow";

    export async function spin() {
      "use workflow";
      for (;;) {}
    }

    export async function spinUncatchably() {
      "use workflow";
      for (;;) { try { for (;;) {} } catch {} }
    }

    /** Never polls the interrupt handler: only the watchdog can end it. */
    export async function spinInside() {
      "use workflow";
      return Array.prototype.reverse.call({ length: 2 ** 50 });
    }

    export async function hoard() {
      "use workflow";
      const held = [];
      for (let i = 0; i < 100; i++) held.push(new Uint8Array(1024 * 1024).fill(i));
      return held.length;
    }

    export async function hoardStubbornly() {
      "use workflow";
      let held = 0;
      try { held = new Uint8Array(100 * 1024 * 1024).length; } catch { await sleep(1); }
      return held;
    }

    export async function steady(laps: number) {
      "use workflow";
      let total = 0;
      for (let i = 0; i < laps; i++) total += await double(i);
      return total;
    }

    async function double(n: number) {
      "use step";
      await new Promise((resolve) => setTimeout(resolve, 20));
      return 2 * n;
    }
  `,
};

let embedded: Embedded;
beforeAll(async () => {
  embedded = await Embedded.open(PROJECT);
});
afterAll(async () => {
  await embedded[Symbol.asyncDispose]();
});

async function failureOf(workflow: string) {
  const run = await embedded.baton.start(workflow, []);
  const error: unknown = await run.returnValue().then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return { error, row: await run.row() };
}

describe("a run that misuses its heap or its thread", () => {
  it.each(["spin", "spinUncatchably", "spinInside"])(
    "%s ends with CPU_LIMIT_EXCEEDED while another run goes on",
    async (workflow) => {
      const steady = await embedded.baton.start("steady", [40]);
      const { error, row } = await failureOf(workflow);
      expect(error).toMatchObject({
        code: "RUN_FAILED",
        details: { errorCode: "CPU_LIMIT_EXCEEDED" },
      });
      expect(row.status).toBe("failed");
      expect(await steady.returnValue()).toBe(1560);
    },
  );

  it.each(["hoard", "hoardStubbornly"])(
    "%s allocates 100 MB and fails with HEAP_LIMIT_EXCEEDED, caught or not",
    async (workflow) => {
      const { error } = await failureOf(workflow);
      expect(error).toMatchObject({
        code: "RUN_FAILED",
        details: { errorCode: "HEAP_LIMIT_EXCEEDED" },
      });
    },
  );

  it("is counted in its tenant's usage", async () => {
    const { counted: usage } = await embedded.baton.tenants.usage("default");
    expect(usage.cpuLimitBreaches).toBe(3);
    expect(usage.heapLimitBreaches).toBe(2);
    expect(usage.heapBytesPeak).toBeGreaterThan(5 * 1024 * 1024);
  });

  it("says which limit it was, what was used and what is allowed", async () => {
    const { error } = await failureOf("spin");
    expect(String((error as Error).cause)).toMatch(/cpuSoftMs|cpuHardMs/);
    expect(String((error as Error).cause)).toMatch(/\d/);
  });
});
