/**
 * Reads what guests write. The only place where text from a heap becomes data of the host.
 *
 * Text is bounded in bytes, depth and count before it is parsed; after that every field is named,
 * typed and bounded, and nothing else may be there. The result shares no object with what was
 * parsed, so no key of a guest's choosing gets any further.
 *
 * S14 An id that the host takes over is one that it computed itself, at the position the guest
 *     named, or one that it already holds.
 */
import { RUN_ERROR_CODES } from "../engine/errors.ts";
import type { RunErrorCode } from "../engine/errors.ts";
import type { ConsoleLine, Divergence } from "../engine/ports/sandbox.ts";
import type { Slot } from "../engine/slots.ts";
import type { Ask, Registered, Report } from "./protocol.ts";

/** The guest wrote what its library never writes. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Reports nest no deeper: report, list, ask, list of changes, change. */
const DEPTH_MAX = 5;
/** Commas and opening brackets of one report; an ask has about ten. */
const ITEMS_MAX = 500_000;
const ID_CHARS_MAX = 64;
const NAME_CHARS_MAX = 1024;
const TOKEN_CHARS_MAX = 4096;
const ATTRIBUTE_KEY_CHARS_MAX = 256;
const ATTRIBUTE_VALUE_CHARS_MAX = 8192;
const ATTRIBUTES_MAX = 64;
const REGISTERED_MAX = 10_000;
const DIVERGENCE_CHARS_MAX = 16_384;
/** The last instant that a Date can name, epoch ms. */
const TIME_MS_MAX = 8.64e15;
const LEVELS = ["debug", "log", "info", "warn", "error"] as const;

/** A report as the guest library writes them. Throws `Violation`. */
export function reportIn(text: string): Report {
  const report = fields(parsed(text), [
    "asked",
    "closed",
    "awaited",
    "awaitedConflicts",
    "done",
    "console",
    "drawn",
  ]);
  return {
    asked: list(report["asked"]).map(askIn),
    closed: list(report["closed"]).map(idIn),
    awaited: list(report["awaited"]).map(idIn),
    awaitedConflicts: list(report["awaitedConflicts"]).map(idIn),
    done: doneIn(report["done"]),
    console: list(report["console"]).map(consoleLineIn),
    drawn: integer(report["drawn"], Number.MAX_SAFE_INTEGER),
  };
}

/** What the guest says about the event at `slot`. Throws `Violation`. */
export function divergenceIn(text: string, slot: Slot): Divergence {
  const { diverged } = fields(parsed(text), ["diverged"]);
  const { found, expected } = fields(diverged, ["slot", "found", "expected"]);
  return {
    slot,
    found: string(found, DIVERGENCE_CHARS_MAX),
    expected: string(expected, DIVERGENCE_CHARS_MAX),
  };
}

/** Throws `Violation`. */
export function registeredIn(text: string): Registered {
  const { workflows, steps } = fields(parsed(text), ["workflows", "steps"]);
  return { workflows: names(workflows), steps: names(steps) };
}

export function isRunErrorCode(code: string | null): code is RunErrorCode {
  return RUN_ERROR_CODES.some((known) => known === code);
}

