/**
 * One seed, simulated and judged, as a small verdict that crosses process borders.
 */
import { createSandbox } from "../../sandbox/index.ts";
import { modelOf } from "./bundle.ts";
import type { SimulatedSources } from "./bundle.ts";
import { makeEngine } from "./make-engine.ts";
import type { ModelBundle } from "./oracle/model.ts";
import { violationsOf } from "./oracle.ts";
import { simulate } from "./simulator.ts";
import type { Mutant, ScheduleOptions, SimulationParts } from "./simulator.ts";

/** Where an engine's calls leave it. */
export const SITES: readonly string[] = [
  "events.create",
  "events.createBatch",
  "events.get",
  "events.list",
  "events.subscribe",
  "runs.get",
  "snapshots.get",
  "snapshots.put",
  "snapshots.delete",
  "openEntities",
  "queue.send",
  "queue.sendBatch",
  "hooks.getByToken",
  "streams.write",
  "streams.close",
  "streams.getChunks",
  "streams.list",
  "streams.getInfo",
  "delivery",
  "body",
  "sandbox.open",
  "sandbox.pass",
];

export interface Verdict {
  readonly seed: string;
  /** One line each. */
  readonly violations: readonly string[];
  readonly events: number;
  readonly passes: number;
  readonly faults: number;
  /** `fault at site`. */
  readonly met: readonly string[];
  readonly sites: readonly string[];
  readonly ms: number;
}

export interface OpenParts extends SimulationParts {
  readonly model: ModelBundle;
  close(): Promise<void>;
}

export function openParts(sources: SimulatedSources, mutant: Mutant | null): OpenParts {
  const sandbox = createSandbox({ form: "calling-thread" });
  return {
    sandbox,
    sources,
    mutant,
    makeEngine,
    model: modelOf(sources),
    close: () => sandbox.close(),
  };
}

export async function judged(
  seed: string,
  parts: OpenParts,
  print: ((line: string) => void) | null = null,
  more: Partial<ScheduleOptions> = {},
): Promise<Verdict> {
  const startedAt = performance.now();
  const observation = await simulate({ seed, print, ...more }, parts);
  const violations = await violationsOf(observation, parts.model);
  const events = observation.runs.reduce((sum, run) => sum + run.events.length, 0);
  const faults = [...observation.faults.values()].reduce((sum, count) => sum + count, 0);
  return {
    seed,
    violations: violations.map(({ rule, runId, breach }) => `[${rule}] ${runId ?? "-"} ${breach}`),
    events,
    passes: observation.calls.get("sandbox.pass") ?? 0,
    faults,
    met: [...observation.faults.keys()],
    sites: [...observation.calls.keys()],
    ms: performance.now() - startedAt,
  };
}
