/**
 * Does one tenant feel another? Start-to-finish time of a third tenant's one-step run, alone and
 * beside two neighbours: one that starts 10,000 runs of its own, one whose every run loops until it
 * is stopped. Local World, worker threads, sandboxed steps, server quotas; the flood's rate of
 * starts is left unlimited, so that its runs queue inside rather than at the door.
 *
 * Only runs whose guest code ran count: each has to return what its step computed. What it leaves
 * out: HTTP, and a machine with more than the cores it has.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBaton } from "../engine/compose.ts";
import type { Baton } from "../engine/compose.ts";
import { buildBundle } from "../tenants/bundles/build.ts";
import { SERVER_QUOTAS } from "../tenants/quota.ts";
import { openLocalWorld } from "../worlds/local/index.ts";
import { rounded, spread } from "./check.ts";
import type { CheckContext, CheckForm, CheckResult } from "./check.ts";

const RATIO_MAX = 3;
const FLOOD_RUNS = 10_000;
const FLOOD_CALLERS = 32;
const LOOPERS = 8;
const SAMPLES = 150;

const QUIET = "quiet";
const FLOOD = "flood";
const LOOP = "loop";

const PROJECT = `
  export async function one(n: number) {
    "use workflow";
    return await double(n);
  }
  async function double(n: number) {
    "use step";
    return 2 * n;
  }
  export async function loop() {
    "use workflow";
    for (;;) {}
  }
`;

export const form: CheckForm = {
  name: "neighbours",
  description: `A one-step run's p99 beside a flood and a looper, at most ${RATIO_MAX} times that of quiet.`,
  options: [
    { flags: "--runs <n>", description: "runs of the flood", fallback: String(FLOOD_RUNS) },
    {
      flags: "--samples <n>",
      description: "runs that are timed on each side",
      fallback: String(SAMPLES),
    },
  ],
  run: neighbours,
};

async function neighbours(context: CheckContext): Promise<CheckResult> {
  const folder = await mkdtemp(join(tmpdir(), "baton-neighbours-"));
  const baton = await open(folder);
  const samples = Number(context.options["samples"]) * (context.full ? 4 : 1);
  const floodRuns = Number(context.options["runs"]);
  try {
    await timedRuns(baton, 20);
    const quiet = await timedRuns(baton, samples);
    context.say(`quiet: ${described(quiet)}`);
    const noise = new Noise(baton, floodRuns);
    const loaded: number[] = [];
    while (loaded.length < samples && !noise.isFloodOver) {
      loaded.push(...(await timedRuns(baton, 1)));
      context.progress(`loaded: ${loaded.length} of ${samples}, flood ${noise.floodEnded}`);
    }
    const overlapped = noise.isFloodOver ? loaded.length - 1 : loaded.length;
    context.say(`loaded: ${described(loaded)}`);
    const ended = await noise.end(context);
    quiet.push(...(await timedRuns(baton, samples)));
    const ratio = spread(loaded).p99 / spread(quiet).p99;
    const isWhole = ended.flood === floodRuns && overlapped >= samples / 2 && ended.loops > 0;
    return {
      ok: isWhole && ratio <= RATIO_MAX,
      figures: {
        p99_ratio: rounded(ratio),
        quiet_p50_ms: rounded(spread(quiet).p50),
        quiet_p99_ms: rounded(spread(quiet).p99),
        quiet_max_ms: rounded(spread(quiet).max),
        loaded_p50_ms: rounded(spread(loaded).p50),
        loaded_p99_ms: rounded(spread(loaded).p99),
        loaded_max_ms: rounded(spread(loaded).max),
        quiet_runs: quiet.length,
        loaded_runs: overlapped,
        flood_runs_completed: ended.flood,
        flood_runs_per_second: rounded(ended.floodPerSecond),
        loops_stopped: ended.loops,
      },
    };
  } finally {
    await baton.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function open(folder: string): Promise<Baton> {
  await mkdir(join(folder, "workflows"));
  await mkdir(join(folder, "data"));
  await writeFile(join(folder, "workflows", "neighbours.ts"), PROJECT);
  const bundle = await buildBundle({ projectRoot: folder, entries: ["workflows"] });
  const baton = await createBaton({
    world: await openLocalWorld({ path: join(folder, "data", "baton.db") }),
    keyFolder: join(folder, "keys"),
    quotas: SERVER_QUOTAS,
  });
  for (const name of [QUIET, FLOOD, LOOP]) {
    const quotas = name === FLOOD ? { startsPerSecondMax: null } : {};
    await baton.tenants.create(name, { quotas });
    await baton.bundles.deploy(bundle, { tenantId: name });
  }
  return baton;
}

/** Start-to-finish ms of so many runs of the third tenant, one after the other. */
async function timedRuns(baton: Baton, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const startedMs = performance.now();
    const run = await baton.start("one", [i], { tenantId: QUIET });
    const value = await run.returnValue();
    times.push(performance.now() - startedMs);
    if (value !== 2 * i) throw new Error(`a run of ${i} came to ${String(value)}`);
    // Below the rate of starts that the tenant is allowed.
    await new Promise<void>((resolve) => void setTimeout(resolve, 30));
  }
  return times;
}

/** The two neighbours. */
class Noise {
  floodEnded = 0;
  readonly #baton: Baton;
  readonly #floodRuns: number;
  readonly #startedMs = performance.now();
  #floodMs = 0;
  #loops = 0;
  #isOver = false;
  readonly #flood: Promise<unknown>;
  readonly #looping: Promise<unknown>;

  constructor(baton: Baton, floodRuns: number) {
    this.#baton = baton;
    this.#floodRuns = floodRuns;
    this.#looping = Promise.all(Array.from({ length: LOOPERS }, () => this.#loop()));
    this.#flood = this.#runFlood();
  }

  get isFloodOver(): boolean {
    return this.floodEnded >= this.#floodRuns;
  }

  async end(context: CheckContext) {
    const shown = setInterval(() => context.progress(`flood ${this.floodEnded}`), 500);
    await this.#flood;
    this.#isOver = true;
    await this.#looping;
    clearInterval(shown);
    const floodPerSecond = this.floodEnded / (this.#floodMs / 1000);
    return { flood: this.floodEnded, floodPerSecond, loops: this.#loops };
  }

  async #runFlood(): Promise<void> {
    const ends: Promise<void>[] = [];
    let next = 0;
    const call = async (): Promise<void> => {
      while (next < this.#floodRuns) {
        const n = next++;
        const run = await this.#baton.start("one", [n], { tenantId: FLOOD });
        ends.push(
          run.returnValue().then((value) => {
            if (value !== 2 * n) throw new Error(`a run of ${n} came to ${String(value)}`);
            this.floodEnded++;
          }),
        );
      }
    };
    await Promise.all(Array.from({ length: FLOOD_CALLERS }, call));
    await Promise.all(ends);
    this.#floodMs = performance.now() - this.#startedMs;
  }

  /** Starts the next loop as soon as one was stopped. */
  async #loop(): Promise<void> {
    while (!this.#isOver) {
      const run = await this.#baton.start("loop", [], { tenantId: LOOP });
      await run.returnValue().catch(() => undefined);
      if ((await run.status()) === "failed") this.#loops++;
    }
  }
}

function described(times: readonly number[]): string {
  const { p50, p99, min, max } = spread(times);
  const [a, b, c, d] = [p50, p99, min, max].map(rounded);
  return `p50 ${a} ms, p99 ${b} ms, from ${c} to ${d} ms over ${times.length} runs`;
}
