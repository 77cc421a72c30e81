import { readFileSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import vm from "node:vm";
import { beforeAll, describe, expect, it } from "vitest";
import { expectedOf, type OrderEntry } from "../../examples/orders/oracle.ts";
import { runIdOf } from "../../engine/ids.ts";
import { errorExports } from "../../sandbox/guest/errors.ts";
import { buildBundle, type BuiltBundle } from "../../tenants/bundles/build.ts";
import type { HostSteps } from "../../tenants/host-steps.ts";
import { attemptOf, decoded, hostSteps } from "./steps.ts";
import { ACME } from "./vaults.ts";

const FOLDER = new URL("../../examples/orders/", import.meta.url).pathname;
const ENTRIES = JSON.parse(readFileSync(join(FOLDER, "orders.json"), "utf8")) as OrderEntry[];
const WORKFLOW = "workflow//./workflows/order//order";

let bundle: BuiltBundle;
let steps: HostSteps;
let ledger: string;
beforeAll(async () => {
  bundle = await buildBundle({ projectRoot: FOLDER, entries: ["workflows"] });
  steps = hostSteps({ trusted: { stepCodeOf: () => Promise.resolve(bundle.stepCode) } });
  ledger = join(mkdtempSync(join(tmpdir(), "baton-orders-")), "ledger");
  process.env["ORDERS_LEDGER"] = ledger;
});

/** Runs one order without an engine: steps in place, and time that only the outside moves. */
async function outcomeOf(entry: OrderEntry, n: number) {
  const run = { tenantId: ACME, runId: runIdOf(`wrun_${String(n).padStart(26, "0")}`) };
  const asked: string[] = [];
  const callStep = async (stepId: string, args: unknown[]): Promise<unknown> => {
    const { maxRetries } = (await steps.traitsOf(run, "bundle", stepId)) ?? { maxRetries: -1 };
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt > maxRetries;
      const made = attemptOf(stepId, { args }, { run, attempt, isLast });
      const outcome = await steps.run(made);
      if (outcome.kind === "completed") return decoded(outcome.result);
      if (outcome.kind === "interrupted") throw new Error(outcome.reason);
      if (isLast || outcome.isFatal) throw decoded(outcome.error);
    }
  };
  const answered = entry.answer !== null;
  const library = {
    declareSteps: () => undefined,
    workflow: {
      FatalError: errorExports.FatalError,
      // Whoever answers does so in time; where nobody does, time passes.
      sleep: (ms: number) =>
        answered && ms === entry.input.approvalTimeoutMs
          ? new Promise(() => undefined)
          : Promise.resolve(),
      createHook: ({ token }: { token: string }) => {
        asked.push(token);
        return Object.assign(
          answered ? Promise.resolve(entry.answer) : new Promise(() => undefined),
          {
            dispose: () => undefined,
          },
        );
      },
    },
    api: {},
    errors: {},
    serde: {},
  };
  const side = vm.createContext({});
  const global = vm.runInContext("globalThis", side) as Record<symbol | string, unknown>;
  const workflows = new Map<string, (order: unknown) => Promise<unknown>>();
  global["__private_workflows"] = workflows;
  global[Symbol.for("baton.guest")] = library;
  global[Symbol.for("WORKFLOW_USE_STEP")] =
    (stepId: string) =>
    (...args: unknown[]) =>
      callStep(stepId, args);
  vm.runInContext(bundle.workflowCode, side);
  try {
    const output = await workflows.get(WORKFLOW)?.(structuredClone(entry.input));
    return { result: { kind: "completed", output }, asked };
  } catch (error) {
    const { name, message } = error as Error;
    return { result: { kind: "failed", name, message }, asked };
  }
}

describe("the orders example", () => {
  it("holds 60 orders of every kind of outcome, with ids of their own", () => {
    expect(new Set(ENTRIES.map((entry) => entry.input.id)).size).toBe(60);
    const outcomes = ENTRIES.map((entry) => {
      const { result } = expectedOf(entry);
      return result.kind === "failed" ? "failed" : String(result.output["status"]);
    });
    expect([...new Set(outcomes)].toSorted()).toEqual([
      "empty",
      "failed",
      "refused",
      "shipped",
      "timed out",
      "unpaid",
    ]);
    expect(ENTRIES.some((entry) => entry.input.lines.length === 300)).toBe(true);
    expect(ENTRIES.some((entry) => entry.input.lines.length === 0)).toBe(true);
  });

  it("asks a person exactly where the data has an answer, or says that nobody answers", () => {
    for (const entry of ENTRIES) {
      const { asks } = expectedOf(entry);
      if (entry.answer !== null) expect([entry.input.id, asks]).toEqual([entry.input.id, true]);
    }
  });

  it("ends each order as its oracle says, with these effects and no others", async () => {
    const outcomes = await Promise.all(ENTRIES.map(outcomeOf));
    const lines = readFileSync(ledger, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { effect: string; orderId: string });
    for (const [n, entry] of ENTRIES.entries()) {
      const expected = expectedOf(entry);
      const { id } = entry.input;
      const effects = lines.filter((line) => line.orderId === id && line.effect !== "price");
      expect(outcomes[n]).toEqual({
        result: expected.result,
        asked: expected.asks ? [`approve:${id}`] : [],
      });
      expect([...new Set(effects.map((line) => line.effect))]).toEqual(expected.effects);
    }
  });
});
