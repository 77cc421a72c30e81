/**
 * Do storms corrupt a run, or leave one stuck? Step-storm: 20 background steps whose outcomes come
 * from 8 workers at once, each followed by another step. Hook-storm: 32 payloads from 8 writers at
 * once, against steps and sleeps of the same run.
 *
 * Heaps, engine and oracle are real; time and the World's network are simulated, without faults.
 * What it leaves out: a real server's speed (see `bench worlds`).
 */
import { buildSources } from "../test/sim/bundle.ts";
import { workflowId } from "../test/sim/catalog.ts";
import type { Planned, Who } from "../test/sim/catalog.ts";
import { violationsOf } from "../test/sim/oracle.ts";
import { endOf } from "../test/sim/oracle/log-rules.ts";
import { openParts } from "../test/sim/schedules.ts";
import { simulate } from "../test/sim/simulator.ts";
import type { Program } from "../test/sim/workflows/programs.ts";
import { spread } from "./check.ts";
import type { CheckContext, CheckForm, CheckResult } from "./check.ts";

const RUNS = 600;
const WRITERS = 8;
const STEPS = 20;
const PAYLOADS = 32;

export const form: CheckForm = {
  name: "storms",
  description: "600 runs each of a step-storm and a hook-storm, events from 8 writers at once.",
  options: [{ flags: "--runs <n>", description: "runs of each storm", fallback: String(RUNS) }],
  run: storms,
};

async function storms(context: CheckContext): Promise<CheckResult> {
  const runs = Number(context.options["runs"]);
  const parts = openParts(await buildSources(), null);
  const tally = { runs: 0, corrupt: 0, stuck: 0 };
  const events: number[] = [];
  for (const [name, plan] of [
    ["step-storm", stepStorm] as const,
    ["hook-storm", hookStorm] as const,
  ]) {
    for (let i = 0; i < runs; i++) {
      const observation = await simulate(
        {
          seed: `${name} ${i}`,
          runs: [plan],
          profile: { probability: 0, max: 0 },
          settings: { inlineStepsMax: 0 },
          workers: WRITERS,
          print: null,
        },
        parts,
      );
      const violations = await violationsOf(observation, parts.model);
      const log = observation.runs[0]?.events ?? [];
      const isStuck = endOf(log) === null;
      tally.runs++;
      if (isStuck) tally.stuck++;
      if (violations.length > 0 && !isStuck) tally.corrupt++;
      for (const { rule, breach } of violations) context.say(`${name} ${i}: [${rule}] ${breach}`);
      events.push(log.length);
      context.progress(`${name}: ${i + 1} of ${runs}`);
    }
  }
  await parts.close();
  const ok = tally.corrupt === 0 && tally.stuck === 0 && tally.runs === 2 * runs;
  return { ok, figures: { ...tally, median_events: spread(events).p50 } };
}

/** Every outcome lands within a few ms of all the others, and each asks for more. */
function stepStorm(who: Who): Planned {
  const of: Program[] = Array.from({ length: STEPS }, (_, i) => ({
    do: "sequence",
    of: [
      { do: "step", label: `s${i}`, plan: { ms: 20 } },
      { do: "hops", count: i % 5 },
      { do: "step", label: `t${i}`, plan: { ms: i % 3 } },
    ],
  }));
  return planned(who, { do: "all", of }, []);
}

function hookStorm(who: Who): Planned {
  const names = Array.from({ length: WRITERS }, (_, i) => `h${i}`);
  const times = PAYLOADS / WRITERS;
  const branches: Program[] = names.map((name, i) => ({
    do: "sequence",
    of: [
      {
        do: "race",
        of: [
          { do: "hook", name, times },
          { do: "sleep", ms: 40 + i },
        ],
      },
      { do: "step", label: `after-${name}`, plan: { ms: 5 } },
    ],
  }));
  const busy: Program = {
    do: "sequence",
    of: names.map((name) => ({ do: "step", label: `busy-${name}`, plan: { ms: 10 } })),
  };
  const payloads = names.flatMap((hook) =>
    Array.from({ length: times }, (_, i) => ({ hook, value: `${hook}.${i}`, afterMs: 20 + i * 4 })),
  );
  return planned(who, { do: "all", of: [...branches, busy] }, payloads);
}

function planned(who: Who, program: Program, payloads: Planned["script"]["payloads"]): Planned {
  return {
    workflow: workflowId("programs", "runProgram"),
    input: { ...who, program },
    script: { payloads, cancelAfterMs: null, wakeAfterMs: null, webhookStatus: null, reads: false },
    expected: null,
    creations: null,
  };
}
