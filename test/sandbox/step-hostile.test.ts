/** Needs `npm run build` first. Step code that attacks its host, its neighbours and its own limits. */
import { afterEach, describe, expect, it } from "vitest";
import { assert, json, nat, property, string, tuple } from "fast-check";
import { OpaqueValue, encodePayload } from "../../sandbox/host-codec.ts";
import { Violation } from "../../sandbox/guest-text.ts";
import { registeredStepsIn, stepReportIn } from "../../sandbox/step-border.ts";
import { attemptOf, failureOf, resultOf, rigOf, stepCode } from "./step-attempts.ts";
import type { Rig, RigOptions } from "./step-attempts.ts";

const open: Rig[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((rig) => rig.close()));
});

function bodies(of: Readonly<Record<string, string>>, options: RigOptions = {}): Rig {
  const rig = rigOf({ bundle: stepCode(of) }, options);
  open.push(rig);
  return rig;
}

describe("step code cannot", () => {
  it.each([
    ["the Function constructor", `return (() => {}).constructor("return process")()`],
    ["an async one", `return await (async () => {}).constructor("return process")()`],
    ["a generator's", `return (function* () {}).constructor("yield process")().next().value`],
    ["eval", `return (0, eval)("process")`],
    ["a function of the library", `return fetch.constructor("return process")()`],
    [
      "an error of the library",
      `
      try { lib.workflow.sleep(1) } catch (e) { return e.constructor.constructor("return 1")() }`,
    ],
  ])("make code from text through %s", async (_, code) => {
    const { steps } = bodies({ body: code });
    expect(failureOf(await steps.run(attemptOf("body"))).error).toMatchObject({
      name: "NotAvailableError",
    });
  });

  it("find anything of the host among its globals", async () => {
    const { steps } = bodies({
      body: `return ["require", "module", "Buffer", "global", "__dirname", "WebAssembly",
        "SharedArrayBuffer", "Atomics", "std", "os", "importScripts", "postMessage"]
        .filter((name) => name in globalThis);`,
    });
    expect(resultOf(await steps.run(attemptOf("body")))).toEqual([]);
  });

  it("import a module, from a file or by a name", async () => {
    const { steps } = bodies({
      body: `const seen = [];
        for (const name of ["node:fs", "/etc/passwd", "./steps.cjs"])
          try { await import(name); seen.push(name) } catch (e) {}
        return seen;`,
    });
    expect(resultOf(await steps.run(attemptOf("body")))).toEqual([]);
  });

  it("forge its outcome by changing what the library was made of", async () => {
    const { steps } = bodies({
      body: `const forged = () => '{"calls":[],"cancelled":[],"done":{"ok":true,"text":"[1]"}}';
        Object.prototype.toJSON = forged; String.prototype.toJSON = forged;
        JSON.stringify = forged; JSON.parse = () => ({}); Array.prototype.join = forged;
        Array.prototype.push = forged; Array.prototype[Symbol.iterator] = forged;
        Promise.prototype.then = forged; Map.prototype.get = forged;
        Object.defineProperty(Object.prototype, "ok", { value: true });
        throw new lib.errors.FatalError("mine");`,
    });
    expect(failureOf(await steps.run(attemptOf("body")))).toMatchObject({
      isFatal: true,
      error: { name: "FatalError", message: "mine" },
    });
  });

  it("leave the host waiting by a thenable, a Proxy or a getter in its result", async () => {
    const { steps } = bodies(
      {
        never: `return { then() {} }`,
        proxy: `return new Proxy({}, { ownKeys() { for (;;); } })`,
        getter: `return { get a() { throw new RangeError("gotcha") } }`,
        error: `throw { get message() { throw 1 }, get name() { throw 2 }, get stack() { throw 3 } }`,
      },
      { limits: { heap: { cpuSoftMs: 50 } } },
    );
    for (const name of ["never", "proxy", "error"]) {
      expect((await steps.run(attemptOf(name))).kind).toBe("failed");
    }
    expect((await steps.run(attemptOf("getter"))).kind).not.toBe("interrupted");
  });

  it("see a global, a changed built-in or memory of an attempt of another tenant", async () => {
    const { steps } = bodies({
      leave: `globalThis.mark = "left"; Array.prototype.mark = "left"; Date.now = () => 1;
        fetch.mark = "left"; lib.workflow.FatalError.mark = "left"; return "x".repeat(1e5).length`,
      look: `return [globalThis.mark, [].mark, Date.now() === 1, fetch.mark,
        lib.workflow.FatalError.mark];`,
    });
    for (const [leaver, looker] of [
      ["acme", "acme"],
      ["acme", "globex"],
    ] as const) {
      await steps.run(attemptOf("leave", [], { tenant: leaver }));
      const seen = await steps.run(attemptOf("look", [], { tenant: looker }));
      expect(resultOf(seen)).toEqual([undefined, undefined, false, undefined, undefined]);
    }
  });

  it("read the machine's clock more finely than in milliseconds", async () => {
    const { steps } = bodies({
      body: `const seen = [];
        for (let i = 0; i < 5; i++) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          seen.push(Date.now(), performance.now());
        }
        return seen.every(Number.isInteger);`,
    });
    expect(resultOf(await steps.run(attemptOf("body")))).toBe(true);
  });
});

