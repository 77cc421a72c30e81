/** The guest's console: lines that wait for the next report, within a bound of bytes per pass. */
import { inspect } from "./inspect.ts";
import { arrayJoin, define, list, push, stringSlice } from "./primordials.ts";
import { utf8Bytes } from "./utf8.ts";

export type ConsoleLevel = "debug" | "log" | "info" | "warn" | "error";

export interface Line {
  readonly level: ConsoleLevel;
  readonly text: string;
}

export interface Console {
  limit(bytesPerPassMax: number): void;
  write(level: ConsoleLevel, values: readonly unknown[]): void;
  /** The lines since the last call. */
  takeLines(): readonly Line[];
}

const LEVELS: readonly ConsoleLevel[] = ["debug", "log", "info", "warn", "error"];
/** What a line costs beside its text, so that empty ones are bounded too. */
const LINE_BYTES = 16;
/** Kept free for the line that says that others were dropped. */
const MARK_BYTES = 64;
/** While a bundle loads, before its limit is known. */
const BYTES_MAX_AT_LOAD = 64 * 1024;

export function createConsole(): Console {
  let lines = list<Line>();
  let bytesMax = BYTES_MAX_AT_LOAD;
  let used = 0;
  let isFull = false;
  return {
    limit(bytesPerPassMax) {
      bytesMax = bytesPerPassMax;
    },
    write(level, values) {
      if (isFull) return;
      const left = bytesMax - MARK_BYTES - used;
      const text = textOf(values, left);
      const bytes = utf8Bytes(text) + LINE_BYTES;
      if (bytes <= left) {
        used += bytes;
        push(lines, { level, text });
        return;
      }
      isFull = true;
      if (bytesMax < MARK_BYTES) return;
      push(lines, { level: "warn", text: `console output past ${bytesMax} bytes was dropped` });
    },
    takeLines() {
      const taken = lines;
      lines = list();
      used = 0;
      isFull = false;
      return taken;
    },
  };
}

function textOf(values: readonly unknown[], charsMax: number): string {
  const parts = list<string>();
  let chars = 0;
  for (let i = 0; i < values.length && chars <= charsMax; i++) {
    const value = values[i];
    const text = typeof value === "string" ? stringSlice(value, 0, charsMax + 1) : inspect(value);
    chars += text.length + 1;
    push(parts, text);
  }
  return arrayJoin(parts, " ");
}

export function installConsole(scope: object, console: Console): void {
  const facade = {};
  for (let i = 0; i < LEVELS.length; i++) {
    const level = LEVELS[i]!;
    define(facade, level, (...values: unknown[]) => console.write(level, values));
  }
  define(facade, "trace", (...values: unknown[]) => console.write("debug", values));
  define(facade, "dir", (value: unknown) => console.write("log", [value]));
  define(facade, "table", (value: unknown) => console.write("log", [value]));
  define(facade, "assert", (holds: unknown, ...values: unknown[]) => {
    if (!holds) console.write("error", values.length === 0 ? ["assertion failed"] : values);
  });
  const quiet = ["group", "groupCollapsed", "groupEnd", "time", "timeEnd", "timeLog", "count"];
  for (let i = 0; i < quiet.length; i++) define(facade, quiet[i]!, () => undefined);
  define(scope, "console", facade, false);
}
