/**
 * The stage of scenarios: the simulator with its faults written down instead of drawn.
 *
 * A scenario says which workflow runs, what goes wrong at which call, and what must be seen. The
 * oracle judges it as well. Each is played under several seeds (latencies and ties differ), with
 * heaps kept, and again with every heap and snapshot dropped between deliveries.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventType, RunEvent } from "../../engine/events.ts";
import type { Settings } from "../../engine/settings.ts";
import { settingsOf } from "../../engine/settings.ts";
import { buildSources } from "../sim/bundle.ts";
import { plannedCase, workflowId } from "../sim/catalog.ts";
import type { Planned, Who } from "../sim/catalog.ts";
import { drawsOf } from "../sim/draws.ts";
import type { CallAbout, FaultKind, Faults } from "../sim/faults.ts";
import type { DeliveryRecord, FinalRun, Observation } from "../sim/observation.ts";
import { violationsOf } from "../sim/oracle.ts";
import { openParts } from "../sim/schedules.ts";
import type { OpenParts } from "../sim/schedules.ts";
import { simulate } from "../sim/simulator.ts";
import type { Mutant } from "../sim/simulator.ts";
import type { Program } from "../sim/workflows/programs.ts";
import type { Input } from "../sim/workflows/input.ts";
import type { Plan } from "../sim/workflows/steps.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** A fault at the `nth` call (from 1) that fits. */
export interface Scripted {
  readonly fault: FaultKind;
  readonly at: string;
  readonly nth?: number;
  /** How many calls from there on; 1 if absent. */
  readonly times?: number;
  readonly when?: (call: CallAbout) => boolean;
}

export interface Play {
  readonly runs: readonly ((who: Who) => Planned)[];
  readonly script?: readonly Scripted[];
  /** Instead of a script. */
  readonly faults?: Faults;
  readonly settings?: Partial<Settings>;
  readonly workers?: number;
  /** Where something would go on for ever. */
  readonly horizonMs?: number;
  /** A World that differs on purpose, as no fault of the list does. */
  readonly world?: Mutant;
}

/** What was seen of a play. */
export interface Scene {
  readonly observation: Observation;
  readonly run: FinalRun;
  readonly violations: readonly string[];
  /** Live bodies of a step, by its label. */
  readonly bodies: (label: string) => number;
  readonly count: (...types: readonly EventType[]) => number;
  readonly orchestratorDeliveries: () => readonly DeliveryRecord[];
  readonly stepDeliveries: () => readonly DeliveryRecord[];
  /** Timers by their keys: a second send under a living one's key adds none. */
  readonly timersSent: () => number;
  readonly stepMessagesSent: () => number;
  readonly faultsMet: () => number;
}

const SEEDS = ["one", "two", "three"];

let parts: OpenParts;

export function useStage(): void {
  beforeAll(async () => {
    parts = openParts(await buildSources(), null);
  });
  afterAll(async () => {
    await parts.close();
  });
}

/** A scenario by its name, played in every form; `check` sees each scene. */
export function scenario(name: string, play: Play, check: (scene: Scene) => void): void {
  const always = settingsOf(process.env).isCold;
  const forms = always ? [true] : [false, true];
  describe(name, () => {
    it.each(forms.flatMap((isCold) => SEEDS.map((seed) => [isCold ? "cold" : "warm", seed])))(
      "%s, seed %s",
      async (form, seed) => {
        const scene = await played(play, seed ?? "", form === "cold");
        expect(scene.violations).toEqual([]);
        check(scene);
      },
    );
  });
}

export async function played(play: Play, seed: string, isCold: boolean): Promise<Scene> {
  const faults = play.faults ?? scripted(play.script ?? []);
  const observation = await simulate(
    {
      seed,
      runs: play.runs,
      faults,
      settings: { ...DEFAULTS, ...play.settings, isCold },
      workers: play.workers ?? 1,
      ...(play.horizonMs === undefined ? {} : { horizonMs: play.horizonMs }),
      print: null,
    },
    { ...parts, mutant: play.world ?? null },
  );
  const violations = await violationsOf(observation, parts.model);
  return sceneOf(
    observation,
    violations.map(({ rule, breach }) => `[${rule}] ${breach}`),
  );
}

/**
 * No lingering, and nothing ahead of its commit: each message is a delivery of its own, each write
 * is waited for, unless a scenario is about that.
 */
