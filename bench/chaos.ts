/**
 * `npm run chaos`: kills real processes in the middle of their work, and reads what is left.
 *
 * A child appends, sends and consumes over one file; it says on its standard output what it begins
 * and what it was answered. It is killed with SIGKILL while something is begun and not answered,
 * again and again; then the file is read and held against what was said. A SIGKILL cannot lose what
 * the page cache holds, so durability is shown apart: `--trace` runs the child under strace.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { tenantIdOf } from "../engine/ids.ts";
import { openLocalWorld } from "../worlds/local/index.ts";
import { SeededRandom } from "../worlds/seeded-random.ts";
import type { Said } from "./chaos-lines.ts";
import { Account, TENANT, TRACED_APPENDS } from "./chaos-lines.ts";
import type { CheckContext, CheckForm, CheckResult } from "./check.ts";
import { runCheck } from "./check.ts";

const LANES = 4;
const CHILD = "dist/chaos/child.mjs";

const form: CheckForm = {
  name: "chaos",
  description: "SIGKILLs processes that use a World, and looks for what they lost.",
  options: [
    { flags: "--world <name>", description: "which World", choices: ["local"], fallback: "local" },
    { flags: "--kills <n>", description: "how many kills", fallback: "200" },
    { flags: "--seed <n>", description: "of the moments of the kills", fallback: "1" },
    { flags: "--trace", description: "only show the fdatasync between an append and its answer" },
  ],
  run: async (context) => {
    await build({
      entryPoints: ["bench/chaos-child.ts"],
      outfile: CHILD,
      bundle: true,
      format: "esm",
      platform: "node",
      packages: "external",
      target: "node20",
      logLevel: "warning",
    });
    const folder = mkdtempSync(join(tmpdir(), "baton-chaos-"));
    try {
      return context.options["trace"] === true ? traced(folder) : await killed(folder, context);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

interface LaneResult {
  readonly kills: number;
  readonly idleKills: number;
  readonly account: Account;
  readonly synchronous: unknown;
}

async function killed(folder: string, context: CheckContext): Promise<CheckResult> {
  const kills = Number(context.options["kills"]) * (context.full ? 5 : 1);
  const seed = Number(context.options["seed"]);
  let done = 0;
  const progress = () => {
    context.progress(`${++done} of ${kills} kills`);
  };
  const lanes = await Promise.all(
    Array.from({ length: LANES }, async (_, i) => {
      const share = Math.floor(kills / LANES) + (i < kills % LANES ? 1 : 0);
      return lane(join(folder, `${i}.db`), share, new SeededRandom(seed * 1_000 + i), progress);
    }),
  );
  const sum = (of: (lane: LaneResult) => number) => lanes.reduce((all, one) => all + of(one), 0);
  const figures = {
    kills: sum((one) => one.kills),
    lost: sum((one) => one.account.lost),
    gaps: sum((one) => one.account.gaps),
    doubles: sum((one) => one.account.doubles),
    stuck: sum((one) => one.account.stuck),
    counts_back: sum((one) => one.account.countsBack),
    idle_kills: sum((one) => one.idleKills),
    unsound_files: sum((one) => (one.account.isSound ? 0 : 1)),
    acked_appends: sum((one) => one.account.ackedAppends),
    acked_sends: sum((one) => one.account.ackedSends),
    deliveries: sum((one) => one.account.deliveries),
    synchronous: lanes.every((one) => one.synchronous === 2) ? "FULL" : "NOT FULL",
  };
  const zero = ["lost", "gaps", "doubles", "stuck", "counts_back", "idle_kills", "unsound_files"];
  const ok =
    figures.kills === kills &&
    figures.synchronous === "FULL" &&
    figures.acked_appends > kills &&
    zero.every((name) => figures[name as keyof typeof figures] === 0);
  return { ok, figures };
}

async function lane(
  path: string,
  kills: number,
  random: SeededRandom,
  progress: () => void,
): Promise<LaneResult> {
  const account = new Account();
  let idleKills = 0;
  for (let i = 0; i < kills; i++) {
    const wasBusy = await killedOnce(path, 5 + random.fraction() * 80, account);
    if (!wasBusy) idleKills++;
    progress();
  }
  const world = await openLocalWorld({ path });
  const synchronous = await world.setting("synchronous");
  account.isSound = (await world.integrityCheck()).ok;
  await account.close(world.forTenant(tenantIdOf(TENANT)), world.queue);
  await world.close();
  return { kills, idleKills, account, synchronous };
}

/** One child's life, up to `ms` after its first answer. True if it was killed with work begun. */
async function killedOnce(path: string, ms: number, account: Account): Promise<boolean> {
  const child = spawn(process.execPath, [CHILD, path, "work"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let rest = "";
  let timer: NodeJS.Timeout | null = null;
  account.newLife();
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) account.hear(JSON.parse(line) as Said);
    timer ??= setTimeout(() => child.kill("SIGKILL"), ms);
  });
  const signal = await new Promise<string | null>((resolve) => {
    // `close`, not `exit`: what was said before the kill has then been heard.
    child.once("close", (_, by) => {
      resolve(by);
    });
  });
  if (signal !== "SIGKILL") throw new Error("a child ended by itself; see its error above");
  return account.isBusy;
}

/** Between the begin and the answer of each append, a sync of the file's log succeeded. */
function traced(folder: string): CheckResult {
  const output = join(folder, "trace");
  const calls = "trace=fdatasync,fsync,write";
  const args = ["-f", "-y", "-s", "64", "-e", calls, "-o", output];
  const child = [process.execPath, CHILD, join(folder, "traced.db"), "trace"];
  const { status, error } = spawnSync("strace", [...args, ...child], { stdio: "ignore" });
  if (error !== undefined || status !== 0) {
    throw new Error("the child did not run under strace; is strace installed?", { cause: error });
  }
  let appends = 0;
  let synced = 0;
  let hasSynced = false;
  for (const line of readFileSync(output, "utf8").split("\n")) {
    if (line.includes("begin append")) hasSynced = false;
    // A call that another thread interrupts in the trace ends in a line of its own.
    // Which of the two SQLite calls depends on how it was built; fsync does all that fdatasync does.
    else if (/f(data)?sync\(.*-wal>\) += 0|f(data)?sync resumed.*= 0/.test(line)) hasSynced = true;
    else if (line.includes("answer append")) {
      appends++;
      if (hasSynced) synced++;
    }
  }
  return {
    ok: appends === TRACED_APPENDS && synced === appends,
    figures: { appends, synced_before_answer: synced },
  };
}

await runCheck(form, process.argv.slice(2));
