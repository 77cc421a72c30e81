/** What code could see of the machine it runs on: its clock, chance, memory, files and network. */
import { LOOT, bundle, looted, swayed } from "../attack.ts";
import type { Attack } from "../attack.ts";
import type { Weakening } from "../attack.ts";

function senses(name: string, row: string, body: string, weakening: Weakening): Attack {
  return { name, row, program: bundle(body), weakening, succeeded: looted };
}

function isThere(name: string, row: string, expression: string): Attack {
  return senses(
    name,
    row,
    `try { if (${expression}) return "${LOOT}"; } catch (e) { return e.name; } return "nothing";`,
    "host_realm",
  );
}

/** Draws; the same seed has to give the same draws. */
const CHANCE = bundle(`await step("draw")([Math.random(), Math.random()].join()); return "drawn";`);

export const senseAttacks: readonly Attack[] = [
  senses(
    "a busy loop sees no time pass",
    "own",
    `
    var start = Date.now(), again = new Date().getTime();
    for (var i = 0; i < 3000000; i++);
    return Date.now() !== start || +new Date() !== again ? "${LOOT}" : "nothing";`,
    "host_realm",
  ),
  senses(
    "performance sees no time pass",
    "own",
    `
    if (typeof performance !== "object") return "none";
    var start = performance.now();
    for (var i = 0; i < 3000000; i++);
    return performance.now() !== start ? "${LOOT}" : "nothing";`,
    "host_realm",
  ),
  senses(
    "no way to a Date tells the host's time",
    "own",
    `
    var ways = [Date.now(), +new Date(), +Reflect.construct(Date, []), Date.parse(Date()),
      +new (class extends Date {})(), +new (Date.bind(null))(), +new (Object.getPrototypeOf(new Date()).constructor)()];
    return ways.some((t) => t > 1700001000000 || t < 1699999000000) ? "${LOOT}" : "nothing";`,
    "host_realm",
  ),
  {
    name: "chance is not the machine's",
    row: "own",
    program: CHANCE,
    innocent: CHANCE,
    weakening: "host_realm",
    succeeded: swayed,
  },
  isThere("the environment is not in reach", "own", `process.env.PATH`),
  isThere(
    "there is no require and no module",
    "own",
    `typeof require === "function" || process.binding`,
  ),
  isThere(
    "Atomics and shared memory are gone",
    "F18",
    `typeof Atomics === "object" || typeof SharedArrayBuffer === "function"`,
  ),
  isThere("WeakRef is gone", "F18", `typeof WeakRef === "function"`),
  isThere("FinalizationRegistry is gone", "F18", `typeof FinalizationRegistry === "function"`),
  isThere("WebAssembly is not there", "own", `typeof WebAssembly === "object"`),
  isThere(
    "shared memory cannot be had from a buffer's family",
    "F18",
    `new (Object.getOwnPropertyDescriptor(globalThis, "SharedArrayBuffer").value)(8).byteLength === 8`,
  ),
  isThere(
    "the time zone is no machine's",
    "own",
    `[process, Intl.DateTimeFormat().resolvedOptions().timeZone].length === 2`,
  ),
  senses(
    "memory that is collected tells nobody",
    "F18",
    `
    var cell = typeof WeakRef === "function" ? new WeakRef({}) : null;
    return cell !== null && "deref" in cell ? "${LOOT}" : "nothing";`,
    "stock_globals",
  ),
  senses(
    "the engine's own modules are not loaded",
    "F12",
    `
    var names = ["std", "os", "bjson", "scriptArgs", "print", "gc", "load", "__loadScript", "readFile", "queueMicrotaskHost", "hostCall"];
    return names.some((n) => globalThis[n] !== undefined) ? "${LOOT}" : "nothing";`,
    "exposed_library",
  ),
  senses(
    "Math.random cannot be re-seeded or replaced for the library",
    "own",
    `
    var real = Math.random;
    try { Math.random = () => 0.5; } catch (e) {}
    try { delete Math.random; } catch (e) {}
    try { Object.defineProperty(Math, "random", { value: () => 0.5 }); } catch (e) {}
    return Math.random !== real ? "${LOOT}" : "nothing";`,
    "late_bound",
  ),
];