const DEFAULTS: Partial<Settings> = {
  inlineStepsMax: 3,
  lingerMs: 0,
  runAheadDepth: 0,
  turbo: false,
  inlineWindowMs: 600_000,
  replayCheckEvery: 0,
  liveHeapBytesMax: 512 * 1024 * 1024,
};

function scripted(script: readonly Scripted[]): Faults {
  const seen = new Map<Scripted, number>();
  const met = new Map<string, number>();
  return {
    met,
    get count() {
      return met.size;
    },
    draw: (call) => {
      for (const entry of script) {
        if (entry.at !== call.site || entry.when?.(call) === false) continue;
        const count = (seen.get(entry) ?? 0) + 1;
        seen.set(entry, count);
        const first = entry.nth ?? 1;
        if (count < first || count >= first + (entry.times ?? 1)) continue;
        const key = `${entry.fault} at ${entry.at}`;
        met.set(key, (met.get(key) ?? 0) + 1);
        return entry.fault;
      }
      return null;
    },
  };
}

function sceneOf(observation: Observation, violations: readonly string[]): Scene {
  const run = observation.runs[0];
  if (run === undefined) throw new Error("the play had no run");
  const deliveries = (kind: "orchestrator" | "step") =>
    observation.deliveries.filter(({ message }) => message.kind === kind);
  const sent = (kind: "orchestrator" | "step") =>
    observation.sends.filter(({ message, isStored }) => isStored && message.kind === kind);
  return {
    observation,
    run,
    violations,
    bodies: (label) => observation.bodies.filter((body) => body.label === label).length,
    count: (...types) => run.events.filter(({ eventType }) => types.includes(eventType)).length,
    orchestratorDeliveries: () => deliveries("orchestrator"),
    stepDeliveries: () => deliveries("step"),
    timersSent: () =>
      new Set(
        sent("orchestrator")
          .filter(({ message }) => message.kind === "orchestrator" && message.reason === "timer")
          .map(({ options }) => options.idempotencyKey),
      ).size,
    stepMessagesSent: () => sent("step").length,
    faultsMet: () => [...observation.faults.values()].reduce((sum, count) => sum + count, 0),
  };
}

/** Whether a call writes an event of this type. */
export function writes(eventType: EventType): (call: CallAbout) => boolean {
  return ({ site, args }) => {
    const given = site === "events.createBatch" ? args[1] : [args[1]];
    return (given as readonly RunEvent[]).some((event) => event.eventType === eventType);
  };
}

/** Whether a send, a batch of sends or a delivery is of this kind of message. */
export function about(kind: "step" | "timer" | "wake" | "start"): (call: CallAbout) => boolean {
  const fits = (message: { readonly kind: string; readonly reason?: string }) =>
    kind === "step" ? message.kind === "step" : message.reason === kind;
  return ({ site, args }) => {
    const given = args[0] as { kind: string } & { message: { kind: string } }[];
    return site === "queue.sendBatch" ? given.some(({ message }) => fits(message)) : fits(given);
  };
}

interface Doing {
  readonly payloads?: readonly { readonly hook: string; readonly afterMs: number }[];
  readonly cancelAfterMs?: number;
  readonly wakeAfterMs?: number;
}

/** A run of a program that stands in the scenario itself. */
export function program(of: Program, doing: Doing = {}) {
  return (who: Who): Planned => ({
    workflow: workflowId("programs", "runProgram"),
    input: { ...who, program: of },
    script: {
      payloads: (doing.payloads ?? []).map((payload, i) => ({ ...payload, value: `p${i}` })),
      cancelAfterMs: doing.cancelAfterMs ?? null,
      wakeAfterMs: doing.wakeAfterMs ?? null,
      webhookStatus: null,
      reads: false,
    },
    expected: null,
    creations: null,
  });
}

/** A run of a workflow of the library. */
export function library(name: string, input: Partial<Input> = {}) {
  return (who: Who): Planned => plannedCase(drawsOf(name), who, name, input);
}

export const step = (label: string, plan: Partial<Plan> = {}): Program => ({
  do: "step",
  label,
  plan: { ms: 10, ...plan },
});
export const sleep = (ms: number): Program => ({ do: "sleep", ms });
export const hook = (name: string, times = 1): Program => ({ do: "hook", name, times });
export const sequence = (...of: readonly Program[]): Program => ({ do: "sequence", of });
export const all = (...of: readonly Program[]): Program => ({ do: "all", of });
export const race = (...of: readonly Program[]): Program => ({ do: "race", of });
