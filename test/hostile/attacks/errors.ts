/** Errors that cross the border in either direction. */
import { LOOT, bundle, looted, unsettled } from "../attack.ts";
import type { Attack, Observation } from "../attack.ts";

/** Ends the workflow by throwing; the run has to fail with a payload, whatever the value is. */
function thrown(name: string, expression: string): Attack {
  return {
    name,
    row: "own",
    program: bundle(`await step("a")(1);\nthrow ${expression};`),
    weakening: "host_realm",
    succeeded: (seen) => unsettled(seen) || !hasFailed(seen),
  };
}

/** In a limit, or with a payload of an error: the only kind of value that is written as a tag. */
function hasFailed({ run, limits }: Observation): boolean {
  if (run.passes.at(-1)?.kind === "limit") return true;
  if (!run.decisions.includes('"kind":"failed"') || run.outcome === null) return false;
  return run.outcome.startsWith('devl[["') && run.outcome.length < 2 * limits.payloadBytesMax;
}

/** What a stack of the host's code would show. */
const HOST_TRACES = String.raw`/file:\/\/|node:|\/dist\/|\.mjs|\.ts:|node_modules|wasm:|sandbox\//`;

function leaks(name: string, body: string): Attack {
  return {
    name,
    row: "own",
    program: bundle(`
      var caught = [];
      ${body}
      for (var e of caught) {
        var texts = [];
        try { texts.push(String(e.stack)); } catch (x) {}
        try { texts.push(String(e.message)); } catch (x) {}
        try { for (var k of Reflect.ownKeys(e)) texts.push(String(e[k])); } catch (x) {}
        if (${HOST_TRACES}.test(texts.join("\\n"))) return "${LOOT}";
      }
      return "clean " + caught.length;`),
    weakening: "host_realm",
    succeeded: looted,
  };
}

export const errorAttacks: readonly Attack[] = [
  thrown(
    "a throwing message getter escapes nowhere",
    `Object.defineProperty(new Error("x"), "message", { get() { throw new Error("inner"); } })`,
  ),
  thrown(
    "a throwing name getter escapes nowhere",
    `Object.defineProperty(new Error("x"), "name", { get() { throw 1; } })`,
  ),
  thrown(
    "a throwing stack getter escapes nowhere",
    `Object.defineProperty(new Error("x"), "stack", { get() { throw null; } })`,
  ),
  thrown(
    "a throwing cause getter escapes nowhere",
    `Object.defineProperty(new Error("x"), "cause", { get() { throw undefined; } })`,
  ),
  thrown(
    "a getter that throws another such error escapes nowhere",
    `(function nest(n) { return Object.defineProperty(new Error("n" + n), "message",
      { get() { throw nest(n + 1); } }); })(0)`,
  ),
  thrown(
    "a Proxy around an error is only a value",
    `new Proxy(new Error("x"), {
    get() { throw new Error("trap"); }, ownKeys() { throw 1; }, getPrototypeOf() { throw 2; } })`,
  ),
  thrown(
    "a revoked Proxy can be thrown and fails the run",
    `(function () {
    var r = Proxy.revocable(new Error("x"), {}); r.revoke(); return r.proxy; })()`,
  ),
  thrown(
    "a cause that leads back to the error ends",
    `(function () {
    var e = new Error("x"); e.cause = e; return e; })()`,
  ),
  thrown(
    "a chain of 100,000 causes ends",
    `(function () {
    var e = new Error("0"); for (var i = 1; i < 100000; i++) e = new Error(String(i), { cause: e });
    return e; })()`,
  ),
  thrown(
    "errors of an AggregateError that are no list end",
    `(function () {
    var e = new AggregateError([], "x");
    Object.defineProperty(e, "errors", { get() { throw 1; } }); return e; })()`,
  ),
  thrown("a symbol can be thrown and fails the run", `Symbol("x".repeat(1000))`),
  thrown("a function can be thrown and fails the run", `function () { return 1; }`),
  thrown("a stack of 64 MB ends", `Object.assign(new Error("x"), { stack: "s".repeat(64 << 20) })`),
  thrown(
    "a stack that is an object ends",
    `Object.assign(new Error("x"), {
    stack: { toString() { throw 1; } }, message: { toString() { throw 2; } } })`,
  ),
  thrown("a thenable with a throwing then ends", `{ get then() { throw new Error("then"); } }`),
  leaks(
    "errors of refused calls show nothing of the host",
    `
    var calls = [
      () => sleep("nonsense"), () => sleep(Symbol("x")), () => step("a")(() => 1),
      () => hook({ token: 5 }), () => globalThis.hostCall(Symbol("x")), () => fetch("http://a"),
      () => setTimeout(() => 1, 1), () => new Function("x"), () => import("other"),
      () => import("../up"), () => crypto.getRandomValues("x"), () => new URL("::"),
      () => structuredClone(() => 1), () => atob("*"), () => JSON.parse("{"),
    ];
    for (var call of calls) { try { await call(); } catch (e) { caught.push(e); } }`,
  ),
  leaks(
    "running out of stack shows nothing of the host",
    `
    try { (function f() { f(); })(); } catch (e) { caught.push(e); }
    try { await import("x" + "y".repeat(10)); } catch (e) { caught.push(e); }
    try { (globalThis.hostCall || sleep)(Symbol("x")); } catch (e) { caught.push(e); }`,
  ),
];
