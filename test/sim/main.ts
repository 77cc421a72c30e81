/**
 * `npm run sim`: thousands of seeded schedules, judged by the oracle. `--seed N` repeats one and
 * prints its timeline; `--mutants` shows that each mutant is found.
 */
import { runCheck } from "../../bench/check.ts";
import type { CheckContext, CheckResult } from "../../bench/check.ts";
import { spread } from "../../bench/check.ts";
import { buildSources } from "./bundle.ts";
import { faultsAt } from "./faults.ts";
import { MUTANTS } from "./mutants.ts";
import { judged, openParts, SITES } from "./schedules.ts";
import type { Verdict } from "./schedules.ts";
import { inWorkers } from "./worker-pool.ts";

const SEEDS_DEFAULT = 1_500;
const SEEDS_FULL = 20_000;
const MUTANT_SEEDS_MAX = 5_000;

await runCheck(
  {
    name: "sim",
    description: "Simulates runs, workers and clients under faults, and judges what they did.",
    options: [
      { flags: "--seeds <n>", description: "how many schedules" },
      { flags: "--from <n>", description: "the first seed", fallback: "1" },
      { flags: "--seed <n>", description: "repeat one schedule and print its timeline" },
      { flags: "--steps <n>", description: "with --seed: print only the last lines" },
      { flags: "--mutant <name>", description: "with --seed or --mutants: this mutant alone" },
      { flags: "--mutants", description: "find every mutant" },
    ],
    run: (context) => {
      if (context.options["seed"] !== undefined) return one(context);
      return context.options["mutants"] === true ? mutants(context) : many(context);
    },
  },
  process.argv.slice(2),
);

async function one(context: CheckContext): Promise<CheckResult> {
  const { seed, steps, mutant } = context.options;
  const parts = openParts(await buildSources(), mutantOf(mutant));
  const lines: string[] = [];
  const verdict = await judged(String(seed), parts, (line) => void lines.push(line));
  for (const line of lines.slice(-Number(steps ?? lines.length))) context.say(line);
  for (const violation of verdict.violations) context.say(violation);
  await parts.close();
  return resultOf([verdict]);
}

async function many(context: CheckContext): Promise<CheckResult> {
  const count = Number(context.options["seeds"] ?? (context.full ? SEEDS_FULL : SEEDS_DEFAULT));
  const from = Number(context.options["from"]);
  const seeds = Array.from({ length: count }, (_, i) => String(from + i));
  const verdicts: Verdict[] = [];
  await inWorkers(seeds, null, (verdict) => {
    verdicts.push(verdict);
    context.progress(`${verdicts.length} of ${count} schedules`);
    for (const violation of verdict.violations) {
      context.say(`seed ${verdict.seed}: ${violation}`);
    }
    if (verdict.violations.length > 0) context.say(`  npm run sim -- --seed ${verdict.seed}`);
    return "go on";
  });
  const missing = missingCoverage(verdicts);
  if (missing.length > 0 && count >= SEEDS_FULL) context.say(`never met: ${missing.join(", ")}`);
  const result = resultOf(verdicts);
  const isCovered = missing.length === 0 || count < SEEDS_FULL;
  return {
    ok: result.ok && isCovered,
    figures: { ...result.figures, fault_sites_missing: missing.length },
  };
}

async function mutants(context: CheckContext): Promise<CheckResult> {
  const figures: Record<string, number | string | null> = {};
  let isFound = true;
  const wanted = mutantOf(context.options["mutant"]);
  for (const { name } of wanted === null ? MUTANTS : [wanted]) {
    const seeds = Array.from({ length: MUTANT_SEEDS_MAX }, (_, i) => String(i + 1));
    let found: Verdict | null = null;
    let tried = 0;
    await inWorkers(seeds, name, (verdict) => {
      tried++;
      context.progress(`${name}: ${tried} schedules`);
      if (verdict.violations.length === 0) return "go on";
      found ??= verdict;
      return "stop";
    });
    const verdict = found as Verdict | null;
    isFound &&= verdict !== null;
    context.say(`${name}: ${verdict === null ? "NOT FOUND" : `found after ${tried} schedules`}`);
    if (verdict !== null) context.say(`  seed ${verdict.seed}: ${verdict.violations[0]}`);
    figures[name.replaceAll(/[ -]/g, "_")] = verdict === null ? null : tried;
  }
  return { ok: isFound, figures };
}

function resultOf(verdicts: readonly Verdict[]): CheckResult {
  const violations = verdicts.filter((verdict) => verdict.violations.length > 0).length;
  const median = (of: (verdict: Verdict) => number) => spread(verdicts.map(of)).p50;
  return {
    ok: violations === 0,
    figures: {
      schedules: verdicts.length,
      violations,
      median_events: median(({ events }) => events),
      median_faults: median(({ faults }) => faults),
      median_passes: median(({ passes }) => passes),
      median_ms: Math.round(median(({ ms }) => ms)),
    },
  };
}

/** Faults that no schedule met at a call site where they can be met. */
function missingCoverage(verdicts: readonly Verdict[]): readonly string[] {
  const met = new Set(verdicts.flatMap(({ met }) => met));
  const all = SITES.flatMap((site) => faultsAt(site).map((fault) => `${fault} at ${site}`));
  return all.filter((each) => !met.has(each));
}

function mutantOf(name: string | boolean | undefined) {
  if (name === undefined) return null;
  const found = MUTANTS.find((mutant) => mutant.name === name);
  if (found === undefined)
    throw new Error(`mutants: ${MUTANTS.map((each) => each.name).join(", ")}`);
  return found;
}
