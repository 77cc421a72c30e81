/** Values that hurt whoever reads them: going out as arguments and results, coming in as payloads. */
import { LOOT, bundle, looted, unsettled } from "../attack.ts";
import type { Attack, Observation } from "../attack.ts";

/** Memory of the host that one bounded payload explains. */
const HOST_GROWTH_BYTES_MAX = 128 << 20;

function hurtsHost(seen: Observation): boolean {
  return looted(seen) || unsettled(seen) || seen.hostGrowthBytes > HOST_GROWTH_BYTES_MAX;
}

/** Sent as a step's argument (a refusal is catchable), then returned. */
function out(name: string, row: string, make: string): Attack {
  return {
    name,
    row,
    program: bundle(`
      var value = (function () { ${make} })();
      try { await step("a")(value); } catch (e) { if (!(e instanceof Error)) return "${LOOT}"; }
      return value;`),
    weakening: "host_realm",
    succeeded: hurtsHost,
  };
}

export const outgoing: readonly Attack[] = [
  out(
    "a small heap does not make a large host",
    "E11",
    `var a = "x".repeat(1e6); return new Array(1500).fill(a);`,
  ),
  out(
    "a small heap of distinct pieces does not make a large host",
    "E11",
    `var a = "x".repeat(1e5); var v = []; for (var i = 0; i < 1500; i++) v.push({ a: [a], i }); return v;`,
  ),
  out(
    "a shared graph is written once",
    "E11",
    `var a = ["leaf".repeat(100)]; for (var i = 0; i < 27; i++) a = [a, a]; return a;`,
  ),
  out("a sparse array of four billion is bounded", "E12", `var a = []; a.length = 4e9; return a;`),
  out(
    "a sparse array with a last element is bounded",
    "E12",
    `var a = []; a[4294967294] = 1; return a;`,
  ),
  out("a getter without end is the guest's own time", "E13", `return { get x() { for (;;); } };`),
  out(
    "a Proxy that lists 100,000 keys is bounded",
    "E13",
    `return new Proxy({}, { ownKeys() { var k = []; for (var i = 0; i < 100000; i++) k.push("k" + i); return k; }, getOwnPropertyDescriptor() { return { value: 1, enumerable: true, configurable: true }; } });`,
  ),
  out(
    "a Proxy that changes its mind is bounded",
    "E13",
    `var n = 0; return new Proxy([], { get(t, k) { if (k === "length") return n++ % 2 ? 1e9 : 1; return t[k]; } });`,
  ),
  out(
    "a throwing Proxy is catchable",
    "E13",
    `return new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; }, getPrototypeOf() { throw 3; } });`,
  ),
  out("a deep list ends", "F7", `var a = []; for (var i = 0; i < 100000; i++) a = [a]; return a;`),
  out(
    "a deep chain of objects ends",
    "F7",
    `var o = {}; for (var i = 0; i < 100000; i++) o = { o }; return o;`,
  ),
  out(
    "a deep chain of maps ends",
    "F7",
    `var m = new Map(); for (var i = 0; i < 50000; i++) m = new Map([["m", m]]); return m;`,
  ),
  out("a cycle ends", "own", `var o = {}; o.o = o; o.list = [o]; return o;`),
  out("a toJSON decides nothing", "own", `return { toJSON() { return "${LOOT}"; }, x: 1 };`),
  out(
    "an own __proto__ is refused or kept as data",
    "own",
    `return JSON.parse('{"__proto__": {"polluted": true}}');`,
  ),
  out("a function is refused", "own", `return { f() {} };`),
  out(
    "an object that lies about its kind is bounded",
    "own",
    `return { [Symbol.toStringTag]: "Map", size: 1e9, forEach() { for (;;); } };`,
  ),
  out(
    "a Map subclass with its own iterator is bounded",
    "own",
    `return new (class extends Map { *[Symbol.iterator]() { for (;;) yield [1, 1]; } entries() { return this[Symbol.iterator](); } })();`,
  ),
  out(
    "a typed array with a lying length is bounded",
    "E5",
    `var u = new Uint8Array(4); Object.defineProperty(u, "length", { value: 1e9 }); Object.defineProperty(u, "byteLength", { value: 1e9 }); return u;`,
  ),
  out(
    "a class id is not taken from the value",
    "own",
    `class A {} A.classId = "__proto__"; A[Symbol.for("workflow-serialize")] = () => ({ x: 1 }); return new A();`,
  ),
  out(
    "NUL characters and lone surrogates cross",
    "own",
    `return "a\\u0000b\\ud800c\\udc00" + String.fromCharCode(0xdfff);`,
  ),
  out("a giant key crosses or is refused", "own", `return { ["k".repeat(2e6)]: 1 };`),
  out("1e7 digits of a big integer are bounded", "F5", `return (1n << 3000000n);`),
  out("a Date out of range crosses", "own", `return new Date(NaN);`),
];

