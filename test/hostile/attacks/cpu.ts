/** Programs that take the processor: those the engine's interrupt handler ends, and those it never
 * polls in. The latter are what the watchdog is for. */
import { bundle } from "../attack.ts";
import type { Attack, Observation } from "../attack.ts";

/** Programs in which the engine does not, or hardly, ask whether to stop. */
export const UNINTERRUPTIBLE: readonly (readonly [name: string, row: string, code: string])[] = [
  ["joining a huge sparse array", "F1", `new Array(1000000000) + "";`],
  [
    "joining an array-like of 2^53 - 1",
    "F1",
    `Array.prototype.join.call({ length: 2 ** 53 - 1 }, "");`,
  ],
  ["reversing an array-like of 2^50", "F2", `Array.prototype.reverse.call({ length: 2 ** 50 });`],
  ["a quadratic includes", "F3", `("a".repeat(2e6) + "b").includes("a".repeat(1e6) + "c");`],
  ["a quadratic indexOf", "F3", `("a".repeat(2e6) + "b").indexOf("a".repeat(1e6) + "c");`],
  ["includes on an array-like", "F2", `Array.prototype.includes.call({ length: 2 ** 50 }, 1);`],
  ["indexOf on a sparse array", "F1", `var a = []; a.length = 4e9; a.indexOf(1);`],
  [
    "lastIndexOf on an array-like",
    "F1",
    `Array.prototype.lastIndexOf.call({ length: 2 ** 50 }, 1);`,
  ],
  ["forEach on a sparse array", "F1", `var a = []; a.length = 4e9; a.forEach(() => 1);`],
  [
    "copyWithin on an array-like",
    "F2",
    `Array.prototype.copyWithin.call({ length: 2 ** 50 }, 1, 2);`,
  ],
  ["shift on an array-like", "F2", `Array.prototype.shift.call({ length: 2 ** 50 });`],
  [
    "splice on an array-like",
    "F2",
    `Array.prototype.splice.call({ length: 2 ** 50, constructor: null }, 0, 1);`,
  ],
  ["sort on an array-like", "F2", `Array.prototype.sort.call({ length: 2 ** 31 });`],
  ["a power of big integers", "F5", `var x = 3n; for (;;) x = 3n ** 600000n;`],
  ["printing big integers", "F5", `var x = 7n ** 200000n; for (;;) String(x);`],
  ["replaceAll over and over", "own", `for (;;) "a".repeat(4e6).replaceAll("a", "b");`],
  ["normalizing over and over", "own", `for (;;) "\\u0041\\u030a".repeat(1e6).normalize("NFC");`],
  [
    "parsing JSON over and over",
    "own",
    `var t = "[" + "1,".repeat(2e5) + "1]"; for (;;) JSON.parse(t);`,
  ],
];

/** Programs in which it does. */
const INTERRUPTIBLE: readonly (readonly [name: string, row: string, code: string])[] = [
  ["an empty loop", "own", `for (;;);`],
  [
    "a loop that catches its interrupt",
    "own",
    `for (;;) { try { for (;;); } catch (e) {} finally { } }`,
  ],
  ["a generator without end", "own", `function* g() { for (;;) yield 1; } for (var x of g());`],
  ["an exponential regular expression", "F6", `/^(a+)+$/.test("a".repeat(40) + "b");`],
  ["an expression of alternatives", "F6", `/^(a|a)+$/.test("a".repeat(40) + "b");`],
  ["nested quantifiers", "F6", `/(x+x+)+y/.test("x".repeat(40));`],
  ["awaits without end", "F17", `for (;;) await 0;`],
  [
    "a promise chain without end",
    "F17",
    `(function f() { return Promise.resolve().then(f); })(); await new Promise(() => {});`,
  ],
  [
    "promises that spawn promises",
    "own",
    `(function f() { Promise.resolve().then(f); Promise.resolve().then(f); })(); await new Promise(() => {});`,
  ],
  ["a thenable that resolves itself", "own", `await { then(r) { r(this); } };`],
  [
    "an async function that catches its interrupt",
    "own",
    `(async function f() { try { for (;;) ; } catch (e) { await f(); } })(); for (;;) { try { await 0; } catch (e) {} }`,
  ],
  [
    "an async generator that catches its interrupt",
    "own",
    `async function* g() { for (;;) { try { for (;;) yield 1; } catch (e) {} } } for await (var x of g());`,
  ],
  ["a getter without end inside a payload", "own", `await step("a")({ get x() { for (;;); } });`],
  [
    "a Proxy without end inside a payload",
    "own",
    `await step("a")(new Proxy({}, { ownKeys() { for (;;); } }));`,
  ],
];

/** The run got more than its budget and the grace, or the end was no limit's. */
function outlasted(seen: Observation): boolean {
  if (seen.slowestCpuMs > CPU_HARD_MS + OVERRUN_MS_MAX) return true;
  const last = seen.run.passes.at(-1);
  if (last?.kind !== "limit") return true;
  return !/^cpu(Soft|Hard)Ms$|^jobsPerEventMax$|^heapBytesMax$/.test(last.exceeded.limit);
}

/** The budget of these attempts, and what the watchdog may take on top to notice and stop it. */
export const CPU_HARD_MS = 300;
export const CPU_SOFT_MS = 100;
export const OVERRUN_MS_MAX = 100;

function hog([name, row, code]: readonly [string, string, string]): Attack {
  return {
    name: `${name} ends`,
    row,
    program: bundle(code),
    limits: { cpuSoftMs: CPU_SOFT_MS, cpuHardMs: CPU_HARD_MS },
    weakening: "far_watchdog",
    succeeded: outlasted,
  };
}

export const cpuAttacks: readonly Attack[] = [...UNINTERRUPTIBLE, ...INTERRUPTIBLE].map(hog);
