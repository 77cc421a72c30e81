/** What a tenant can break is its own code; what the library reports stays as it is. */
import { describe, expect, it } from "vitest";
import { TestHeap } from "./heap.ts";

const WORK = `
  const hook = createHook({ token: "t", metadata: { m: 1 } });
  const a = step("a", given);
  sleep("1h"); setAttributes({ key: "value" });
  const got = await a;
  let e; try { await step("b", got) } catch (error) { e = error }
  const payload = await hook;
  return { got, payload, name: e.name, message: e.message };`;

const ATTACKS: Record<string, string> = {
  "Array.prototype methods": `for (const k of ["push","join","map","slice","forEach","concat","pop"])
    Array.prototype[k] = () => { throw new Error("patched") };`,
  "Array.prototype index setters": `for (let i = 0; i < 40; i++) Object.defineProperty(Array.prototype, i,
    { set() { throw new Error("set") }, get() { return "forged" }, configurable: true });`,
  "the array iterator": `Array.prototype[Symbol.iterator] = function* () { yield "forged" };
    Object.getPrototypeOf([][Symbol.iterator] ? [].values?.() ?? {} : {}).next = () => ({ done: true });`,
  "Map.prototype": `for (const k of ["get","set","has","delete","forEach","entries"])
    Map.prototype[k] = () => "forged"; Object.defineProperty(Map.prototype, "size", { get: () => 99 });`,
  "Set.prototype": `for (const k of ["add","has","forEach","values"]) Set.prototype[k] = () => "forged";`,
  "WeakMap.prototype": `for (const k of ["get","set","has"]) WeakMap.prototype[k] = () => undefined;`,
  JSON: `JSON.stringify = () => '{"asked":[],"forged":true}'; JSON.parse = () => ({ t: "forged" });`,
  "toJSON on every prototype": `for (const p of [Object, Array, String, Number, Boolean, BigInt])
    p.prototype.toJSON = () => "forged";`,
  "Object.prototype getters": `for (const k of ["k","n","id","name","input","error","at","t","asked","done",
    "stepName","resumeAt","value","get","set","enumerable","configurable","writable","args","text",
    "tag","items","fields","kind","settle","created"])
    Object.defineProperty(Object.prototype, k, { __proto__: null, get: () => "forged",
      set() { throw new Error("set") }, configurable: true });`,
  "Object statics": `for (const k of ["keys","defineProperty","getPrototypeOf","create","freeze","hasOwn",
    "setPrototypeOf","getOwnPropertyDescriptor","entries","assign"]) Object[k] = () => { throw new Error(k) };`,
  Reflect: `for (const k of ["apply","construct","ownKeys"]) Reflect[k] = () => { throw new Error(k) };`,
  "Function.prototype": `Function.prototype.call = Function.prototype.apply = Function.prototype.bind =
    () => { throw new Error("patched") };`,
  "String.prototype": `for (const k of ["slice","charCodeAt","indexOf","replace","startsWith","charAt","toString"])
    String.prototype[k] = () => "forged";`,
  "Promise.prototype": `Promise.prototype.then = Promise.prototype.catch = () => "forged";
    Promise.resolve = Promise.reject = Promise.all = () => "forged";`,
  "typed arrays": `const T = Object.getPrototypeOf(Uint8Array.prototype);
    for (const k of ["set","subarray","slice","fill"]) T[k] = () => { throw new Error("patched") };
    for (const k of ["buffer","byteLength","length"]) Object.defineProperty(T, k, { get: () => 3 });`,
  "RegExp.prototype.exec": `RegExp.prototype.exec = () => null; RegExp.prototype.test = () => true;`,
  "Symbol.toStringTag": `Object.defineProperty(Object.prototype, Symbol.toStringTag, { get: () => "Map", configurable: true });`,
  "Math and Number": `Math.imul = Math.floor = () => 0; Number.isInteger = Number.isFinite = () => false;`,
  "Error's own": `Error.prototype.toString = () => "forged"; Error.isError = () => false;`,
};

function reportsOf(attack: string): unknown[] {
  const heap = new TestHeap(`
    const lib = globalThis[Symbol.for("baton.guest")];
    const { sleep, createHook, setAttributes } = lib.workflow;
    const useStep = globalThis[Symbol.for("WORKFLOW_USE_STEP")];
    const step = (name, arg) => useStep("step//./test//" + name)(arg);
    const setWorkflow = (main) => registry.set("workflow//./test//main", main);
    const registry = globalThis.__private_workflows;
    setWorkflow(async function main() { ${WORK} });
    const given = { n: 1, list: [1, 2], map: new Map([["k", new Set([3])]]), d: new Date(5), big: 7n };
    ${attack}`);
  heap.init();
  heap.begin([]);
  const reports = [heap.report()];
  const ids = Object.fromEntries(reports[0]?.asked.map((ask) => [ask.k, ask.id]) ?? []);
  const a = ids["step"] as string;
  heap.event("step_created", a, { asked: { stepName: "step//./test//a" } });
  heap.completes(a, { deep: [1, new Map([["x", new Date(9)]])], bytes: new Uint8Array([1, 2]) });
  reports.push(heap.report());
  const b = reports[1]?.asked[0]?.id as string;
  heap.fails(b, new RangeError("no", { cause: "why" }));
  heap.receives(ids["hook"] as string, [1, [2]]);
  reports.push(heap.report());
  reports.push(heap.open());
  return reports;
}