function parsed(text: string): unknown {
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

function askIn(value: unknown): Ask {
  const kind = object(value)["k"];
  switch (kind) {
    case "step":
      return stepIn(value);
    case "wait": {
      const { n, id, at } = fields(value, ["k", "n", "id", "at"]);
      return { k: "wait", n: ordinal(n), id: idIn(id), at: integer(at, TIME_MS_MAX) };
    }
    case "hook":
      return hookIn(value);
    case "attr": {
      const { n, id, changes } = fields(value, ["k", "n", "id", "changes"]);
      return { k: "attr", n: ordinal(n), id: idIn(id), changes: changesIn(changes) };
    }
    case "dispose": {
      const { n, id } = fields(value, ["k", "n", "id"]);
      if (n !== null) throw new Violation("a disposal has no ordinal");
      return { k: "dispose", n: null, id: idIn(id) };
    }
    default:
      throw new Violation("an ask is of a known kind");
  }
}

function stepIn(value: unknown): Ask {
  const isError = Object.hasOwn(object(value), "error");
  const step = fields(value, ["k", "n", "id", "name", isError ? "error" : "input"]);
  const asked = {
    k: "step",
    n: ordinal(step["n"]),
    id: idIn(step["id"]),
    name: nameIn(step["name"]),
  } as const;
  return isError
    ? { ...asked, error: string(step["error"], Infinity) }
    : { ...asked, input: string(step["input"], Infinity) };
}

function hookIn(value: unknown): Ask {
  const hook = fields(value, [
    "k",
    "n",
    "id",
    "token",
    "metadata",
    "webhook",
    "system",
    "force",
    "retentionMs",
    "conflict",
  ]);
  return {
    k: "hook",
    n: ordinal(hook["n"]),
    id: idIn(hook["id"]),
    token: filled(hook["token"], TOKEN_CHARS_MAX),
    metadata: hook["metadata"] === null ? null : string(hook["metadata"], Infinity),
    webhook: flag(hook["webhook"]),
    system: flag(hook["system"]),
    force: flag(hook["force"]),
    retentionMs: integer(hook["retentionMs"], TIME_MS_MAX),
    conflict: flag(hook["conflict"]),
  };
}

function changesIn(value: unknown): { key: string; value: string | null }[] {
  const changes = list(value);
  if (changes.length < 1 || changes.length > ATTRIBUTES_MAX) {
    throw new Violation("an attribute write has a number of changes that is allowed");
  }
  return changes.map((entry) => {
    const { key, value } = fields(entry, ["key", "value"]);
    return {
      key: filled(key, ATTRIBUTE_KEY_CHARS_MAX),
      value: value === null ? null : string(value, ATTRIBUTE_VALUE_CHARS_MAX),
    };
  });
}

function doneIn(value: unknown): Report["done"] {
  if (value === null) return null;
  const { ok, text, code } = fields(value, ["ok", "text", "code"]);
  return {
    ok: flag(ok),
    text: string(text, Infinity),
    code: code === null ? null : string(code, ID_CHARS_MAX),
  };
}

function consoleLineIn(value: unknown): ConsoleLine {
  const { level, text } = fields(value, ["level", "text"]);
  const known = LEVELS.find((name) => name === level);
  if (known === undefined) throw new Violation("a console line has a known level");
  return { level: known, text: string(text, Infinity) };
}

function names(value: unknown): string[] {
  const all = list(value);
  if (all.length > REGISTERED_MAX) throw new Violation("it registers too many names");
  return all.map(nameIn);
}

function object(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Violation("it is an object");
  }
  return value as Record<string, unknown>;
}

/** An object with exactly these keys of its own. `__proto__` is a key like any other here. */
function fields<K extends string>(value: unknown, keys: readonly K[]): Record<K, unknown> {
  const given = object(value);
  if (
    Object.keys(given).length !== keys.length ||
    !keys.every((key) => Object.hasOwn(given, key))
  ) {
    throw new Violation(`it has exactly the fields ${keys.join(", ")}`);
  }
  return given;
}

function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Violation("it is a list");
  return value;
}

function string(value: unknown, charsMax: number): string {
  if (typeof value !== "string" || value.length > charsMax) {
    throw new Violation("it is a text of an allowed length");
  }
  return value;
}

function filled(value: unknown, charsMax: number): string {
  const text = string(value, charsMax);
  if (text === "") throw new Violation("the text is not empty");
  return text;
}

function nameIn(value: unknown): string {
  return filled(value, NAME_CHARS_MAX);
}

function idIn(value: unknown): string {
  return filled(value, ID_CHARS_MAX);
}

function flag(value: unknown): boolean {
  if (typeof value !== "boolean") throw new Violation("it is true or false");
  return value;
}

function integer(value: unknown, max: number): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > max) {
    throw new Violation("it is a whole number in range");
  }
  return value as number;
}

function ordinal(value: unknown): number {
  return integer(value, Number.MAX_SAFE_INTEGER);
}
