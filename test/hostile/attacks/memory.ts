/** Taking memory and stack. */
import { LOOT, bundle, endedInLimit, looted, unsettled } from "../attack.ts";
import type { Attack, Observation } from "../attack.ts";

/** The heap grew past its limit, or the run went on as if nothing had been refused. */
function grew(seen: Observation): boolean {
  const last = seen.run.passes.at(-1);
  if (last === undefined || seen.run.thrown !== null || last.kind === "lost") return true;
  if (last.kind === "limit" || last.kind === "quiet") {
    if (last.usage.heapBytes > seen.limits.heapBytesMax + (2 << 20)) return true;
  }
  return !endedInLimit(seen, "heapBytesMax");
}

function eats(name: string, row: string, body: string): Attack {
  return { name, row, program: bundle(body), weakening: "lifted_limits", succeeded: grew };
}

/** Whether the guest caught it or not, the heap stays usable and its host does not notice. */
function digs(name: string, row: string, body: string): Attack {
  return {
    name,
    row,
    program: bundle(`
      try { ${body} } catch (e) { if (!(e instanceof Error)) return "${LOOT}"; }
      return await step("after")(1);`),
    weakening: "lifted_limits",
    succeeded: (seen) => looted(seen) || unsettled(seen) || endedInLimit(seen, "stackBytesMax"),
  };
}

export const memoryAttacks: readonly Attack[] = [
  eats(
    "doubling a string stops at the heap's limit",
    "F8",
    `var s = "x".repeat(1 << 20), all = []; for (var i = 0; i < 120; i++) all.push(s + i + s.slice(i)); return all.length;`,
  ),
  eats(
    "typed arrays stop at the heap's limit",
    "F8",
    `var v = []; for (var i = 0; i < 120; i++) v.push(new Uint8Array(1 << 20)); return v.length;`,
  ),
  eats(
    "flattening a shared graph stops at the heap's limit",
    "F11",
    `var a = [1]; for (var i = 0; i < 23; i++) a = [a, a]; return a.flat(Infinity).length;`,
  ),
  eats(
    "a caught refusal does not let the run go on",
    "F9",
    `var v = []; try { for (var i = 0; i < 120; i++) v.push(new Uint8Array(1 << 20)); } catch (e) { v = null; } return await step("after")("on");`,
  ),
  eats(
    "a refusal caught in an async function does not let the run go on",
    "F9",
    `await (async () => { var v = []; for (var i = 0; i < 120; i++) v.push(new Uint8Array(1 << 20)); })().catch(() => 1); return await step("after")("on");`,
  ),
  eats(
    "a Map stops at the heap's limit",
    "F8",
    `var m = new Map(); for (var i = 0; i < 900000; i++) m.set(i, { i }); return m.size;`,
  ),
  eats(
    "closures and promises stop at the heap's limit",
    "own",
    `var held = []; for (var i = 0; i < 600000; i++) held.push(new Promise(() => {})); return held.length;`,
  ),
  eats(
    "symbols with long descriptions stop at the heap's limit",
    "own",
    `var s = []; for (var i = 0; i < 120; i++) s.push(Symbol(i + "y".repeat(1 << 20))); return s.length;`,
  ),
  eats(
    "a growing buffer stops at the heap's limit",
    "own",
    `var v = []; for (var i = 0; i < 60; i++) { v.push(new ArrayBuffer(2 << 20)); new Uint8Array(v[i]).fill(1); } return v.length;`,
  ),
  eats(
    "big integers stop at the heap's limit",
    "own",
    `var v = []; for (var i = 0; i < 400; i++) v.push(1n << 1000000n); return v.length;`,
  ),
  digs("endless recursion is the guest's own error", "F7", `(function f() { f(); })();`),
  digs(
    "endless recursion through a getter is the guest's own error",
    "F7",
    `var o = { get x() { return this.x; } }; o.x;`,
  ),
  digs(
    "endless recursion through a Proxy is the guest's own error",
    "F7",
    `var p = new Proxy({}, { get(t, k, r) { return r[k]; } }); p.x;`,
  ),
  digs("deep JSON is the guest's own error", "F7", `JSON.parse("[".repeat(200000));`),
  digs(
    "a recursive toJSON is the guest's own error",
    "F7",
    `var o = { toJSON() { return JSON.stringify(o); } }; JSON.stringify(o);`,
  ),
  digs(
    "printing a deep array is the guest's own error",
    "F7",
    `var a = []; for (var i = 0; i < 200000; i++) a = [a]; String(a);`,
  ),
  digs(
    "a deep chain of Proxies is the guest's own error",
    "F7",
    `var p = {}; for (var i = 0; i < 100000; i++) p = new Proxy(p, {}); p.x;`,
  ),
  digs(
    "delegating generators deeply is the guest's own error",
    "F7",
    `function* g(n) { yield* g(n + 1); } g(0).next();`,
  ),
  digs(
    "sorting with endless recursion is the guest's own error",
    "F7",
    `[2, 1].sort(function c() { return [2, 1].sort(c).length; });`,
  ),
  digs(
    "a deep template of calls in replace is the guest's own error",
    "F7",
    `"a".replace(/a/, function r() { return "a".replace(/a/, r); });`,
  ),
];
