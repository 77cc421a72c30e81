/**
 * Lines of built programs, traced back to the source as its author wrote it.
 *
 * Owns the one form in which such lines are told (`bundle.js:3:7`, `steps.js:3:7`). Runs where the
 * bundle was built, beside its maps: a server keeps none, and would not trust one.
 */
import { SourceMap } from "node:module";

export interface BundleMaps {
  /** Source maps as JSON. */
  readonly workflowMap: string;
  readonly stepMap: string;
}

const PLACE = /\b(bundle|steps)\.js:(\d+):(\d+)/g;
/** Frames of the guest library, which say nothing to the author. */
const LIBRARY_FRAME = /^\s*at .*\(baton:guest:\d+:\d+\)$/;

/** The text with each place in a built program put in terms of the source. */
export function withSourcePlaces(text: string, maps: BundleMaps): string {
  const lines = text.split("\n").filter((line) => !LIBRARY_FRAME.test(line));
  const known = new Map<string, SourceMap>();
  const mapOf = (program: string): SourceMap => {
    let map = known.get(program);
    if (map === undefined) {
      const json = program === "bundle" ? maps.workflowMap : maps.stepMap;
      map = new SourceMap(JSON.parse(json) as ConstructorParameters<typeof SourceMap>[0]);
      known.set(program, map);
    }
    return map;
  };
  return lines
    .join("\n")
    .replaceAll(PLACE, (place, program: string, line: string, column: string) => {
      const entry = mapOf(program).findEntry(Number(line) - 1, Number(column) - 1);
      if (!("originalLine" in entry)) return place;
      return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
    });
}