describe("the library's own steps", () => {
  it("read the body of a response that came from the workflow", async () => {
    const { steps } = bodies({});
    const response = new OpaqueValue("Response", {
      type: "default",
      url: "",
      status: 200,
      statusText: "",
      headers: [],
      redirected: false,
      body: new OpaqueValue("ReadableStream", { bodyInit: new TextEncoder().encode('{"a":1}') }),
    });
    const input = encodePayload({ args: [], thisVal: response });
    const read = async (name: string) =>
      resultOf(await steps.run(attemptOf(`__builtin_response_${name}`, [], { input })));
    expect(await read("json")).toEqual({ a: 1 });
    expect(await read("text")).toBe('{"a":1}');
    expect(await read("array_buffer")).toEqual(new TextEncoder().encode('{"a":1}').buffer);
  });
});

describe("what a step heap writes", () => {
  const report = JSON.stringify({
    calls: [
      { k: "timer", n: 3, ms: 5 },
      {
        k: "fetch",
        n: 4,
        url: "u",
        method: "GET",
        headers: [["a", "b"]],
        redirect: "follow",
        body: null,
        uploads: true,
      },
      { k: "fetch_send", n: 5, of: 4, bytes: "YQ==" },
      { k: "fetch_read", n: 6, of: 4 },
      { k: "attributes", n: 7, changes: [{ key: "a", value: null }] },
    ],
    cancelled: [2],
    done: { ok: true, text: "[1]", isFatal: false, retryAt: null },
    console: [{ level: "log", text: "x" }],
  });

  it.each([
    ["a call number that was given before", report.replace('"n":3', '"n":2')],
    ["a cancelled call that was never made", report.replace("[2]", "[9]")],
    ["a kind of call that is not known", report.replace('"timer"', '"exec"')],
    ["a field too many", report.replace('"ok":true', '"ok":true,"tenantId":"globex"')],
    ["a text for a flag", report.replace("false", '"false"')],
    ["a call that speaks of a later one", report.replace('"n":6,"of":4', '"n":6,"of":6')],
    ["a delay below zero", report.replace('"ms":5', '"ms":-5')],
    ["what is no JSON", report.slice(1)],
  ])("is refused if it has %s", (_, text) => {
    expect(stepReportIn(report, 3).calls).toHaveLength(5);
    expect(() => stepReportIn(text, 3)).toThrow(Violation);
  });

  it("is read or refused, whatever it is", () => {
    const read = (text: string) => {
      for (const reader of [(one: string) => stepReportIn(one, 3), registeredStepsIn]) {
        try {
          reader(text);
        } catch (error) {
          if (!(error instanceof Violation)) throw error;
        }
      }
    };
    const mutated = tuple(nat(report.length), nat(8), string({ maxLength: 12 })).map(
      ([at, drop, put]) => report.slice(0, at) + put + report.slice(at + drop),
    );
    assert(property(mutated, read), { numRuns: 5000 });
    assert(property(json(), read), { numRuns: 1000 });
  });
});

describe("in a process of its trust group", () => {
  it("a body runs, and its neighbours there are interrupted when its thread is ended", async () => {
    const { steps } = bodies(
      {
        sum: `await new Promise((resolve) => setTimeout(resolve, 2)); return args[0] + 1`,
        waits: `await new Promise((resolve) => setTimeout(resolve, 1e6))`,
        endless: `return Array.prototype.reverse.call({ length: 2 ** 50 })`,
      },
      {
        sandbox: { form: "process", stepThreads: 1 },
        limits: { heap: { cpuSoftMs: 100, cpuHardMs: 200 }, wallMsMax: 50_000 },
      },
    );
    expect(resultOf(await steps.run(attemptOf("sum", [1])))).toBe(2);
    const neighbour = steps.run(attemptOf("waits"));
    expect(failureOf(await steps.run(attemptOf("endless"))).error).toMatchObject({
      limit: "cpuHardMs",
    });
    expect(await neighbour).toMatchObject({ kind: "interrupted" });
  });
});
