/**
 * Schedules over all cores: each worker process takes seeds one batch at a time and answers with
 * verdicts.
 */
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSources, writeSources } from "./bundle.ts";
import type { Verdict } from "./schedules.ts";

export interface Assignment {
  readonly seeds: readonly string[];
}

export type Report =
  { readonly kind: "ready" } | { readonly kind: "verdict"; readonly of: Verdict };

const BATCH = 10;

/** Judges every seed under the mutant (null: none), until `onVerdict` says stop. */
export async function inWorkers(
  seeds: readonly string[],
  mutant: string | null,
  onVerdict: (verdict: Verdict) => "go on" | "stop",
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "baton-sim-"));
  const path = join(folder, "sources.json");
  try {
    writeSources(path, await buildSources());
    const pending = [...seeds];
    const count = Math.min(availableParallelism(), Math.max(1, Math.ceil(seeds.length / BATCH)));
    const args = [path, mutant ?? ""];
    await Promise.all(Array.from({ length: count }, () => drive(args, pending, onVerdict)));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function drive(
  args: readonly string[],
  pending: string[],
  onVerdict: (verdict: Verdict) => "go on" | "stop",
): Promise<void> {
  return new Promise((resolve, reject) => {
    const entry = fileURLToPath(new URL("worker.ts", import.meta.url));
    const worker = fork(entry, args, { execArgv: ["--import", "tsx"] });
    worker.on("message", (report: Report) => {
      if (report.kind === "verdict" && onVerdict(report.of) === "stop") pending.length = 0;
      if (report.kind === "ready") {
        worker.send({ seeds: pending.splice(0, BATCH) } satisfies Assignment);
      }
    });
    worker.on("error", reject);
    worker.on("exit", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`a worker of the simulation ended with ${code}`));
    });
  });
}
