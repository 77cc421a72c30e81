/** The list of scenarios, `test/scenarios/SCENARIOS.md`, is what is tested. */
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

/** The sections that name edge cases, and how many each has at least. */
const SECTIONS: readonly (readonly [name: string, rows: number])[] = [
  ["Edge cases and failure handling", 29],
  ["Terminal events from outside", 4],
  ["What returns 412", 3],
  ["Fence edge cases", 10],
  ["Consume after commit", 6],
  ["Event posting edge cases", 15],
  ["Out-of-band writers", 5],
  ["Run-ahead", 8],
  ["Run-ahead and turbo edge cases", 14],
  ["Why turbo is safe", 7],
  ["`maxRetries: 0`", 4],
  ["Routing edge cases", 8],
  ["Queue edge cases", 11],
  ["Run lifecycle edge cases", 17],
  ["Fan-out edge cases", 11],
  ["The re-send rule", 4],
  ["Step edge cases", 12],
  ["Hooks", 5],
  ["Hook edge cases", 7],
  ["Timers and waits", 10],
  ["Timer failure and recovery", 8],
  ["Timer edge cases", 4],
  ["The live event feed and polling", 9],
  ["Bugs found and fixed", 14],
];

interface Row {
  readonly section: string;
  readonly scenario: string;
  /** Null: it cannot come to pass here, and `title` says why. */
  readonly file: string | null;
  readonly title: string;
}

const text = readFileSync("test/scenarios/SCENARIOS.md", "utf8");

function rowsIn(markdown: string): Row[] {
  const rows: Row[] = [];
  let section = "";
  for (const line of markdown.split("\n")) {
    if (line.startsWith("## ")) section = line.slice(3).trim();
    if (!line.startsWith("| ") || /^\| (-+|scenario) /.test(line)) continue;
    const [scenario = "", file = "", title = ""] = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    rows.push({ section, scenario, file: file === "—" ? null : file.replaceAll("`", ""), title });
  }
  return rows;
}

/** Whether a test, or a row of a table of tests, has exactly this title. */
function hasTest(source: string, title: string): boolean {
  const literal = JSON.stringify(title).replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`[([]\\s*${literal}\\s*[,\\]]`).test(source);
}

const rows = rowsIn(text);

describe("the list of scenarios", () => {
  it.each(SECTIONS)("section %s has its rows", (name, count) => {
    expect(rows.filter(({ section }) => section === name).length).toBeGreaterThanOrEqual(count);
  });

  it("has no other sections, and no scenario twice in one", () => {
    expect([...new Set(rows.map(({ section }) => section))]).toEqual(
      SECTIONS.map(([name]) => name),
    );
    const names = rows.map(({ section, scenario }) => `${section}: ${scenario}`);
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });

  it("names for each a test that is there by its title", () => {
    const sources = new Map<string, string>();
    const missing = rows.filter(({ file, title }) => {
      if (file === null) return title.length < 20;
      if (!sources.has(file)) sources.set(file, existsSync(file) ? readFileSync(file, "utf8") : "");
      return !hasTest(sources.get(file) ?? "", title);
    });
    expect(missing).toEqual([]);
  });
});
