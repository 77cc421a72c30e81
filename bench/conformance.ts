/**
 * `npm run conformance`: puts a World through the suite, or (`--mutants`) breaks each guarantee in a
 * copy of the sources and demands that some case notices.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Mutant } from "../worlds/conformance/mutants.ts";
import { MUTANTS } from "../worlds/conformance/mutants.ts";
import type { CheckContext, CheckForm, CheckResult } from "./check.ts";
import { runCheck } from "./check.ts";

const WORLDS = ["memory", "faulty", "local"] as const;

const form: CheckForm = {
  name: "conformance",
  description: "Runs the conformance suite over a World, or over broken ones.",
  options: [
    { flags: "--world <name>", description: "which World", choices: WORLDS, fallback: "memory" },
    { flags: "--mutants", description: "break each guarantee; every mutant must be killed" },
  ],
  run: async (context) => (context.options["mutants"] === true ? mutants(context) : suite(context)),
};

interface Counts {
  readonly cases: number;
  readonly failed: number;
  readonly firstFailure: string | null;
}

function suite(context: CheckContext): CheckResult {
  const world = String(context.options["world"]);
  const { cases, failed, firstFailure } = vitest(".", [`test/worlds/${world}.test.ts`]);
  if (firstFailure !== null) context.say(`first failure: ${firstFailure}`);
  return { ok: cases > 0 && failed === 0, figures: { cases, failed } };
}

function mutants(context: CheckContext): CheckResult {
  const copy = copied();
  let killed = 0;
  try {
    for (const [i, mutant] of MUTANTS.entries()) {
      context.progress(`mutant ${i + 1} of ${MUTANTS.length}: ${mutant.breaks} ${mutant.file}`);
      const killer = killerOf(copy, mutant);
      if (killer !== null) killed++;
      const how = killer === null ? "SURVIVES" : `killed by "${killer}"`;
      context.say(`${mutant.breaks.padEnd(4)} ${mutant.find.trim().slice(0, 60)} … ${how}`);
    }
  } finally {
    rmSync(copy, { recursive: true });
  }
  const guarantees = new Set(MUTANTS.map((mutant) => mutant.breaks)).size;
  const survivors = MUTANTS.length - killed;
  return {
    ok: survivors === 0,
    figures: { mutants: MUTANTS.length, guarantees, killed, survivors },
  };
}

/** The sources as they are now, with the packages of this checkout. */
function copied(): string {
  const copy = mkdtempSync(join(tmpdir(), "baton-mutants-"));
  const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    encoding: "utf8",
  });
  const isNeeded = /^(engine|sandbox|worlds|tenants|test\/worlds|scripts)\/|^[^/]+\.(json|ts)$/;
  for (const file of files.split("\n").filter((name) => isNeeded.test(name))) {
    cpSync(file, join(copy, file), { recursive: true });
  }
  symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
  cpSync("dist", join(copy, "dist"), { recursive: true });
  return copy;
}

/** The first case that fails over the mutant, or null if all pass. */
function killerOf(copy: string, mutant: Mutant): string | null {
  const path = join(copy, mutant.file);
  const sound = readFileSync(path, "utf8");
  if (sound.split(mutant.find).length !== 2) {
    throw new Error(`${mutant.file} does not hold this text once: ${mutant.find}`);
  }
  const world = mutant.world ?? "memory";
  try {
    writeFileSync(
      path,
      sound.replace(mutant.find, () => mutant.replace),
    );
    if (world === "local") build(copy);
    const args = [`test/worlds/${world}.test.ts`, "-t", mutant.cases, "--bail", "1"];
    return vitest(copy, [...args, "--testTimeout", "15000"]).firstFailure;
  } finally {
    writeFileSync(path, sound);
    if (world === "local") build(copy);
  }
}

function build(folder: string): void {
  spawnSync("node", ["--import", "tsx", "scripts/build.ts"], { cwd: folder, stdio: "ignore" });
}

interface Report {
  readonly numTotalTests: number;
  readonly numPendingTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

function vitest(folder: string, args: readonly string[]): Counts {
  const output = join(mkdtempSync(join(tmpdir(), "baton-report-")), "report.json");
  const cli = [resolve("node_modules/vitest/vitest.mjs"), "run", "--project", "worlds"];
  spawnSync(process.execPath, [...cli, ...args, "--reporter=json", `--outputFile=${output}`], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const report = JSON.parse(readFileSync(output, "utf8")) as Report;
  rmSync(dirname(output), { recursive: true });
  const results = report.testResults.flatMap((file) => file.assertionResults);
  const failure = results.find((result) => result.status === "failed")?.fullName;
  const broken = report.testResults.find(
    (file) => file.status === "failed" && failure === undefined,
  );
  return {
    cases: report.numTotalTests - report.numPendingTests,
    failed: report.numFailedTests + (broken === undefined ? 0 : 1),
    firstFailure: failure ?? broken?.message ?? null,
  };
}

await runCheck(form, process.argv.slice(2));
