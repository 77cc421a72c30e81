/** The parts of the documents that follow from the code: invariants by number. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

export interface DocPart {
  readonly file: string;
  readonly name: string;
  readonly text: string;
}

interface Invariant {
  readonly number: string;
  readonly rule: string;
  readonly file: string;
}

const FOLDERS = ["engine", "sandbox", "worlds", "tenants"];

export function generatedParts(): readonly DocPart[] {
  return [{ file: "ARCHITECTURE.md", name: "invariants", text: invariantTable() }];
}

/** What stands in a document between its markers for a part; null if it has none. */
export function standingText({ file, name }: DocPart): string | null {
  const text = readFileSync(file, "utf8");
  const [, rest] = text.split(`<!-- generated: ${name} -->`);
  const [between] = rest?.split(`<!-- end: ${name} -->`) ?? [];
  return between === undefined ? null : between.trim();
}

function invariantTable(): string {
  const files = tracked();
  const tests = files.filter((file) => file.startsWith("test/") && file.endsWith(".ts"));
  const texts = new Map(tests.map((file) => [file, readFileSync(file, "utf8")]));
  const lines = ["| | rule | kept by | attacked by |", "| --- | --- | --- | --- |"];
  for (const { number, rule, file } of invariants(files)) {
    const citing = tests.filter((test) =>
      new RegExp(`\\b${number}\\b`).test(texts.get(test) ?? ""),
    );
    const attackers = citing.length > 0 ? citing.slice(0, 3) : mirrored(file);
    lines.push(`| ${number} | ${rule} | ${file} | ${attackers.join(", ")} |`);
  }
  return lines.join("\n");
}

function tracked(): string[] {
  return execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    encoding: "utf8",
  })
    .split("\n")
    .filter((file) => file.endsWith(".ts") && existsSync(file));
}

/** Of one number the file that says most counts: a contract and its keeper may both state it. */
function invariants(files: readonly string[]): Invariant[] {
  const byNumber = new Map<string, Invariant>();
  for (const file of files) {
    if (!FOLDERS.includes(file.split("/")[0] ?? "")) continue;
    for (const found of invariantsIn(file)) {
      const held = byNumber.get(found.number);
      if (held === undefined || found.rule.length > held.rule.length) {
        byNumber.set(found.number, found);
      }
    }
  }
  const order = (number: string) =>
    "ESPTW".indexOf(number.charAt(0)) * 1000 + Number(number.slice(1));
  return [...byNumber.values()].sort((a, b) => order(a.number) - order(b.number));
}

/** Numbered paragraphs of a file's header comment. */
function invariantsIn(file: string): Invariant[] {
  const [header = ""] = readFileSync(file, "utf8").split("*/");
  const found: Invariant[] = [];
  let current: { number: string; words: string[] } | null = null;
  const close = (): void => {
    if (current === null) return;
    const rule = current.words.join(" ").replaceAll("|", "\\|");
    found.push({ number: current.number, rule, file });
    current = null;
  };
  for (const line of header.split("\n")) {
    const start = /^ \* ([ESPTW]\d+) {2,}(.*)$/.exec(line);
    const more = /^ \* {4,}(\S.*)$/.exec(line);
    if (start !== null) {
      close();
      current = { number: start[1] ?? "", words: [start[2] ?? ""] };
    } else if (more !== null && current !== null) {
      (current as { words: string[] }).words.push(more[1] ?? "");
    } else {
      close();
    }
  }
  close();
  return found;
}

/** The test file that mirrors a source file, or the suite of its folder. */
function mirrored(file: string): string[] {
  const mirror = `test/${file.replace(/\.ts$/, ".test.ts")}`;
  if (existsSync(mirror)) return [mirror];
  if (file.startsWith("worlds/")) return ["worlds/conformance/"];
  if (file.startsWith("engine/")) return ["test/engine/", "test/sim/"];
  return [`test/${file.split("/")[0]}/`];
}
