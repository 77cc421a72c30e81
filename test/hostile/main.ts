/**
 * `npm run hostile`: every attempt against the sandbox as it ships and against the weakened build
 * in which it has to succeed, the fuzzes, and healthy runs among busy ones.
 */
import { runCheck } from "../../bench/check.ts";
import type { CheckContext, CheckResult } from "../../bench/check.ts";
import { fuzzBorder } from "../sandbox/hostile/border-fuzz.ts";
import { fuzzImports } from "../sandbox/hostile/import-fuzz.ts";
import { concluded } from "./attack.ts";
import type { Attack, Observation } from "./attack.ts";
import { CPU_HARD_MS, OVERRUN_MS_MAX } from "./attacks/cpu.ts";
import { AREAS } from "./corpus.ts";
import { runAttack } from "./run-attack.ts";
import { siege } from "./siege.ts";
import { shippedLibrary, shippedTarget, weakenedTarget } from "./targets.ts";

const BORDER_MESSAGES = 100_000;
const IMPORT_CALLS = 50_000;
const SEED = 20_240_501;
const SIEGES_FULL = 10;

interface Tally {
  attempts: number;
  successes: number;
  overruns: number;
  controlsFailed: number;
  inconclusive: number;
}

async function attackAll(context: CheckContext): Promise<Tally> {
  const tally: Tally = {
    attempts: 0,
    successes: 0,
    overruns: 0,
    controlsFailed: 0,
    inconclusive: 0,
  };
  const area = context.options["area"];
  for (const [name, attacks] of Object.entries(AREAS)) {
    if (area !== undefined && area !== name) continue;
    const target = shippedTarget();
    for (const attack of attacks) {
      context.progress(`${name}: ${attack.name}`);
      await attackOnce(attack, await runAttack(attack, target), { context, tally });
    }
    await target.sandbox.close();
    context.say(`${name}: ${attacks.length} attempts`);
  }
  return tally;
}

async function attackOnce(
  attack: Attack,
  seen: Observation,
  { context, tally }: { readonly context: CheckContext; readonly tally: Tally },
): Promise<void> {
  tally.attempts++;
  if (attack.succeeded(seen)) {
    tally.successes++;
    context.say(`SUCCEEDED  ${attack.name} (${attack.row})\n${told(seen)}`);
  } else if (!(attack.hasRun ?? concluded)(seen)) {
    tally.inconclusive++;
    context.say(`DID NOT RUN  ${attack.name}\n${told(seen)}`);
  }
  const isBudgeted = attack.limits?.cpuHardMs === CPU_HARD_MS;
  if (isBudgeted && seen.slowestCpuMs > CPU_HARD_MS + OVERRUN_MS_MAX) {
    tally.overruns++;
    context.say(`OVERRAN  ${attack.name}: ${Math.round(seen.slowestCpuMs)} ms of CPU`);
  }
  const weakened = await weakenedTarget(attack.weakening);
  const control = await runAttack(attack, weakened);
  await weakened.sandbox.close();
  if (attack.succeeded(control)) return;
  tally.controlsFailed++;
  context.say(`CONTROL FAILED  ${attack.name} (${attack.weakening})\n${told(control)}`);
}

function told({ run }: Observation): string {
  return `  ${run.thrown ?? run.opened} ${run.decisions.slice(-600)}`;
}

function fuzzAll(context: CheckContext) {
  const seed = Number(context.options["seed"]);
  context.progress("mutated reports");
  const border = fuzzBorder(seed, BORDER_MESSAGES);
  context.progress("wild pointers");
  const imports = fuzzImports(seed, IMPORT_CALLS);
  const failures = [...border.failures, ...imports.failures];
  for (const failure of failures) context.say(failure);
  return { messages: border.messages, calls: imports.calls, failures: failures.length };
}

async function besiegeAll(context: CheckContext) {
  let harmed = 0;
  let losses = 0;
  for (let round = 0; round < (context.full ? SIEGES_FULL : 1); round++) {
    context.progress(`healthy runs among busy ones, ${round + 1}`);
    const result = await siege(shippedLibrary);
    harmed += result.harmed;
    losses += result.losses;
  }
  return { harmed, losses };
}

async function run(context: CheckContext): Promise<CheckResult> {
  const tally = await attackAll(context);
  const figures = {
    attempts: tally.attempts,
    successes: tally.successes,
    overruns: tally.overruns,
    controls_failed: tally.controlsFailed,
    inconclusive: tally.inconclusive,
  };
  const { successes, overruns, controlsFailed, inconclusive } = tally;
  const hasHeld = tally.attempts > 0 && successes + overruns + controlsFailed + inconclusive === 0;
  // One area is for finding out about an attempt, not for the whole answer.
  if (context.options["area"] !== undefined) return { ok: hasHeld, figures };
  const fuzz = fuzzAll(context);
  const besieged = await besiegeAll(context);
  return {
    ok: hasHeld && fuzz.failures + besieged.harmed === 0,
    figures: {
      ...figures,
      mutated_messages: fuzz.messages,
      wild_calls: fuzz.calls,
      fuzz_failures: fuzz.failures,
      healthy_harmed: besieged.harmed,
      healthy_heaps_lost: besieged.losses,
    },
  };
}

await runCheck(
  {
    name: "hostile",
    description: "Tenants that attack: attempts with controls, fuzzes, and neighbours.",
    options: [
      { flags: "--seed <n>", description: "of the fuzzes", fallback: String(SEED) },
      { flags: "--area <name>", description: "only these attempts", choices: Object.keys(AREAS) },
    ],
    run,
  },
  process.argv.slice(2),
);
