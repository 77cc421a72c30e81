/**
 * What is wrong with a tenant's source, each with its place, and how the tools' own errors are read.
 *
 * Owns the form of a refused build. All problems of one build are reported together.
 */
import { SourceMap } from "node:module";
import { stripVTControlCharacters } from "node:util";
import type { Message } from "esbuild";
import { BatonError } from "../../engine/errors.ts";

/** Where something is in the source as its author wrote it; line and column from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface Problem extends Place {
  readonly message: string;
}

/** The refusal of a build: one line per problem, and the problems as data in `details`. */
export function buildRefused(problems: readonly Problem[]): BatonError {
  const lines = problems.map((one) => `${one.file}:${one.line}:${one.column}: ${one.message}`);
  const { file, line, column } = problems[0] ?? NOWHERE;
  return new BatonError("BUNDLE_REFUSED", lines.join("\n"), { file, line, column, problems });
}

const NOWHERE: Place = { file: "", line: 0, column: 0 };

/** Reads the text that swc throws: each diagnostic is a line and a box that names the place. */
export function problemsOfSwc(error: unknown, file: string): Problem[] {
  const text = stripVTControlCharacters(error instanceof Error ? error.message : String(error));
  const found: Problem[] = [];
  for (const match of text.matchAll(/^\s*[x×]\s+(.+)\n\s*,-.*\n((?:.*\n)*?)\s*`-/gm)) {
    found.push({ file, ...markedPlace(match[2] ?? ""), message: match[1] ?? "" });
  }
  if (found.length > 0) return found;
  return [{ file, line: 1, column: 1, message: text.split("\n")[0] ?? "cannot be transformed" }];
}

/** The box shows numbered lines; the one with a mark under it is meant. */
function markedPlace(box: string): { line: number; column: number } {
  let line = 1;
  for (const text of box.split("\n")) {
    const numbered = /^\s*(\d+) \|/.exec(text);
    if (numbered !== null) line = Number(numbered[1]);
    const mark = /^\s*: (\s*)[\^|,]/.exec(text);
    if (mark !== null) return { line, column: (mark[1] ?? "").length + 1 };
  }
  return { line, column: 1 };
}

/** esbuild's messages, with places in transformed files traced back to the source. */
export function problemsOfEsbuild(
  messages: readonly Message[],
  mapOf: (file: string) => string | undefined,
): Problem[] {
  return messages.map((message) => {
    const at = message.location;
    if (at === null) return { ...NOWHERE, message: message.text };
    const file = at.file.slice(at.namespace === "" ? 0 : at.file.indexOf(":") + 1);
    return { ...sourcePlace(file, at.line, at.column, mapOf(at.file)), message: message.text };
  });
}

function sourcePlace(file: string, line: number, column: number, map: string | undefined): Place {
  if (map === undefined) return { file, line, column: column + 1 };
  const payload = JSON.parse(map) as ConstructorParameters<typeof SourceMap>[0];
  const entry = new SourceMap(payload).findEntry(line - 1, column);
  if (!("originalLine" in entry)) return { file, line, column: column + 1 };
  return { file, line: entry.originalLine + 1, column: entry.originalColumn + 1 };
}
