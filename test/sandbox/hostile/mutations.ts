/** Changes to a message: in its structure, or in its bytes. */
import type { Choose } from "../chooser.ts";

export function mutated(text: string, choose: Choose): string {
  let changed = text;
  for (let count = choose(3) === 0 ? 2 : 1; count > 0; count--) {
    changed = choose(5) < 3 ? structureMutated(changed, choose) : bytesMutated(changed, choose);
  }
  return changed;
}

const STRANGE: readonly (readonly [string, unknown])[] = [
  ["null", null],
  ["true", true],
  ["-1", -1],
  ["0.5", 0.5],
  ["1e15", 1e15],
  ["empty", ""],
  ["long", "x".repeat(3000)],
  ["list", []],
  ["object", {}],
  ["proto", JSON.parse(`{"__proto__":{"polluted":true}}`)],
  ["deep", [[[[[[[[1]]]]]]]]],
  ["length", { length: 3 }],
  ["surrogate", "\ud800"],
  ["name", "__proto__"],
  ["constructor", "constructor"],
  ["nul", "a\u0000b"],
];

function structureMutated(text: string, choose: Choose): string {
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return bytesMutated(text, choose);
  }
  const holders: Record<string, unknown>[] = [];
  const visit = (value: unknown) => {
    if (typeof value !== "object" || value === null) return;
    holders.push(value as Record<string, unknown>);
    for (const key of Object.keys(value)) visit((value as Record<string, unknown>)[key]);
  };
  visit(root);
  const holder = holders[choose(Math.max(1, holders.length))];
  const keys = holder === undefined ? [] : Object.keys(holder);
  const key = keys[choose(Math.max(1, keys.length))];
  if (holder === undefined || key === undefined) return bytesMutated(text, choose);
  const strange = STRANGE[choose(STRANGE.length)]?.[1];
  switch (choose(7)) {
    case 0:
      delete holder[key];
      break;
    case 1:
      Object.defineProperty(holder, choose(2) ? "__proto__" : "tenantId", {
        value: strange,
        enumerable: true,
        configurable: true,
        writable: true,
      });
      break;
    case 2: {
      // A value from elsewhere in the message: ids under other kinds, lists in place of texts.
      const from = holders[choose(holders.length)] ?? {};
      const fromKeys = Object.keys(from);
      holder[key] = structuredClone(from[fromKeys[choose(Math.max(1, fromKeys.length))] ?? ""]);
      break;
    }
    case 3:
      if (Array.isArray(holder)) holder.push(structuredClone(holder[0]) as never);
      else holder[key] = [holder[key], holder[key]];
      break;
    case 4:
      if (typeof holder[key] === "number") holder[key] += choose(5) - 2;
      else if (typeof holder[key] === "string") holder[key] = retyped(holder[key], choose);
      else holder[key] = strange;
      break;
    default:
      holder[key] = strange;
  }
  return JSON.stringify(root);
}

function retyped(text: string, choose: Choose): string {
  const at = choose(text.length + 1);
  const kinds = ["step_", "wait_", "hook_", "attr_", "wrun_"];
  if (/^(step|wait|hook|attr)_/.test(text) && choose(2) === 0) {
    return (kinds[choose(kinds.length)] ?? "") + text.slice(5);
  }
  return (
    text.slice(0, at) +
    String.fromCharCode(choose(2) ? 48 + choose(40) : choose(65536)) +
    text.slice(at + 1)
  );
}

function bytesMutated(text: string, choose: Choose): string {
  const at = choose(text.length + 1);
  const end = Math.min(text.length, at + 1 + choose(12));
  switch (choose(6)) {
    case 0:
      return text.slice(0, at) + text.slice(end);
    case 1:
      return text.slice(0, end) + text.slice(at);
    case 2:
      return text.slice(0, at);
    case 3:
      return text.slice(0, at) + String.fromCharCode(choose(65536)) + text.slice(at + 1);
    case 4:
      return text.slice(0, at) + (`{}[]",:\\0-e.`[choose(13)] ?? "") + text.slice(at + choose(2));
    default: {
      const from = choose(text.length + 1);
      return text.slice(0, at) + text.slice(from, from + choose(40)) + text.slice(at);
    }
  }
}
