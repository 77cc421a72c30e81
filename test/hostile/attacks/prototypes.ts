/** Patching the built-ins that the guest library could rely on. */
import { LOOT, bundle, looted, swayed } from "../attack.ts";
import type { Attack } from "../attack.ts";

/** Made before any patch: the tenant's own values are not what is attacked. */
const TOP = `
  var VALUES = { n: 1, list: [1, "two", [3]], map: new Map([["k", new Set([1])]]), when: new Date(0),
    bytes: new Uint8Array([1, 2, 3]), big: 12345678901234567890n, pattern: /a+/gi, error: new TypeError("t") };
  VALUES.error.stack = "at x";`;

/** Uses every kind of operation and of value; what a patch changes in its decisions is a success. */
const BODY = `
  var taken = await step("first")(VALUES);
  await sleep("1s");
  var h = hook({ token: "attack-token" });
  var left = step("left")("a"), right = step("right")(2n);
  var race = [await left, await right, taken];
  var payload = await h;
  h.dispose();
  var failed = null;
  try { await step("fails")(VALUES.when); } catch (e) { failed = e.message; }
  console.log("seen", 1, "again");
  return { race, payload, failed, values: VALUES };`;

const ANSWERS = {
  fails: {
    text: `[["Error",1],{"name":2,"message":3,"stack":4},"Error","declined","at x"]`,
    fails: true,
  },
};

const INNOCENT = { ...bundle(BODY, TOP), answers: ANSWERS };

function patched(name: string, patch: string, row = "F13"): Attack {
  return {
    name,
    row,
    // After the workflow is registered; undone by nothing, so the tenant lives with it too.
    program: {
      source: `${bundle(BODY, TOP).source}\n(function () { ${patch} })();`,
      answers: ANSWERS,
    },
    innocent: INNOCENT,
    weakening: "late_bound",
    succeeded: swayed,
  };
}

/** A patch that spares callers from the bundle, so that the tenant's own code goes on working. */
const FORGED = `{ asked: [], closed: [], awaited: [], awaitedConflicts: [], drawn: 0, console: [],
  done: { ok: true, text: '["${LOOT}"]', code: null } }`;

