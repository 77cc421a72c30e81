/** A worker process of `npm run sim`: judges the seeds that it is sent. */
import { readSources } from "./bundle.ts";
import { MUTANTS } from "./mutants.ts";
import { judged, openParts } from "./schedules.ts";
import type { Assignment, Report } from "./worker-pool.ts";

const [path = "", mutantName] = process.argv.slice(2);
const parts = openParts(readSources(path), MUTANTS.find(({ name }) => name === mutantName) ?? null);
const report = (message: Report) => process.send?.(message);

process.on("message", ({ seeds }: Assignment) => {
  void work(seeds);
});
report({ kind: "ready" });

async function work(seeds: readonly string[]): Promise<void> {
  for (const seed of seeds) report({ kind: "verdict", of: await judged(seed, parts) });
  if (seeds.length > 0) {
    report({ kind: "ready" });
    return;
  }
  await parts.close();
  process.disconnect();
}
