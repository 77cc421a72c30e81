/** What a bundle does while it is evaluated, and bundles that are no scripts. */
import { WORKFLOW_NAME, tenantSource } from "../../sandbox/tenant-source.ts";
import { LOOT, bundle, looted, unsettled } from "../attack.ts";
import type { Attack, Observation, Program } from "../attack.ts";

/** Refused, failed for its tenant, or settled; never more. */
function broke(seen: Observation): boolean {
  if (looted(seen) || seen.run.thrown !== null) return true;
  return seen.run.opened === "lost" || (seen.run.passes.length > 0 && unsettled(seen));
}

function loaded(name: string, row: string, program: Program): Attack {
  return { name, row, program, weakening: "host_realm", succeeded: broke, hasRun: () => true };
}

/** The head of the engine's own bytecode, then offsets that lead anywhere. */
const BYTECODE = `\u0043\u0004\u000cmain${"\u00ff\u0000".repeat(64)}`;

const BODY = `return await step("a")(1);`;

export const bundleAttacks: readonly Attack[] = [
  loaded("bytecode is a syntax error", "F15", { source: BYTECODE }),
  loaded("a broken script fails for its tenant alone", "own", { source: "let x = ;" }),
  loaded("deeply nested source fails for its tenant alone", "F7", {
    source: `${"(".repeat(50_000)}1${")".repeat(50_000)}`,
  }),
  loaded("deeply nested templates fail for their tenant alone", "F7", {
    source: `${"`${".repeat(20_000)}1${"}`".repeat(20_000)}`,
  }),
  loaded("a throw of a hostile error while loading fails for its tenant alone", "own", {
    source: `throw new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; }, getPrototypeOf() { throw 3; } });`,
  }),
  loaded("a throw of a giant error while loading fails for its tenant alone", "E11", {
    source: `var a = "x".repeat(1e6); throw { list: new Array(1500).fill(a), toJSON() { return this.list; } };`,
  }),
  loaded("an error that prints itself without end fails for its tenant alone", "E13", {
    source: `throw { toJSON() { var s = []; for (var i = 0; i < 100000; i++) s.push("y".repeat(1000)); return s; } };`,
  }),
  loaded("a NUL character in the source hides nothing", "own", {
    source: `${tenantSource(BODY)}\u0000;globalThis.__private_workflows.set("x", 1);`,
  }),
  loaded("a replaced registry is the tenant's own loss", "own", {
    source: `try { globalThis.__private_workflows = new Proxy(new Map(), { get() { return () => { throw 1; }; } }); } catch (e) {}
      globalThis.__private_workflows.set = null;`,
  }),
  loaded("what is registered need not be a function", "own", {
    source: `globalThis.__private_workflows.set(${JSON.stringify(WORKFLOW_NAME)}, { call() { throw 1; } });`,
  }),
  loaded("a Proxy in place of a workflow is called as one", "own", {
    source: `globalThis.__private_workflows.set(${JSON.stringify(WORKFLOW_NAME)},
      new Proxy(async () => 1, { apply() { throw new Proxy({}, { get() { throw 1; } }); } }));`,
  }),
  loaded("a workflow named after a built-in runs nothing", "own", {
    ...bundle(BODY),
    workflowName: "__proto__",
  }),
  loaded("a workflow whose thenable never settles waits for nothing", "own", {
    source: `globalThis.__private_workflows.set(${JSON.stringify(WORKFLOW_NAME)},
      () => ({ get then() { throw { get message() { throw 1; } }; } }));`,
  }),
  {
    name: "the engine's loader of bytecode is not in reach",
    row: "F15",
    program: bundle(`
      var found = ["bjson", "std", "os", "hostCall"].filter((n) => globalThis[n] !== undefined);
      return found.length > 0 ? "${LOOT}" : "nothing";`),
    weakening: "exposed_library",
    succeeded: looted,
  },
];