describe("reports are byte for byte what they are without an attack, under patched", () => {
  const honest = reportsOf("");

  it("nothing: the honest run asks, goes on and ends", () => {
    expect(honest.map((report) => (report as { asked: unknown[] }).asked.length)).toEqual([
      4, 1, 0, 3,
    ]);
    expect(honest[2]).toMatchObject({ done: { ok: true } });
    expect(JSON.stringify(honest[2])).toContain("RangeError");
  });

  it.each(Object.entries(ATTACKS))("%s", (_, attack) => {
    expect(reportsOf(attack)).toEqual(honest);
  });

  it("and an attack that does change what is asked for would be seen", () => {
    expect(reportsOf("given.n = 2")).not.toEqual(honest);
  });
});

describe("what must not be there", () => {
  it.each([
    "WeakRef",
    "FinalizationRegistry",
    "Atomics",
    "SharedArrayBuffer",
    "__baton_guest",
    "std",
    "os",
  ])("%s is no global", (name) => {
    expect(TestHeap.running(`return typeof globalThis.${name}`).outcome().value).toBe("undefined");
  });

  it.each([
    "eval('1')",
    "(0, eval)('1')",
    "new Function('return 1')",
    "Function('return 1')()",
    "(() => {}).constructor('return 1')",
    "(async () => {}).constructor('return 1')",
    "(function* () {}).constructor('yield 1')",
    "(async function* () {}).constructor('yield 1')",
    "Object.getPrototypeOf(async () => {}).constructor('return 1')",
    "Reflect.construct(Function, ['return 1'])",
    "Reflect.construct((async () => {}).constructor, ['return 1'])",
    "new (class extends Function {})('return 1')",
    "[].map.constructor('return 1')",
    "Object.getPrototypeOf(class extends Function {}.prototype).constructor('return 1')",
    "Object.getOwnPropertyDescriptor(Function.prototype, 'constructor').value('return 1')",
    "useStep('step//./a//b').constructor('return 1')",
    "lib.workflow.sleep.constructor('return 1')",
    "lib.errors.FatalError.constructor('return 1')",
  ])("%s makes no code", (code) => {
    const heap = TestHeap.running(
      `try { return ["made", String(${code})] } catch (e) { return e.name }`,
    );
    expect(heap.outcome().value).toBe("NotAvailableError");
  });

  it("functions are still functions", () => {
    const heap = TestHeap.running(`return [(() => 1) instanceof Function, Function.name,
      typeof Function, (() => 1).call === Function.prototype.call]`);
    expect(heap.outcome().value).toEqual([true, "Function", "function", true]);
  });

  it.each(["setTimeout(() => 1, 5)", "setInterval(() => 1, 5)", "fetch('http://a.example')"])(
    "%s says what to use instead",
    (code) => {
      const heap = TestHeap.running(
        `try { await ${code} } catch (e) { return [e.name, e.message] }`,
      );
      expect(heap.outcome().value).toEqual([
        "NotAvailableError",
        expect.stringContaining('from "workflow"'),
      ]);
    },
  );

  it("Intl is there to be found, and says what to use instead when it is used", () => {
    const heap = TestHeap.running(`const found = typeof Intl;
      try { new Intl.DateTimeFormat("de") } catch (e) { return [found, e.name, e.message] }`);
    expect(heap.outcome().value).toEqual([
      "object",
      "NotAvailableError",
      expect.stringContaining("step"),
    ]);
  });
});

describe("hostile values", () => {
  it("a getter that throws, a Proxy and a revoked Proxy fail their step alone", () => {
    const heap = TestHeap.running(`
      const revoked = Proxy.revocable({}, {}); revoked.revoke();
      const endless = new Proxy([], { get: (t, k) => k === "length" ? 2 ** 50 : 1, has: () => true,
        getOwnPropertyDescriptor: () => ({ value: 1, configurable: true, enumerable: true, writable: true }) });
      const bad = [{ get a() { throw new Error("mine") } }, revoked.proxy, endless, { __proto__: null, f() {} }];
      const all = bad.map((value) => step("bad", value));
      const fine = step("fine", new Proxy({ a: 1 }, {}));
      await Promise.all([...all, fine]);`);
    const { asked } = heap.report();
    expect(asked.map((ask) => "error" in ask)).toEqual([true, true, true, true, false]);
  });

  it("a thenable, or an error whose message throws, ends the run as a value", () => {
    const heap = TestHeap.running(`
      const error = new Error("x");
      Object.defineProperty(error, "message", { get() { throw new Error("trap") } });
      Object.defineProperty(error, "stack", { get() { throw new Error("trap") } });
      throw error;`);
    expect(heap.outcome()).toMatchObject({ ok: false, value: { message: "" } });
    const other = TestHeap.running(`return { then(resolve) { resolve({ fine: 1 }) } }`);
    expect(other.outcome().value).toEqual({ fine: 1 });
  });

  it("ids, tokens and handles cannot be exchanged on the objects that the library gives", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "mine" }); const proxy = useStep("step//./test//a");
      const tries = [() => { hook.token = "other" }, () => { proxy.stepId = "other" },
        () => { globalThis[Symbol.for("baton.guest")] = {} }, () => { lib.workflow.sleep = null },
        () => { globalThis[Symbol.for("WORKFLOW_USE_STEP")] = null }];
      for (const attempt of tries) try { attempt() } catch {}
      proxy(); await hook;`);
    expect(heap.report().asked).toMatchObject([{ token: "mine" }, { name: "step//./test//a" }]);
  });
});
