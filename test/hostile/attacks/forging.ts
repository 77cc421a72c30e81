/**
 * A heap that the attacker owns whole, as if the engine itself had been broken: every report is
 * his to write. What is left is the host's reading of it.
 */
import type { Attack, Observation } from "../attack.ts";
import { LOOT, bundle } from "../attack.ts";

/** Answers commands with the text that `report` evaluates to, given how many came before. */
function captive(report: string, event = `""`, extra = ""): string {
  return `var __baton_guest = { boot: function (hostCall) {
    var reports = 0; ${extra}
    globalThis.__private_workflows = { set: function () {} };
    return function dispatch(command) {
      var c = JSON.parse(command);
      if (c.t === "registered") return '{"workflows":[],"steps":[]}';
      if (c.t === "event") return ${event};
      if (c.t !== "report" && c.t !== "open") return "";
      reports++;
      return ${report};
    };
  } };`;
}

/** A report with these fields instead of the ones of a heap that asked for nothing. */
function reporting(fields: string): string {
  return captive(`JSON.stringify(Object.assign({ asked: [], closed: [], awaited: [],
    awaitedConflicts: [], done: null, console: [], drawn: 0 }, ${fields}))`);
}

/** An answer of the heap got through to where the engine would act on it. */
function accepted(seen: Observation): boolean {
  return seen.run.thrown !== null || seen.run.passes.some((pass) => pass.kind === "quiet");
}

function forged(name: string, library: string): Attack {
  return {
    name,
    row: "F16",
    program: bundle(""),
    library,
    weakening: "trusting_border",
    succeeded: accepted,
  };
}

const ID = "step_01HF7YAT00041061050R3GG28A";
const STEP = `{ k: "step", n: 1, id: "${ID}", name: "step//./a//b", input: "[1]" }`;

export const forgingAttacks: readonly Attack[] = [
  forged("an id that nobody drew is refused", reporting(`{ asked: [${STEP}], drawn: 1 }`)),
  forged(
    "an ordinal far ahead is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { n: 1e15 })], drawn: 1e15 }`),
  ),
  forged(
    "an ordinal of zero is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { n: 0 })], drawn: 0 }`),
  ),
  forged(
    "a negative ordinal is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { n: -1 })], drawn: 1 }`),
  ),
  forged(
    "a fractional ordinal is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { n: 1.5 })], drawn: 1 }`),
  ),
  forged(
    "an unknown kind is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { k: "run" })], drawn: 1 }`),
  ),
  forged(
    "a kind named __proto__ is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { k: "__proto__" })], drawn: 1 }`),
  ),
  forged("another tenant's name in a report is refused", reporting(`{ tenantId: "victor" }`)),
  forged(
    "another run's name in an ask is refused",
    reporting(`{ asked: [Object.assign(${STEP}, { runId: "wrun_x" })], drawn: 1 }`),
  ),
  forged("closing what was never open is refused", reporting(`{ closed: ["${ID}"] }`)),
  forged(
    "waiting for a hook that is not open is refused",
    reporting(`{ awaited: ["hook_01HF7YAT00041061050R3GG28A"] }`),
  ),
  forged(
    "a conflict of a hook that is not open is refused",
    reporting(`{ awaitedConflicts: ["hook_01HF7YAT00041061050R3GG28A"] }`),
  ),
  forged(
    "disposing of a hook that is not open is refused",
    reporting(`{ asked: [{ k: "dispose", n: null, id: "hook_01HF7YAT00041061050R3GG28A" }] }`),
  ),
  forged("draws that were not asked for are refused", reporting(`{ drawn: 5 }`)),
  forged(
    "an unknown error code is refused",
    reporting(`{ done: { ok: false, text: "[1]", code: "ALL_FINE" } }`),
  ),
  forged(
    "a success with an error code is refused",
    reporting(`{ done: { ok: true, text: "[1]", code: "USER_ERROR" } }`),
  ),
  forged(
    "an outcome that is no text is refused",
    reporting(`{ done: { ok: true, text: { toString: 1 }, code: null } }`),
  ),
  forged(
    "an own __proto__ in a report is refused",
    captive(
      `'{"asked":[],"closed":[],"awaited":[],"awaitedConflicts":[],"done":null,"console":[],"drawn":0,"__proto__":{"polluted":true}}'`,
    ),
  ),
  forged("a report whose list is an object is refused", reporting(`{ asked: { length: 1 } }`)),
  forged(
    "an unknown console level is refused",
    reporting(`{ console: [{ level: "fatal", text: "x" }] }`),
  ),
  forged(
    "console lines past the limit are refused",
    reporting(`{ console: [{ level: "log", text: "x".repeat(1e6) }] }`),
  ),
  forged(
    "a million empty console lines are refused",
    reporting(`{ console: new Array(1000000).fill({ level: "log", text: "" }) }`),
  ),
  forged(
    "a deep report is refused",
    captive(`'{"asked":' + "[".repeat(100000) + "]".repeat(100000) + '}'`),
  ),
  forged("a list in place of a report is refused", captive(`"[]"`)),
  forged(
    "an infinite number is refused",
    captive(
      `'{"asked":[],"closed":[],"awaited":[],"awaitedConflicts":[],"done":null,"console":[],"drawn":1e999}'`,
    ),
  ),
  forged(
    "more open operations than allowed are refused whoever counts",
    reporting(`{ asked: new Array(5000).fill(${STEP}), drawn: 5000 }`),
  ),
  {
    ...forged(
      "a payload over the limit is refused whoever encodes",
      reporting(
        `{ done: { ok: true, text: "[" + JSON.stringify("x".repeat(1e6)) + "]", code: null } }`,
      ),
    ),
    row: "E7",
  },
  {
    name: "a heap that keeps talking to the host function gets nowhere",
    row: "F16",
    program: bundle(""),
    library: captive(
      `(call(), '{"asked":[],"closed":[],"awaited":[],"awaitedConflicts":[],"done":{"ok":true,"text":"[\\\\"${LOOT}\\\\"]","code":null},"console":[],"drawn":0}')`,
      `""`,
      `var got = []; function call() {
        var names = ["clock_set", "clock_read", "__proto__", "constructor", "", "exit", "x".repeat(1e6)];
        var values = [NaN, Infinity, -1, 1e300, {}, [], Symbol.iterator, 1n, "\\u0000", { toString() { throw 1; } }, undefined];
        names.forEach((n) => values.forEach((v) => {
          try { var r = hostCall(n, v); if (r !== undefined) got.push(r); } catch (e) { }
          try { hostCall.call(v, v); hostCall.apply(null, new Array(50000).fill(n)); } catch (e) { }
        }));
        if (got.length === 0 && hostCall.constructor.constructor("return typeof process")() !== "object") throw new Error("nothing");
      }`,
    ),
    weakening: "trusting_border",
    succeeded: accepted,
  },
];
