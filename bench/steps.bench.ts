/**
 * Does a step cost more, the longer its run is? CPU of the whole process per sequential step, in
 * runs of 250 and of 5,000 steps: memory World, sealed, real heaps on the calling thread, host
 * steps that return at once.
 *
 * What it leaves out: waiting (disk, network, other threads), which CPU time does not see.
 */
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBaton } from "../engine/compose.ts";
import type { Baton } from "../engine/compose.ts";
import { buildBundle } from "../tenants/bundles/build.ts";
import { createMemoryWorld } from "../worlds/memory/index.ts";
import { rounded, spread } from "./check.ts";
import type { CheckContext, CheckForm, CheckResult } from "./check.ts";

const SHORT = 250;
const LONG = 5_000;
const RATIO_MAX = 1.2;

const WORKFLOW = `
  export async function laps(count: number) {
    "use workflow";
    let total = 0;
    for (let i = 0; i < count; i++) total += await lap(i);
    return total;
  }
  async function lap(i: number) {
    "use step";
    return i;
  }
`;

export const form: CheckForm = {
  name: "steps",
  description: `CPU per step in runs of ${SHORT} and of ${LONG} steps; at most ${RATIO_MAX} times as much.`,
  options: [{ flags: "--rounds <n>", description: "pairs of measurements", fallback: "3" }],
  run: steps,
};

async function steps(context: CheckContext): Promise<CheckResult> {
  const folder = await mkdtemp(join(tmpdir(), "baton-steps-"));
  const baton = await open(folder);
  try {
    await cpuMsPerStep(baton, SHORT, 4);
    const short: number[] = [];
    const long: number[] = [];
    const rounds = Number(context.options["rounds"]) * (context.full ? 3 : 1);
    for (let i = 0; i < rounds; i++) {
      // As many steps on both sides, in turns, so that whatever else runs falls on both.
      short.push(await cpuMsPerStep(baton, SHORT, LONG / SHORT));
      long.push(await cpuMsPerStep(baton, LONG, 1));
      context.say(`${SHORT}: ${rounded(short.at(-1) ?? 0)}, ${LONG}: ${rounded(long.at(-1) ?? 0)}`);
    }
    const ratio = spread(long).p50 / spread(short).p50;
    return {
      ok: ratio <= RATIO_MAX,
      figures: {
        cpu_ms_per_step_250: rounded(spread(short).p50),
        cpu_ms_per_step_5000: rounded(spread(long).p50),
        cpu_per_step_ratio: rounded(ratio),
      },
    };
  } finally {
    await baton.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function open(folder: string): Promise<Baton> {
  await mkdir(join(folder, "workflows"));
  await writeFile(join(folder, "workflows", "laps.ts"), WORKFLOW);
  const bundle = await buildBundle({ projectRoot: folder, entries: ["workflows"] });
  const baton = await createBaton({
    world: createMemoryWorld(),
    keyFolder: join(folder, "keys"),
    sandbox: { form: "calling-thread" },
    steps: { trust: "host" },
  });
  await baton.bundles.deploy(bundle);
  return baton;
}

async function cpuMsPerStep(baton: Baton, count: number, runs: number): Promise<number> {
  const before = process.cpuUsage();
  for (let i = 0; i < runs; i++) {
    const run = await baton.start("laps", [count]);
    const total = await run.returnValue();
    if (total !== (count * (count - 1)) / 2)
      throw new Error(`a run of ${count} came to ${String(total)}`);
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / (count * runs);
}