/** What a step of somebody else, or a stranger's hook payload, may hold. */
function incoming(name: string, text: string): Attack {
  const isData = name.endsWith(" is data");
  const isError = / is (an|a catchable) error$/.test(name);
  return {
    name,
    row: "own",
    program: {
      ...bundle(`
        var value, isRefused = false;
        try { value = await step("take")(1); } catch (e) { value = e; isRefused = true; }
        if (isRefused ? ${isData} : ${isError}) return "${LOOT}";
        if (({}).polluted !== undefined || [].polluted !== undefined) return "${LOOT}";
        if (Object.prototype.hasOwnProperty.call(Object.prototype, "polluted")) return "${LOOT}";
        try { if (value && Object.getPrototypeOf(value) && Object.getPrototypeOf(value).polluted) return "${LOOT}"; } catch (e) {}
        var second = null;
        try { second = await step("sound")(2); } catch (e) { return "${LOOT}"; }
        return second === "sound" ? "sound" : "${LOOT}";`),
      answers: { take: { text }, sound: { text: `["sound"]` } },
    },
    weakening: "host_realm",
    succeeded: (seen) => looted(seen) || unsettled(seen) || !seen.run.decisions.includes("sound"),
  };
}

const DEEP = 20_000;

export const ingoing: readonly Attack[] = [
  incoming(
    "a payload with an own __proto__ pollutes nothing",
    `[{"__proto__":1},{"polluted":2},true]`,
  ),
  incoming(
    "a payload with constructor.prototype pollutes nothing",
    `[{"constructor":1},{"prototype":2},{"polluted":3},true]`,
  ),
  incoming(
    "a null-prototype payload with __proto__ pollutes nothing",
    `[["null","__proto__",1],{"polluted":2},true]`,
  ),
  incoming(
    "a Map payload with the key __proto__ pollutes nothing",
    `[["Map",1,2],"__proto__",{"polluted":3},true]`,
  ),
  incoming("an unknown kind is a catchable error", `[["Evil",1],0]`),
  incoming("a kind named constructor is a catchable error", `[["constructor",1],0]`),
  incoming("a kind named __proto__ is a catchable error", `[["__proto__",1],{"polluted":2},true]`),
  incoming("a kind named toString is a catchable error", `[["toString",1],0]`),
  incoming(
    "an instance of an unregistered class is a catchable error",
    `[["Instance",1],{"classId":2,"data":3},"class//x//Y",{}]`,
  ),
  incoming(
    "an instance of class __proto__ is a catchable error",
    `[["Instance",1],{"classId":2,"data":3},"__proto__",{"polluted":4},true]`,
  ),
  incoming(
    "a class reference named constructor is a catchable error",
    `[["Class",1],{"classId":2},"constructor"]`,
  ),
  incoming("a cycle is data", `[[0]]`),
  incoming(
    "a deep payload is data",
    `[${Array.from({ length: DEEP }, (_, i) => `[${i + 1}]`).join(",")},1]`,
  ),
  incoming("an index out of range is an error", `[[99]]`),
  incoming("a negative index of no meaning is an error", `[[-99]]`),
  incoming("a fractional index is an error", `[[0.5]]`),
  incoming("no JSON is an error", `{"`),
  incoming("a sparse array with a huge length is bounded", `[[-7,4294967295,0,1],1]`),
  incoming("a sparse array with a negative index is an error", `[[-7,4,-2,1],1]`),
  incoming("a big integer that is none is an error", `[["BigInt",1],"0x__"]`),
  incoming(
    "an expression that does not compile is an error",
    `[["RegExp",1],{"source":2,"flags":3},"(","zzz"]`,
  ),
  incoming("base64 that is none is an error", `[["Uint8Array",1],"***"]`),
  incoming(
    "a view beyond its buffer is an error",
    `[["Uint8Array",1,99,99],["ArrayBuffer",2],"AAAA"]`,
  ),
  incoming("a URL that is none is an error", `[["URL",1],"::"]`),
];

/** Whoever may send to a hook chooses the payload, but not what the workflow calls. */
const callingPayload: Attack = {
  name: "a payload that poses as a promise has no step called",
  row: "own",
  program: {
    ...bundle(`try { await step("take")(1); } catch (e) { return "refused"; } return "taken";`),
    answers: {
      take: { text: `[{"then":1},["StepFunction",2],{"stepId":3},"step//./tenant//${LOOT}"]` },
    },
  },
  weakening: "host_realm",
  succeeded: looted,
  // Where it succeeds, the workflow waits for ever.
  hasRun: () => true,
};

export const valueAttacks: readonly Attack[] = [...outgoing, ...ingoing, callingPayload];
