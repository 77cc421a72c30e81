/** The package from outside: the documents' snippets, a tenant's own tests, and a consumer's types. */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MANIFEST, Project, packed } from "./packed.ts";

const README = readFileSync("README.md", "utf8");
const TENANT = "test/e2e/tenant-project";
/** Warm and cold, and the table's own test. */
const RACE_TESTS = 2 * 39 + 1;

let pack: string;

beforeAll(() => {
  pack = packed();
});
afterAll(() => {
  rmSync(pack, { recursive: true, force: true });
});

/** The code blocks of a document that say which file they are. */
function snippets(text: string): ReadonlyMap<string, string> {
  const blocks = [...text.matchAll(/```ts\n\/\/ (\S+\.ts)[^\n]*\n([\s\S]*?)```/g)];
  return new Map(blocks.map(([, file = "", code = ""]) => [file, code]));
}

function write(project: Project, files: Iterable<readonly [string, string]>): void {
  for (const [file, text] of files) {
    const path = join(project.folder, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}

function ran(project: Project, module: string, ...args: string[]) {
  const { stdout, stderr, status } = spawnSync("node", [resolve("node_modules", module), ...args], {
    cwd: project.folder,
    encoding: "utf8",
    timeout: 280_000,
  });
  return { status, output: `${stdout}\n${stderr}` };
}

interface TestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
}

/** Runs a project's vitest, and counts. */
function tested(project: Project) {
  const report = join(project.folder, "report.json");
  const vitest = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const { status, output } = ran(project, "vitest/vitest.mjs", ...vitest);
  const counts = JSON.parse(readFileSync(report, "utf8")) as TestReport;
  return {
    output,
    status,
    passed: counts.numPassedTests,
    failed: counts.numFailedTests,
    skipped: counts.numPendingTests + counts.numTodoTests,
  };
}

function types(project: Project) {
  return ran(project, "typescript/bin/tsc", "-p", "tsconfig.json");
}

describe("the README", () => {
  it("its workflow, embedded as it says, returns what it says", () => {
    using project = new Project(pack);
    for (const name of ["workflows", "data"]) mkdirSync(join(project.folder, name));
    write(project, [["package.json", JSON.stringify({ type: "module" })], ...snippets(README)]);
    const tsx = createRequire(import.meta.url).resolve("tsx");
    const host = spawnSync("node", ["--import", tsx, "host.ts"], {
      cwd: project.folder,
      encoding: "utf8",
      timeout: 120_000,
    });
    expect(host.stderr).toBe("");
    expect(README).toContain(`it returns \`${host.stdout.trim()}\``);
  });

  it("its commands are scripts of the package", () => {
    const named = [...README.matchAll(/npm (?:run )?([a-z]+)\b/g)].map(([, name = ""]) => name);
    const commands = new Set(named.filter((name) => name !== "ci"));
    expect(commands.size).toBeGreaterThan(1);
    for (const command of commands) expect(Object.keys(MANIFEST.scripts)).toContain(command);
  });
});

describe("docs/testing.md", () => {
  it("its tests pass, as they stand, in a project that has the package", () => {
    using project = new Project(pack, TENANT);
    rmSync(join(project.folder, "test"), { recursive: true });
    write(project, snippets(readFileSync("docs/testing.md", "utf8")));
    const { output, ...counts } = tested(project);
    expect(counts, output).toEqual({ status: 0, passed: 4, failed: 0, skipped: 0 });
    expect(types(project)).toEqual({ status: 0, output: "\n" });
  }, 300_000);
});

describe("a tenant's project", () => {
  it("scripts 39 races in its own vitest, warm and cold, with public imports alone", () => {
    using project = new Project(pack, TENANT);
    const { output, ...counts } = tested(project);
    expect(counts, output).toEqual({ status: 0, passed: RACE_TESTS, failed: 0, skipped: 0 });
  }, 300_000);

  it("type-checks against the types that the package ships", () => {
    using project = new Project(pack, TENANT);
    expect(types(project)).toEqual({ status: 0, output: "\n" });
  });
});