export const prototypeAttacks: readonly Attack[] = [
  patched(
    "Object.prototype.toJSON forges no report",
    `Object.defineProperty(Object.prototype, "toJSON", { configurable: true, value() { return Object.hasOwn(this, "drawn") ? ${FORGED} : this; } });`,
  ),
  patched(
    "Array.prototype.toJSON forges no report",
    `Object.defineProperty(Array.prototype, "toJSON", { configurable: true, value() { return []; } });`,
  ),
  patched(
    "String.prototype.concat, which template literals call, writes no report",
    `try { String.prototype.concat = function () { return '{"asked":[],"closed":[],"awaited":[],"awaitedConflicts":[],"done":{"ok":true,"text":"[7]","code":null},"console":[],"drawn":0}'; }; } catch (e) {}`,
  ),
  patched(
    "an own hasInstance of Error decides nothing",
    `for (const of of [Error, TypeError, Promise, Map, Set, Date, RegExp, Array, Object]) Object.defineProperty(of, Symbol.hasInstance, { value: () => true });`,
  ),
  patched(
    "JSON.stringify is not asked for reports",
    `JSON.stringify = () => '${JSON.stringify({ asked: [], closed: [], awaited: [], awaitedConflicts: [], done: null, console: [], drawn: 0 })}';`,
  ),
  patched(
    "JSON.parse is not asked for commands",
    `var real = JSON.parse; JSON.parse = function (t) { var v = real(t); if (v && v.t === "event") v.slot = 1e9; if (v && v.t === "report") v.t = "open"; return v; };`,
  ),
  patched(
    "Map.prototype.get answers nobody but the tenant",
    `Map.prototype.get = function () { return undefined; };`,
  ),
  patched(
    "Map.prototype.set and delete lose nothing",
    `Map.prototype.set = function () { return this; }; Map.prototype.delete = () => false; Map.prototype.has = () => true;`,
  ),
  patched(
    "Promise.prototype.then is not how the library waits",
    `var then = Promise.prototype.then; Promise.prototype.then = function (a, b) { return then.call(this, a && (() => a("${LOOT}")), b); };`,
  ),
  patched(
    "Array.prototype.push keeps nothing from the library",
    `Array.prototype.push = function () { return 0; };`,
  ),
  patched(
    "Array.prototype.join does not write reports",
    `Array.prototype.join = function () { return ""; };`,
  ),
  patched(
    "array iteration is not how the library reads lists",
    `Array.prototype[Symbol.iterator] = function () { return { next: () => ({ done: true }) }; };`,
  ),
  patched(
    "setters on array indexes take no element",
    `Object.defineProperty(Array.prototype, "0", { configurable: true, get() { return undefined; }, set() {} }); Object.defineProperty(Object.prototype, "1", { configurable: true, get() { return undefined; }, set() {} });`,
  ),
  patched(
    "setters on Object.prototype take no field of a report",
    `for (const key of ["k", "n", "id", "name", "input", "asked", "closed", "done", "ok", "text", "items", "fields", "tag", "kind", "token", "at"]) Object.defineProperty(Object.prototype, key, { configurable: true, get() { return undefined; }, set() {} });`,
  ),
  patched(
    "defaults on Object.prototype change no operation",
    `for (const [key, value] of Object.entries({ error: "[1]", force: true, webhook: true, isWebhook: true, isSystem: true, system: true, retentionMs: 9, kind: "attr", created: true, n: 9 })) Object.defineProperty(Object.prototype, key, { configurable: true, enumerable: true, writable: true, value });`,
  ),
  patched(
    "String.prototype.slice and charCodeAt cut no report",
    `String.prototype.slice = () => ""; String.prototype.charCodeAt = () => 65; String.fromCharCode = () => "?"; String.prototype.indexOf = () => -1;`,
  ),
  patched(
    "Object.defineProperty, keys and create serve the tenant alone",
    `Object.defineProperty = (o) => o; Object.keys = () => []; Object.create = () => ({}); Object.getOwnPropertyDescriptor = () => undefined;`,
  ),
  patched(
    "Reflect serves the tenant alone",
    `Reflect.apply = () => undefined; Reflect.ownKeys = () => []; Reflect.construct = () => ({});`,
  ),
  patched(
    "Function.prototype.call, apply and bind serve the tenant alone",
    `Function.prototype.call = () => undefined; Function.prototype.apply = () => undefined; Function.prototype.bind = () => () => undefined;`,
  ),
  patched(
    "Number.prototype.toString and Number.isInteger change no number",
    `Number.prototype.toString = () => "7"; Number.isInteger = () => false; Number.isFinite = () => false; Number.isSafeInteger = () => false;`,
  ),
  patched(
    "Math changes no id",
    `Math.floor = () => 0; Math.imul = () => 0; Math.abs = () => 0; Math.ceil = () => 0;`,
  ),
  patched(
    "a replaced Date changes no clock and no payload",
    `Date.prototype.getTime = () => 7; Date.prototype.toISOString = () => "1999-01-01T00:00:00.000Z"; Date.prototype.valueOf = () => 7;`,
  ),
  patched(
    "Array.isArray and Object.prototype.toString change no encoding",
    `Array.isArray = () => false; Object.prototype.toString = () => "[object Map]";`,
  ),
  patched("BigInt.prototype.toString changes no payload", `BigInt.prototype.toString = () => "1";`),
  patched(
    "RegExp.prototype.exec decides nothing",
    `RegExp.prototype.exec = () => null; RegExp.prototype.test = () => true; RegExp.prototype[Symbol.replace] = () => "${LOOT}";`,
  ),
  patched(
    "Map and Set iteration serve the tenant alone",
    `Map.prototype.forEach = () => {}; Set.prototype.forEach = () => {}; Map.prototype[Symbol.iterator] = Map.prototype.entries = function* () {}; Set.prototype[Symbol.iterator] = Set.prototype.values = function* () {};`,
  ),
  patched(
    "every method of every built-in at once changes no decision",
    `
    var holders = [Map, Set, WeakMap, JSON, Reflect, Number, Math, String, RegExp, BigInt, Date, Error];
    var boom = function () { throw new Error("${LOOT}"); };
    var keysOf = Reflect.ownKeys, describe = Object.getOwnPropertyDescriptor, define = Object.defineProperty;
    for (const holder of holders) for (const target of [holder, holder.prototype]) {
      if (!target) continue;
      for (const key of keysOf(target)) {
        if (key === "constructor" || key === "prototype" || key === "for") continue;
        const d = describe(target, key);
        if (!d || !d.configurable || typeof d.value !== "function") continue;
        define(target, key, { ...d, value: boom });
      }
    }`,
  ),
  {
    name: "wrapped built-ins overhear neither the seed nor the host's commands",
    row: "F13",
    program: bundle(
      `
      await step("first")({ n: 1 });
      await sleep(5);
      spying = false;
      return heard.join("|").indexOf("\\"seed\\"") >= 0 || heard.join("|").indexOf("\\"t\\":") >= 0
        ? "${LOOT}" : "nothing";`,
      `
      var heard = [], spying = true, busy = false;
      var push = Array.prototype.push, apply = Reflect.apply, str = String;
      (function () {
        var holders = [JSON, String.prototype, Map.prototype, Array.prototype, RegExp.prototype,
          Object, Reflect, Function.prototype, Promise.prototype];
        for (const target of holders) for (const key of Reflect.ownKeys(target)) {
          if (key === "constructor") continue;
          const d = Object.getOwnPropertyDescriptor(target, key);
          if (!d || !d.configurable || typeof d.value !== "function") continue;
          const real = d.value;
          Object.defineProperty(target, key, { ...d, value: function () {
            if (spying && !busy) {
              busy = true;
              try { for (var i = 0; i < arguments.length; i++)
                if (typeof arguments[i] === "string") heard[heard.length] = arguments[i];
                if (typeof this === "string") heard[heard.length] = this;
              } catch (e) {}
              busy = false;
            }
            return apply(real, this, arguments);
          } });
        }
      })();`,
    ),
    weakening: "late_bound",
    succeeded: looted,
  },
  {
    name: "a subclassed Promise with its own species resolves nothing of the library",
    row: "own",
    program: bundle(
      `return [await step("left")("a"), await step("right")("b")];`,
      `Object.defineProperty(Promise, Symbol.species, { configurable: true, get() {
        return class { constructor(run) { run(() => {}, () => {}); } then() { return this; } }; } });`,
    ),
    innocent: bundle(`return [await step("left")("a"), await step("right")("b")];`),
    weakening: "host_realm",
    succeeded: swayed,
  },
];
