/** Making code out of text, and walking from a value in reach to something of the host. */
import { LOOT, bundle, looted } from "../attack.ts";
import type { Attack } from "../attack.ts";

function compiles(name: string, expression: string): Attack {
  return {
    name,
    row: "F7",
    program: bundle(`
      try { if ((await (${expression})) === 1789) return "${LOOT}"; } catch (e) { return e.name; }
      return "nothing";`),
    weakening: "stock_globals",
    succeeded: looted,
  };
}

/** `probe` is a function body over `f`: anything that may be of the host's realm. */
const ESCAPES = `
function escapes(f) {
  try {
    var found = f.constructor.constructor("return this")();
    if (found && found.process && found.process.versions && found.process.versions.node) return true;
    found = f.constructor("return this")();
    return !!(found && found.process && found.process.versions && found.process.versions.node);
  } catch (e) { return false; }
}`;

function escape(name: string, row: string, body: string): Attack {
  return {
    name,
    row,
    program: bundle(body, ESCAPES),
    weakening: "host_realm",
    succeeded: looted,
  };
}

export const constructorAttacks: readonly Attack[] = [
  compiles("Function makes no code from text", `Function("return 1789")()`),
  compiles("a function's constructor makes no code", `(() => {}).constructor("return 1789")()`),
  compiles(
    "an async function's constructor makes no code",
    `(async () => {}).constructor("return 1789")()`,
  ),
  compiles(
    "a generator function's constructor makes no code",
    `(function* () {}).constructor("yield 1789")().next().value`,
  ),
  compiles(
    "an async generator function's constructor makes no code",
    `(async function* () {}).constructor("yield 1789")().next().then((r) => r.value)`,
  ),
  compiles(
    "a bound function's constructor makes no code",
    `main.bind(null).constructor("return 1789")()`,
  ),
  compiles(
    "a method's and a class's constructor make no code",
    `(class { static m() {} }).m.constructor("return 1789")()`,
  ),
  compiles("a built-in's constructor makes no code", `[].map.constructor("return 1789")()`),
  compiles(
    "a getter's constructor makes no code",
    `Object.getOwnPropertyDescriptor(Map.prototype, "size").get.constructor("return 1789")()`,
  ),
  compiles(
    "Reflect.construct makes no code",
    `Reflect.construct((() => {}).constructor, ["return 1789"], Array)()`,
  ),
  compiles(
    "the constructor behind a function's prototype chain makes no code",
    `Object.getPrototypeOf(Object.getPrototypeOf(async () => {})).constructor("return 1789")()`,
  ),
  compiles("direct eval makes no code", `eval("1789")`),
  compiles("indirect eval makes no code", `(0, globalThis.eval)("1789")`),
  compiles(
    "the constructor found over a subclass of a function makes no code",
    `new (class extends (() => {}).constructor {})("return 1789")()`,
  ),
  escape(
    "no function in reach leads to the host",
    "F7",
    `
    var seen = new Set(), queue = [globalThis], walked = 0;
    while (queue.length > 0 && walked < 20000) {
      var value = queue.pop();
      if (value === null || (typeof value !== "object" && typeof value !== "function")) continue;
      if (seen.has(value)) continue;
      seen.add(value); walked++;
      if (typeof value === "function" && escapes(value)) return "${LOOT}";
      try { queue.push(Object.getPrototypeOf(value)); } catch (e) {}
      var keys = [];
      try { keys = Reflect.ownKeys(value); } catch (e) {}
      for (var i = 0; i < keys.length && i < 400; i++) {
        try {
          var d = Object.getOwnPropertyDescriptor(value, keys[i]);
          if (d) queue.push(d.value, d.get, d.set);
        } catch (e) {}
      }
    }
    return "walked";`,
  ),
  escape(
    "the promise and the error of a dynamic import lead nowhere",
    "F7",
    `
    var promise;
    try { promise = import("node:fs"); } catch (e) { return escapes(e) ? "${LOOT}" : e.name; }
    promise.catch(() => 0);
    if (escapes(promise)) return "${LOOT}";
    try { return (await promise).readFileSync ? "${LOOT}" : "module"; }
    catch (e) { return escapes(e) ? "${LOOT}" : e.name; }`,
  ),
  escape(
    "an error from a host function does not carry the host's constructor",
    "F7",
    `
    var call = globalThis.hostCall || globalThis[Symbol.for("WORKFLOW_SLEEP")];
    for (var bad of [Symbol("x"), { toString() { throw 1; } }, { [Symbol.toPrimitive]: 1 }, 1n]) {
      try { await call(bad, bad); } catch (e) { if (e && escapes(e)) return "${LOOT}"; }
    }
    return "nothing";`,
  ),
  escape(
    "running out of stack inside a host function gives no error of the host",
    "F7",
    `
    var call = globalThis.hostCall || globalThis[Symbol.for("WORKFLOW_SLEEP")], loot = false;
    (function deeper() {
      try { deeper(); } catch (e) { if (e && typeof e === "object" && escapes(e)) loot = true; }
      try { call("clock_read", Symbol("x")); }
      catch (e) { if (e && typeof e === "object" && escapes(e)) loot = true; }
      if (loot) throw 0;
    });
    try { (function deep() { try { call("clock_read", Symbol("x")); } catch (e) {
      if (e && typeof e === "object" && escapes(e)) loot = true; } deep(); })(); }
    catch (e) { if (escapes(e)) loot = true; }
    return loot ? "${LOOT}" : "nothing";`,
  ),
  escape(
    "stack frames hand out no function of the host",
    "F7",
    `
    var frames = null;
    try { Error.prepareStackTrace = function (e, list) { frames = list; return "x"; }; } catch (e) {}
    try { String(new Error("look").stack); } catch (e) {}
    try {
      (globalThis.hostCall || globalThis[Symbol.for("WORKFLOW_SLEEP")])(Symbol("x"));
    } catch (e) { try { String(e.stack); } catch (x) {} }
    if (!Array.isArray(frames)) return "no frames";
    for (var frame of frames) {
      try { var f = frame.getFunction && frame.getFunction(); if (f && escapes(f)) return "${LOOT}"; }
      catch (e) {}
      if (escapes(frame)) return "${LOOT}";
      var file = ""; try { file = String(frame.getFileName()); } catch (e) {}
      if (/^(file:|node:|\\/)/.test(file)) return "${LOOT}";
    }
    return "frames";`,
  ),
  {
    name: "the library's own functions and the host function are out of reach",
    row: "G2",
    program: bundle(`
      var names = ["hostCall", "dispatch", "__baton_guest", "boot", "QTS", "Module"];
      for (var name of names) {
        var value = globalThis[name];
        if (typeof value === "function") return "${LOOT}";
        if (value && typeof value === "object") return "${LOOT}";
      }
      return "nothing";`),
    weakening: "exposed_library",
    succeeded: looted,
  },
  {
    name: "callers cannot be read off a function or its arguments",
    row: "own",
    program: bundle(
      `
      var found = null;
      function peek() { try { found = peek.caller || found; } catch (e) {}
        try { found = arguments.callee.caller || found; } catch (e) {} return 1; }
      [1].map(peek); JSON.stringify({ toJSON: peek });
      (function outer() { peek(); })();
      return found !== null && found !== undefined ? "${LOOT}" : "nothing";`,
    ),
    weakening: "host_realm",
    succeeded: looted,
  },
];
