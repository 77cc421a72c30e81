/**
 * Reads what workflow heaps write: reports, divergences and lists of names.
 *
 * S14  An id that the host takes over is one that it computed itself, at the position the guest
 *     named, or one that it already holds.
 */
import { RUN_ERROR_CODES } from "../engine/errors.ts";
import type { RunErrorCode } from "../engine/errors.ts";
import type { Divergence } from "../engine/ports/sandbox.ts";
import type { Slot } from "../engine/slots.ts";
import {
  ID_CHARS_MAX,
  TIME_MS_MAX,
  Violation,
  consoleLineIn,
  fields,
  filled,
  flag,
  idIn,
  integer,
  list,
  nameIn,
  object,
  ordinal,
  parsed,
  string,
} from "./guest-text.ts";
import type { Ask, Registered, Report } from "./protocol.ts";

const TOKEN_CHARS_MAX = 4096;
const ATTRIBUTE_KEY_CHARS_MAX = 256;
const ATTRIBUTE_VALUE_CHARS_MAX = 8192;
const ATTRIBUTES_MAX = 64;
const REGISTERED_MAX = 10_000;
const DIVERGENCE_CHARS_MAX = 16_384;
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

function names(value: unknown): string[] {
  const all = list(value);
  if (all.length > REGISTERED_MAX) throw new Violation("it registers too many names");
  return all.map(nameIn);
}
