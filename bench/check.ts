/**
 * The one form of all long checks (bench, sim, chaos, hostile, conformance): `--help`, a bounded
 * default run and `--full`, progress on a terminal, `--json` with one object as the last line, and
 * an exit code that is 0 only when everything asked for holds.
 */
import { execFileSync } from "node:child_process";
import { writeSync } from "node:fs";
import { Command, Option } from "commander";

export interface CheckContext {
  /** Run the long form. */
  readonly full: boolean;
  readonly json: boolean;
  /** Options that the check declared itself, by their long names. */
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** A line for people; with `--json` it goes to standard error. */
  say(line: string): void;
  /** A line that replaces itself, on terminals only. */
  progress(line: string): void;
}

export interface CheckResult {
  readonly ok: boolean;
  readonly figures: Readonly<Record<string, number | string | null>>;
}

export interface CheckOption {
  /** As commander takes it, e.g. `--seed <n>`. */
  readonly flags: string;
  readonly description: string;
  readonly choices?: readonly string[];
  readonly fallback?: string;
}

export interface CheckForm {
  readonly name: string;
  readonly description: string;
  readonly options?: readonly CheckOption[];
  run(context: CheckContext): Promise<CheckResult>;
}

/** Parses `argv` (without node and script), runs the check, prints, and sets the exit code. */
export async function runCheck(form: CheckForm, argv: readonly string[]): Promise<void> {
  const command = new Command(form.name)
    .description(form.description)
    .option("--full", "run the long form", false)
    .option("--json", "print one JSON object as the last line", false)
    .allowExcessArguments(false);
  for (const option of form.options ?? []) command.addOption(declared(option));
  command.parse([...argv], { from: "user" });
  const parsed = command.opts<Record<string, string | boolean | undefined>>();
  const json = parsed["json"] === true;
  const onTerminal = process.stdout.isTTY && !json;
  const finished = whetherItEnds(form.name);
  const result = await form.run({
    full: parsed["full"] === true,
    json,
    options: parsed,
    say: (line) => {
      const out = json ? process.stderr : process.stdout;
      out.write(`${onTerminal ? "\r\x1b[K" : ""}${line}\n`);
    },
    progress: (line) => void (onTerminal && process.stdout.write(`\r\x1b[K${line}`)),
  });
  report(form.name, result, json);
  finished();
  process.exitCode = result.ok ? 0 : 1;
}

/**
 * A check whose process ends before it has answered has failed, and says so: as when everything that
 * it waits for has stopped holding the event loop. Returns what is called once it has answered.
 */
function whetherItEnds(name: string): () => void {
  const onExit = (code: number): void => {
    process.exitCode = code === 0 ? 1 : code;
    writeSync(process.stderr.fd, `${name}: ended before it was finished, with nothing answered\n`);
  };
  process.once("exit", onExit);
  return () => void process.off("exit", onExit);
}

function declared(option: CheckOption): Option {
  const made = new Option(option.flags, option.description);
  if (option.choices !== undefined) made.choices([...option.choices]);
  if (option.fallback !== undefined) made.default(option.fallback);
  return made;
}

function report(check: string, result: CheckResult, json: boolean): void {
  const { ok, figures } = result;
  const commit = commitOf();
  if (json) {
    console.log(JSON.stringify({ check, ok, figures, commit }));
    return;
  }
  const width = Math.max(...Object.keys(figures).map((name) => name.length), 0);
  for (const [name, value] of Object.entries(figures)) {
    console.log(`  ${name.padEnd(width)}  ${value}`);
  }
  console.log(`${check}: ${ok ? "ok" : "NOT OK"} at commit ${commit}`);
}

/** The commit that was measured; `+` marks a tree with changes, `none` a copy without git. */
export function commitOf(): string {
  try {
    const hash = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
    const changed = execFileSync("git", ["status", "--porcelain"], { encoding: "utf8" }) !== "";
    return changed ? `${hash}+` : hash;
  } catch {
    return "none";
  }
}

/** Median, 99th percentile, minimum and maximum of some measurements. */
export function spread(values: readonly number[]): {
  p50: number;
  p99: number;
  min: number;
  max: number;
} {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), min: at(0), max: at(1) };
}

/** Rounded for print, to three significant digits. */
export function rounded(value: number): number {
  return Number(value.toPrecision(3));
}
