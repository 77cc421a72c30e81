/**
 * Text from a heap as data of the host: what every reader of such text does before it trusts any
 * of it.
 *
 * Text is bounded in bytes, depth and count before it is parsed; after that every field is named,
 * typed and bounded, and nothing else may be there. The result shares no object with what was
 * parsed, so no key of a guest's choosing gets any further.
 */
import type { ConsoleLine } from "../engine/ports/sandbox.ts";

/** The guest wrote what its library never writes. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Reports nest no deeper: report, list, ask, list of changes, change. */
const DEPTH_MAX = 5;
/** Commas and opening brackets of one report; an ask has about ten. */
const ITEMS_MAX = 500_000;
export const ID_CHARS_MAX = 64;
export const NAME_CHARS_MAX = 1024;
/** The last instant that a Date can name, epoch ms. */
export const TIME_MS_MAX = 8.64e15;
const LEVELS = ["debug", "log", "info", "warn", "error"] as const;

export function parsed(text: string): unknown {
  checkShape(text);
  try {
    return JSON.parse(text);
  } catch {
    throw new Violation("it is no JSON");
  }
}

/** Bounds what a parse of the text can build, before it is parsed. */
function checkShape(text: string): void {
  let depth = 0;
  let items = 0;
  let isInString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (isInString) {
      if (char === BACKSLASH) i++;
      else if (char === QUOTE) isInString = false;
    } else if (char === QUOTE) {
      isInString = true;
    } else if (char === COMMA) {
      items++;
    } else if (char === BRACKET || char === BRACE) {
      items++;
      depth++;
      if (depth > DEPTH_MAX) throw new Violation("it nests too deep");
    } else if (char === BRACKET_END || char === BRACE_END) {
      depth--;
    }
  }
  if (items > ITEMS_MAX) throw new Violation("it has too many items");
}
const QUOTE = 0x22;
const COMMA = 0x2c;
const BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const BRACKET_END = 0x5d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;

export function consoleLineIn(value: unknown): ConsoleLine {
  const { level, text } = fields(value, ["level", "text"]);
  const known = LEVELS.find((name) => name === level);
  if (known === undefined) throw new Violation("a console line has a known level");
  return { level: known, text: string(text, Infinity) };
}

export function object(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Violation("it is an object");
  }
  return value as Record<string, unknown>;
}

/** An object with exactly these keys of its own. `__proto__` is a key like any other here. */
export function fields<K extends string>(value: unknown, keys: readonly K[]): Record<K, unknown> {
  const given = object(value);
  if (
    Object.keys(given).length !== keys.length ||
    !keys.every((key) => Object.hasOwn(given, key))
  ) {
    throw new Violation(`it has exactly the fields ${keys.join(", ")}`);
  }
  return given;
}

export function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Violation("it is a list");
  return value;
}

export function string(value: unknown, charsMax: number): string {
  if (typeof value !== "string" || value.length > charsMax) {
    throw new Violation("it is a text of an allowed length");
  }
  return value;
}

export function filled(value: unknown, charsMax: number): string {
  const text = string(value, charsMax);
  if (text === "") throw new Violation("the text is not empty");
  return text;
}

export function nameIn(value: unknown): string {
  return filled(value, NAME_CHARS_MAX);
}

export function idIn(value: unknown): string {
  return filled(value, ID_CHARS_MAX);
}

export function flag(value: unknown): boolean {
  if (typeof value !== "boolean") throw new Violation("it is true or false");
  return value;
}

export function integer(value: unknown, max: number): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > max) {
    throw new Violation("it is a whole number in range");
  }
  return value as number;
}

export function ordinal(value: unknown): number {
  return integer(value, Number.MAX_SAFE_INTEGER);
}
