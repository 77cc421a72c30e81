import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { withSourcePlaces } from "../../../tenants/bundles/source-places.ts";
import { bundleHash, parseManifest } from "../../../tenants/bundles/manifest.ts";
import { build, link, manifestOf, projectOf } from "./project.ts";

const WF = "workflow//./src/order//order";

describe("nested steps", () => {
  it("run in every form, with the variables they read and before their declaration", async () => {
    const bundle = await build({
      "src/order.ts": `
        export async function order(n: number) {
          "use workflow";
          const early = await declared(1);
          const rate = n * 10;
          async function declared<T extends number>(a: T): Promise<number> {
            "use step";
            return a + n;
          }
          const arrow = async (a: number, b = rate) => { "use step"; return a + b; };
          const expression = async function again(a: number): Promise<number> {
            "use step";
            return a > 2 ? a + n : again(a + 1);
          };
          const tools = {
            async method(a: number) { "use step"; return a + rate; },
            property: async (a: number) => { "use step"; return a + rate; },
          };
          const mapped = await Promise.all([1, 2].map(async (z) => { "use step"; return z + n; }));
          if (n > 0) {
            async function inner(a: number) { "use step"; const n = 1; { const rate = 2; return a + n + rate; } }
            mapped.push(await inner(100));
          }
          return [early, await arrow(1), await expression(0), await tools.method(1),
            await tools.property(2), ...mapped];
        }`,
    });
    const linked = link(bundle);
    expect(await linked.workflows.get(WF)?.(5)).toEqual([6, 51, 8, 51, 52, 6, 7, 103]);
    expect(linked.called.map((call) => [call.id.split("//")[2], call.closureVars])).toEqual([
      ["order/declared", { n: 5 }],
      ["order/_anonymousStep", { n: 5 }],
      ["order/_anonymousStep", { n: 5 }],
      ["order/inner", undefined],
      ["order/arrow", { rate: 50 }],
      ["order/expression", { n: 5 }],
      ["order/tools/method", { rate: 50 }],
      ["order/tools/property", { rate: 50 }],
    ]);
  });

  it("of one name in two functions are two steps", async () => {
    const bundle = await build({
      "src/order.ts": `
        export async function order() {
          "use workflow";
          const wrap = (k: number) => { const q = async (a: number) => { "use step"; return a + k; }; return q; };
          const q = async (a: number) => { "use step"; return a * 100; };
          return [await wrap(1)(1), await q(1)];
        }`,
    });
    const linked = link(bundle);
    expect(await linked.workflows.get(WF)?.()).toEqual([2, 100]);
    expect(new Set(linked.called.map((call) => call.id)).size).toBe(2);
  });

  it("in a factory outside of workflows take its variables along, and stay plain functions", async () => {
    const bundle = await build({
      "src/order.ts": `
        const make = (k: number) => ({ async add(a: number) { "use step"; return a + k; } });
        export async function order() { "use workflow"; return make(5).add(1); }
        export async function direct() { "use step"; return make(7).add(1); }`,
    });
    const linked = link(bundle);
    expect(await linked.workflows.get(WF)?.()).toBe(6);
    expect(await linked.steps.get("step//./src/order//direct")?.()).toBe(8);
  });

  it("see the `this` that their arrow closes over", async () => {
    const bundle = await build({
      "src/order.ts": `
        class Till {
          rate = 3;
          tool(k: number) { return { execute: async (a: number) => { "use step"; return this.rate * a + k; } }; }
        }
        export async function order() { "use workflow"; return new Till().tool(1).execute(2); }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toBe(7);
  });

  it("may hold nested steps themselves, with the same ids on both sides", async () => {
    const bundle = await build({
      "src/order.ts": `
        export async function order() {
          "use workflow";
          const outer = async () => { "use step"; const deep = async () => { "use step"; return 1; }; return deep(); };
          return outer();
        }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toBe(1);
  });

  it.each([
    [
      "super",
      `class A { m() { return 1; } }
      class B extends A { run() { return async () => { "use step"; return super.m(); }; } }`,
      "super",
    ],
    [
      "private members",
      `class B { #x = 1; run() { return async () => { "use step"; return this.#x; }; } }`,
      "private member",
    ],
    [
      "arguments",
      `function f() { return async () => { "use step"; return arguments[0]; }; }`,
      "arguments",
    ],
  ])(
    "that use %s of what surrounds them are refused with their place",
    async (_name, code, word) => {
      const source = `${code}\nexport async function order() { "use workflow"; }`;
      const line = source.split("\n").findIndex((text) => text.includes("use step")) + 1;
      await expect(build({ "src/order.ts": source })).rejects.toMatchObject({
        code: "BUNDLE_REFUSED",
        details: { file: "src/order.ts", line },
        message: expect.stringContaining(word) as string,
      });
    },
  );
});

describe("unnamed default exports", () => {
  it.each(["async (x: number) => {", "async function (x: number) {"])(
    "of the form `%s` are steps",
    async (head) => {
      const bundle = await build({
        "src/step.ts": `export default ${head} "use step"; return x + 1; }`,
        "src/order.ts": `import add from "./step.ts";
        export async function order() { "use workflow"; return add(1); }`,
      });
      const linked = link(bundle);
      expect(await linked.workflows.get(WF)?.()).toBe(2);
      expect(linked.called[0]?.id).toBe("step//./src/step//default");
    },
  );
});

describe("ids and manifest", () => {
  it("name every kind of step, workflow and class as the SDK does", async () => {
    const bundle = await build({
      "src/order.ts": `
        import { WORKFLOW_SERIALIZE, WORKFLOW_DESERIALIZE } from "@workflow/serde";
        export async function order() { "use workflow"; }
        export async function top() { "use step"; }
        export const arrow = async () => { "use step"; };
        export const expression = async function () { "use step"; };
        export const tools = { async a() { "use step"; }, b: async () => { "use step"; } };
        export class Till {
          static [WORKFLOW_SERIALIZE](till: Till) { return {}; }
          static [WORKFLOW_DESERIALIZE]() { return new Till(); }
          static async open() { "use step"; }
          async add() { "use step"; }
        }`,
    });
    const manifest = manifestOf(bundle);
    expect(manifest.workflows).toEqual({ "src/order.ts": { order: { workflowId: WF } } });
    expect(
      Object.values(manifest.steps["src/order.ts"] ?? {})
        .map((entry) => entry.stepId.split("//")[2])
        .toSorted((a = "", b = "") => a.localeCompare(b)),
    ).toEqual(["arrow", "expression", "Till.open", "Till#add", "tools/a", "tools/b", "top"]);
    expect(manifest.classes["src/order.ts"]).toEqual({
      Till: { classId: "class//./src/order//Till" },
    });
    expect([...link(bundle).steps.keys()].toSorted()).toEqual(
      Object.values(manifest.steps["src/order.ts"] ?? {})
        .map((entry) => entry.stepId)
        .toSorted(),
    );
  });

  it("leave out a workflow that no entry reaches", async () => {
    const bundle = await build(
      {
        "src/order.ts": `export async function order() { "use workflow"; }`,
        "src/other.ts": `export async function other() { "use workflow"; }`,
      },
      ["src/order.ts"],
    );
    expect(manifestOf(bundle).sources).toEqual(["src/order.ts"]);
  });

  it("refuse unknown fields and versions", async () => {
    const bundle = await build({
      "src/order.ts": `export async function order() { "use workflow"; }`,
    });
    const manifest = manifestOf(bundle);
    expect(() => parseManifest(JSON.stringify({ ...manifest, version: "2.0.0" }))).toThrow(
      "manifest.version",
    );
    expect(() => parseManifest(JSON.stringify({ ...manifest, more: 1 }))).toThrow("manifest");
    expect(() => parseManifest("{")).toThrow("no JSON");
  });
});

describe("what each side holds", () => {
  it("a step reached only from a workflow's import is in the step bundle", async () => {
    const bundle = await build(
      {
        "src/order.ts": `import { charge } from "./steps/charge.ts";
          export async function order() { "use workflow"; return charge(1); }`,
        "src/steps/charge.ts": `export async function charge(n: number) { "use step"; return n * 2; }`,
      },
      ["src/order.ts"],
    );
    expect(await link(bundle).workflows.get(WF)?.()).toBe(2);
  });

  it("a class or workflow reached only from step code is in the workflow bundle", async () => {
    const bundle = await build(
      {
        "src/order.ts": `import { price } from "./price.ts";
          export async function order() { "use workflow"; return price(); }`,
        "src/price.ts": `import { Money } from "./money.ts"; import { child } from "./child.ts";
          export async function price() { "use step"; return [new Money(), child.workflowId]; }`,
        "src/money.ts": `export class Money {
          static [Symbol.for("workflow-serialize")]() { return {}; }
          static [Symbol.for("workflow-deserialize")]() { return new Money(); } }`,
        "src/child.ts": `export async function child() { "use workflow"; return 1; }`,
      },
      ["src/order.ts"],
    );
    expect([...link(bundle).workflows.keys()].toSorted()).toEqual([
      "workflow//./src/child//child",
      WF,
    ]);
    expect(bundle.workflowCode).toContain("class//./src/money//Money");
  });

  it("follows path aliases, TSX, JavaScript and JSON", async () => {
    const bundle = await build({
      "tsconfig.json": `{ "compilerOptions": { "paths": { "@lib/*": ["./lib/*"] }, "jsx": "react-jsx", "jsxImportSource": "@lib" } }`,
      "lib/rate.ts": `export const rate: number = 7;`,
      "lib/jsx-runtime.ts": `export const jsx = (name: string, props: { n: number }) => name + props.n;`,
      "src/table.json": `{ "fee": 2 }`,
      "src/view.tsx": `export async function view() { "use step"; return <b n={1} />; }`,
      "src/plain.js": `export async function plain(n) { "use step"; return n + 1; }`,
      "src/order.ts": `import { rate } from "@lib/rate"; import table from "./table.json";
        import { view } from "./view.tsx"; import { plain } from "./plain.js";
        export async function order() { "use workflow"; return [rate, table.fee, await view(), await plain(1)]; }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toEqual([7, 2, "b1", 2]);
  });

  it("keeps the import that JSX without an automatic runtime calls", async () => {
    const bundle = await build({
      "src/h.ts": `export const h = (name: string, props: { n: number }) => name + props.n; export default { createElement: h };`,
      "src/order.tsx": `import React from "./h.ts";
        export async function view() { "use step"; return <b n={1} />; }
        export async function order() { "use workflow"; return view(); }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toBe("b1");
    expect(bundle.workflowCode).not.toContain("createElement");
  });

  it("keeps it beside names of the same module that stay, and under the name that a pragma gives", async () => {
    const bundle = await build({
      "tsconfig.json": `{ "compilerOptions": { "jsx": "react", "jsxFactory": "h" } }`,
      "src/h.ts": `export const h = (name: string) => name; export const mark = h; export const render = (text: string) => "<" + text + ">";`,
      "src/order.tsx": `import { h, render } from "./h.ts";
        export async function view() { "use step"; return render(<b />); }
        export async function order() { "use workflow"; return [await view(), await marked()]; }
        import { marked } from "./marked.tsx";`,
      "src/marked.tsx": `/** @jsx mark */
        import { mark } from "./h.ts";
        export async function marked() { "use step"; return <i />; }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toEqual(["<b>", "i"]);
  });

  it("keeps imports that bind no name on the step side", async () => {
    const bundle = await build({
      "src/setup.ts": `globalThis.isSetUp = true;`,
      "src/order.ts": `import "./setup.ts";
        export async function seen() { "use step"; return globalThis.isSetUp; }
        export async function order() { "use workflow"; return seen(); }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toBe(true);
  });

  it("takes packages in under their name and version, with their directives", async () => {
    const bundle = await build({
      "node_modules/@acme/mail/package.json": `{ "name": "@acme/mail", "version": "1.2.3", "main": "index.js" }`,
      "node_modules/@acme/mail/index.js": `export async function mail(to) { "use step"; return "sent " + to; }`,
      "node_modules/old/package.json": `{ "name": "old", "version": "0.1.0" }`,
      "node_modules/old/index.js": `const fs = require("fs"); exports.has = typeof fs.readFileSync;`,
      "src/order.ts": `import { mail } from "@acme/mail"; import { has } from "old";
        export async function read() { "use step"; return has; }
        export async function order() { "use workflow"; return mail("a"); }`,
    });
    const manifest = manifestOf(bundle);
    expect(manifest.steps["@acme/mail@1.2.3/index.js"]).toEqual({
      mail: { stepId: "step//@acme/mail@1.2.3//mail" },
    });
    expect(manifest.sources).toContain("old@0.1.0/index.js");
    expect(manifest.nodeBuiltins).toEqual([
      { module: "node:fs", file: "old@0.1.0/index.js", line: 1 },
    ]);
    const loaded = join(projectOf({ "step.cjs": bundle.stepCode }), "step.cjs");
    const global = globalThis as Record<symbol, unknown>;
    await import(/* @vite-ignore */ loaded);
    const steps = global[Symbol.for("@workflow/core//registeredSteps")] as Map<
      string,
      () => unknown
    >;
    expect(await steps.get("step//./src/order//read")?.()).toBe("function");
  });
});

describe("Node's built-in modules", () => {
  it("are listed by file and line on the step side", async () => {
    const bundle = await build({
      "src/order.ts": `import { readFile } from "node:fs/promises";
import os from "os";
export async function read() { "use step"; return [await readFile("x"), os.cpus()]; }
export async function order() { "use workflow"; return read(); }`,
    });
    expect(manifestOf(bundle).nodeBuiltins).toEqual([
      { module: "node:fs/promises", file: "src/order.ts", line: 1 },
      { module: "node:os", file: "src/order.ts", line: 2 },
    ]);
  });

  it("are refused on the workflow side with file, line and a hint", async () => {
    const source = `// a
import { createHash } from "node:crypto";
export async function order() { "use workflow"; return createHash("sha256"); }`;
    await expect(build({ "src/order.ts": source })).rejects.toMatchObject({
      code: "BUNDLE_REFUSED",
      details: { file: "src/order.ts", line: 2 },
      message: expect.stringMatching(/node:crypto.*"use step"/) as string,
    });
  });

  it("imported but unused by workflow code do no harm", async () => {
    const bundle = await build({
      "src/files.ts": `import { readFileSync } from "node:fs"; export const read = () => readFileSync("x"); export const two = 2;`,
      "src/order.ts": `import { two } from "./files.ts"; export async function order() { "use workflow"; return two; }`,
    });
    expect(await link(bundle).workflows.get(WF)?.()).toBe(2);
  });
});

describe("errors", () => {
  it.each([
    [
      "a syntax error",
      `export const a = 1;\nexport const x = ;\n// "use step"`,
      2,
      "Expression expected",
    ],
    [
      "a syntax error in a file without directives",
      `import { y } from "./other.ts";\nexport const z = y;\nexport async function order() { "use workflow"; }`,
      1,
      "Unexpected",
    ],
    [
      "a missing import",
      `export const a: number = 1;\n\nimport { x } from "./nowhere.ts";\nexport async function order() { "use workflow"; return x; }`,
      3,
      "nowhere",
    ],
    ["a workflow that is not async", `\n\nexport function order() { "use workflow"; }`, 3, "async"],
    [
      "a class with steps inside a function",
      `function f() {\n  class A { async m() { "use step"; } }\n  return A;\n}\nexport async function order() { "use workflow"; }`,
      2,
      "top level",
    ],
    [
      "a nested workflow",
      `export function f() {\n  return async () => { "use workflow"; };\n}\nexport async function order() { "use workflow"; }`,
      2,
      "top level",
    ],
  ])("%s is refused at its line in the source", async (_name, source, line, words) => {
    const files = { "src/order.ts": source, "src/other.ts": "export const y = ;" };
    await expect(build(files, ["src/order.ts"])).rejects.toMatchObject({
      code: "BUNDLE_REFUSED",
      details: { line },
      message: expect.stringContaining(words) as string,
    });
  });

  it("no workflow at all, and an entry that is not there, are refused", async () => {
    await expect(build({ "src/a.ts": "export const a = 1;" })).rejects.toThrow('"use workflow"');
    await expect(build({ "src/a.ts": "export const a = 1;" }, ["lib"])).rejects.toThrow(
      "no entry lib",
    );
  });
});

describe("the hash", () => {
  const files = {
    "src/order.ts": `import { charge } from "./charge.ts"; import { k } from "dep";
      export async function order() { "use workflow"; const f = async () => { "use step"; return k; }; return [await charge(1), await f()]; }`,
    "src/charge.ts": `export async function charge(n: number) { "use step"; return n; }`,
    "node_modules/dep/package.json": `{ "name": "dep", "version": "1.0.0" }`,
    "node_modules/dep/index.js": `exports.k = 1;`,
  };

  it("is the same wherever the project lies, and no path of the machine is inside", async () => {
    const one = await build(files);
    const two = await build(files);
    expect(one.hash).toBe(two.hash);
    expect(one.workflowMap).toBe(two.workflowMap);
    expect(JSON.stringify(one)).not.toContain("baton-project");
  });

  it("changes with each part, and not by moving text between parts", () => {
    const parts = { workflowCode: "a", stepCode: "b", manifest: "c", guestLibrary: "d" };
    const hashes = [
      parts,
      { ...parts, workflowCode: "ab", stepCode: "" },
      { ...parts, stepCode: "bc", manifest: "" },
      { ...parts, guestLibrary: "e" },
    ].map(bundleHash);
    expect(new Set(hashes).size).toBe(4);
  });
});

describe("source maps", () => {
  it("lead from the bundle back to the line that throws", async () => {
    const bundle = await build({
      "src/order.ts": `export async function order() {
  "use workflow";
  const k = 1;
  async function f() { "use step"; return k; }
  await f();
  throw new Error("here");
}`,
    });
    const { SourceMap } = await import("node:module");
    const map = new SourceMap(
      JSON.parse(bundle.workflowMap) as ConstructorParameters<typeof SourceMap>[0],
    );
    const lines = bundle.workflowCode.split("\n");
    const at = lines.findIndex((text) => text.includes('"here"'));
    const entry = map.findEntry(at, lines[at]?.indexOf("throw") ?? 0);
    expect(entry).toMatchObject({ originalSource: "src/order.ts", originalLine: 5 });
    const column = (lines[at]?.indexOf("throw") ?? 0) + 1;
    const stack = `Error: here\n    at f (baton:guest:3:9)\n    at order (bundle.js:${at + 1}:${column})`;
    expect(withSourcePlaces(stack, bundle)).toBe("Error: here\n    at order (src/order.ts:6:3)");
    const stepLines = bundle.stepCode.split("\n");
    const inStep = stepLines.findIndex((text) => text.includes("return k;"));
    const place = `steps.js:${inStep + 1}:${(stepLines[inStep]?.indexOf("return") ?? 0) + 1}`;
    expect(withSourcePlaces(place, bundle)).toMatch(/^src\/order\.ts:4:/);
    expect(withSourcePlaces("steps.js:999999:1", bundle)).toMatch(/^(steps\.js|src)/);
  });
});
