/**
 * Reads what step heaps write (step-protocol.ts): reports and lists of steps.
 *
 * S19  A call has the number that comes next; one that the host was not told of is never settled.
 */
import {
  NAME_CHARS_MAX,
  TIME_MS_MAX,
  Violation,
  consoleLineIn,
  fields,
  filled,
  flag,
  integer,
  list,
  nameIn,
  object,
  parsed,
  string,
} from "./guest-text.ts";
import type { RegisteredSteps, StepCall, StepReport } from "./step-protocol.ts";

const STEPS_MAX = 10_000;
const URL_CHARS_MAX = 64 << 10;
const HEADERS_MAX = 256;
const HEADER_CHARS_MAX = 64 << 10;
const CHANGES_MAX = 64;

/** A step's report; `nextCall`: the number that its first call must have. Throws `Violation`. */
export function stepReportIn(text: string, nextCall: number): StepReport {
  const report = fields(parsed(text), ["calls", "cancelled", "done", "console"]);
  const calls = list(report["calls"]).map(callIn);
  calls.forEach((call, i) => {
    if (call.n !== nextCall + i) throw new Violation("calls are numbered densely");
  });
  const count = nextCall + calls.length;
  return {
    calls,
    cancelled: list(report["cancelled"]).map((n) => integer(n, count - 1)),
    done: doneIn(report["done"]),
    console: list(report["console"]).map(consoleLineIn),
  };
}

/** What a bundle's step side registered. Throws `Violation`. */
export function registeredStepsIn(text: string): RegisteredSteps {
  const steps = list(fields(parsed(text), ["steps"]).steps);
  if (steps.length > STEPS_MAX) throw new Violation("it registers too many steps");
  return {
    steps: steps.map((entry) => {
      const { id, maxRetries } = fields(entry, ["id", "maxRetries"]);
      return {
        id: nameIn(id),
        maxRetries: maxRetries === null ? null : integer(maxRetries, Number.MAX_SAFE_INTEGER),
      };
    }),
  };
}

function doneIn(value: unknown): StepReport["done"] {
  if (value === null) return null;
  const { ok, text, isFatal, retryAt } = fields(value, ["ok", "text", "isFatal", "retryAt"]);
  return {
    ok: flag(ok),
    text: string(text, Infinity),
    isFatal: flag(isFatal),
    retryAt: retryAt === null ? null : integer(retryAt, TIME_MS_MAX),
  };
}

function callIn(value: unknown): StepCall {
  const call = object(value);
  const n = integer(call["n"], Number.MAX_SAFE_INTEGER);
  switch (call["k"]) {
    case "timer": {
      const { ms } = fields(value, ["k", "n", "ms"]);
      if (typeof ms !== "number" || !(ms >= 0)) throw new Violation("a timer has a delay");
      return { k: "timer", n, ms };
    }
    case "fetch":
      return fetchIn(value, n);
    case "fetch_send": {
      const { of, bytes } = fields(value, ["k", "n", "of", "bytes"]);
      return { k: "fetch_send", n, of: earlier(of, n), bytes: maybe(bytes) };
    }
    case "fetch_read":
    case "fetch_drop": {
      const { of } = fields(value, ["k", "n", "of"]);
      return { k: call["k"], n, of: earlier(of, n) };
    }
    case "stream_write": {
      const write = fields(value, ["k", "n", "stream", "bytes", "text"]);
      const { bytes, text } = write;
      return {
        k: "stream_write",
        n,
        stream: nameIn(write.stream),
        bytes: maybe(bytes),
        text: maybe(text),
      };
    }
    case "stream_close": {
      const { stream, error } = fields(value, ["k", "n", "stream", "error"]);
      return { k: "stream_close", n, stream: nameIn(stream), error: maybe(error) };
    }
    case "stream_read": {
      const { stream, index } = fields(value, ["k", "n", "stream", "index"]);
      return { k: "stream_read", n, stream: nameIn(stream), index: position(index) };
    }
    case "api": {
      const { op, args } = fields(value, ["k", "n", "op", "args"]);
      return { k: "api", n, op: nameIn(op), args: string(args, Infinity) };
    }
    case "attributes": {
      const { changes } = fields(value, ["k", "n", "changes"]);
      return { k: "attributes", n, changes: changesIn(changes) };
    }
    case "watch_abort": {
      const { stream, run } = fields(value, ["k", "n", "stream", "run"]);
      return { k: "watch_abort", n, stream: nameIn(stream), run: nameIn(run) };
    }
    default:
      throw new Violation("a call is of a known kind");
  }
}

function fetchIn(value: unknown, n: number): StepCall {
  const call = fields(value, ["k", "n", "url", "method", "headers", "redirect", "body", "uploads"]);
  const headers = list(call.headers);
  if (headers.length > HEADERS_MAX) throw new Violation("a request has too many headers");
  return {
    k: "fetch",
    n,
    url: string(call.url, URL_CHARS_MAX),
    method: string(call.method, NAME_CHARS_MAX),
    headers: headers.map((header) => {
      const [name, text, more] = list(header);
      if (more !== undefined) throw new Violation("a header is a name and a value");
      return [filled(name, HEADER_CHARS_MAX), string(text, HEADER_CHARS_MAX)] as const;
    }),
    redirect: string(call.redirect, NAME_CHARS_MAX),
    body: maybe(call.body),
    uploads: flag(call.uploads),
  };
}

/** The number of a call that was made before. */
function earlier(value: unknown, n: number): number {
  if (n === 0) throw new Violation("a call speaks of an earlier one");
  return integer(value, n - 1);
}

function changesIn(value: unknown): { key: string; value: string | null }[] {
  const changes = list(value);
  if (changes.length > CHANGES_MAX) throw new Violation("a write has too many attributes");
  return changes.map((entry) => {
    const change = fields(entry, ["key", "value"]);
    return { key: nameIn(change.key), value: maybe(change.value) };
  });
}

function maybe(value: unknown): string | null {
  return value === null ? null : string(value, Infinity);
}

/** An index, or one that counts from the end. */
function position(value: unknown): number {
  if (!Number.isSafeInteger(value)) throw new Violation("an index is a whole number");
  return value as number;
}
