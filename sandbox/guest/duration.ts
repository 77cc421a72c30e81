/**
 * Durations and deadlines as tenants write them: milliseconds, a Date, or text in the grammar of
 * the `ms` package ("2 days", "1.5h", "500").
 */
import {
  DateConstructor,
  TypeErrorConstructor,
  dateValue,
  isFiniteNumber,
  isPrototypeOf,
  NumberOf,
  regExpExec,
  toLowerCase,
  createObject,
} from "./primordials.ts";

/** The last instant that a Date can hold, epoch ms. */
export const LAST_INSTANT_MS = 8.64e15;

const GRAMMAR = /^(-?\d*\.?\d+) *([a-z]+)?$/i;
const TEXT_CHARS_MAX = 100;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365.25 * DAY;

const UNITS = createObject(null) as Record<string, number | undefined>;
function unit(ms: number, ...names: string[]): void {
  for (let i = 0; i < names.length; i++) UNITS[names[i]!] = ms;
}
unit(1, "milliseconds", "millisecond", "msecs", "msec", "ms");
unit(SECOND, "seconds", "second", "secs", "sec", "s");
unit(MINUTE, "minutes", "minute", "mins", "min", "m");
unit(HOUR, "hours", "hour", "hrs", "hr", "h");
unit(DAY, "days", "day", "d");
unit(7 * DAY, "weeks", "week", "w");
unit(YEAR / 12, "months", "month", "mo");
unit(YEAR, "years", "year", "yrs", "yr", "y");

/** Milliseconds of a duration; a TypeError, which names `what`, for anything else. */
export function durationMs(value: unknown, what: string): number {
  const ms = typeof value === "string" ? msOfText(value) : value;
  if (typeof ms !== "number" || !isFiniteNumber(ms)) {
    throw new TypeErrorConstructor(
      `${what} takes a duration such as "30s", milliseconds, or a Date; got ${shown(value)}`,
    );
  }
  return ms;
}

/** The instant (epoch ms, whole) that a duration from `now`, or a Date, names. */
export function deadlineMs(value: unknown, now: number, what: string): number {
  const isDate =
    typeof value === "object" && value !== null && isPrototypeOf(DateConstructor.prototype, value);
  const at = isDate ? dateValue(value as Date) : now + durationMs(value, what);
  // A deadline that has passed is now: it still becomes an event of the log.
  const whole = at < 0 ? 0 : at - (at % 1) + (at % 1 > 0 ? 1 : 0);
  if (!isFiniteNumber(whole) || whole > LAST_INSTANT_MS) {
    throw new TypeErrorConstructor(`${what}: ${shown(value)} is no instant that a Date can hold`);
  }
  return whole;
}

function msOfText(text: string): number | null {
  if (text.length === 0 || text.length > TEXT_CHARS_MAX) return null;
  const match = regExpExec(GRAMMAR, text);
  if (match === null) return null;
  const ms = match[2] === undefined ? 1 : UNITS[toLowerCase(match[2])];
  return ms === undefined ? null : NumberOf(match[1]) * ms;
}

function shown(value: unknown): string {
  if (typeof value === "string") return value.length > 40 ? "a long text" : `"${value}"`;
  if (typeof value === "number") return `${value}`;
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  return isPrototypeOf(DateConstructor.prototype, value) ? "an invalid Date" : "an object";
}
