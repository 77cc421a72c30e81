/**
 * Values as text for console lines. Bounded in depth, entries and length; getters are shown, not
 * called.
 */
import {
  arrayJoin,
  dateIso,
  dateValue,
  functionText,
  getDescriptor,
  hasOwn,
  getPrototypeOf,
  isArray,
  isError,
  isFiniteNumber,
  jsonOf,
  list,
  mapForEach,
  ownKeysOf,
  push,
  setForEach,
  startsWith,
  stringSlice,
  StringOf,
  tagOf,
} from "./primordials.ts";

const DEPTH_MAX = 3;
const ENTRIES_MAX = 100;
const TEXT_CHARS_MAX = 10_000;

export function inspect(value: unknown, depth = 0): string {
  switch (typeof value) {
    case "string":
      return jsonOf(stringSlice(value, 0, TEXT_CHARS_MAX));
    case "bigint":
      return `${StringOf(value)}n`;
    case "symbol":
      return StringOf(value);
    case "function":
      return functionName(value);
    case "object":
      return value === null ? "null" : objectText(value, depth);
    default:
      return value === 0 && 1 / value < 0 ? "-0" : StringOf(value);
  }
}

function functionName(value: object): string {
  const name = getDescriptor(value, "name")?.value as unknown;
  const kind = startsWith(functionText(value), "class") ? "class" : "Function";
  return typeof name === "string" && name !== "" ? `[${kind} ${name}]` : `[${kind}]`;
}

function objectText(value: object, depth: number): string {
  try {
    if (isError(value)) return errorText(value);
    switch (tagOf(value)) {
      case "[object Date]":
        return isFiniteNumber(dateValue(value as Date)) ? dateIso(value as Date) : "Invalid Date";
      case "[object RegExp]":
        return StringOf(value);
      case "[object Promise]":
        return "Promise {}";
      default:
    }
    if (depth >= DEPTH_MAX) return isArray(value) ? "[Array]" : "[Object]";
    if (isArray(value)) return `[${entriesText(value, depth)}]`;
    const name = constructorName(value);
    const tag = tagOf(value);
    if (tag === "[object Map]" || tag === "[object Set]") return collectionText(value, tag, depth);
    return `${name === "Object" ? "" : `${name} `}{${entriesText(value, depth)}}`;
  } catch {
    return "[an object that cannot be shown]";
  }
}

function errorText(error: Error): string {
  const stack = getDescriptor(error, "stack")?.value as unknown;
  const title = `${StringOf(error.name)}: ${StringOf(error.message)}`;
  if (typeof stack !== "string" || stack === "") return title;
  return startsWith(stack, title) ? stack : `${title}\n${stack}`;
}

function collectionText(value: object, tag: string, depth: number): string {
  const parts = list<string>();
  const add = (text: () => string): void => {
    if (parts.length < ENTRIES_MAX) push(parts, text());
  };
  if (tag === "[object Map]") {
    mapForEach(value as Map<unknown, unknown>, (item, key) =>
      add(() => `${inspect(key, depth + 1)} => ${inspect(item, depth + 1)}`),
    );
    return `Map {${arrayJoin(parts, ", ")}}`;
  }
  setForEach(value as Set<unknown>, (item) => add(() => inspect(item, depth + 1)));
  return `Set {${arrayJoin(parts, ", ")}}`;
}

function entriesText(value: object, depth: number): string {
  const keys = ownKeysOf(value);
  const parts = list<string>();
  for (let i = 0; i < keys.length; i++) {
    if (parts.length >= ENTRIES_MAX) {
      push(parts, "…");
      break;
    }
    const key = keys[i]!;
    const descriptor = getDescriptor(value, key);
    if (descriptor === undefined || descriptor.enumerable !== true) continue;
    const text = hasOwn(descriptor, "value") ? inspect(descriptor.value, depth + 1) : "[Getter]";
    if (isArray(value)) push(parts, text);
    else push(parts, `${typeof key === "string" ? key : StringOf(key)}: ${text}`);
  }
  return arrayJoin(parts, ", ");
}

function constructorName(value: object): string {
  const prototype = getPrototypeOf(value);
  if (prototype === null) return "[no prototype]";
  const constructor = getDescriptor(prototype, "constructor")?.value as unknown;
  if (typeof constructor !== "function") return "Object";
  const name = getDescriptor(constructor, "name")?.value as unknown;
  return typeof name === "string" ? name : "Object";
}
