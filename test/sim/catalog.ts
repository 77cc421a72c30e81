/**
 * The simulated workflows: how each is started, what its client does, and what it must come to.
 *
 * `expected` is given only where nothing but values decides the outcome; such a run must come to
 * it under every schedule. The others are held against their own logs (`oracle/model.ts`).
 */
import type { Draws } from "./draws.ts";
import { expectationOf, hooksOf, randomProgram } from "./random-program.ts";
import type { Input } from "./workflows/input.ts";
import type { ProgramInput } from "./workflows/programs.ts";

/** What the client of a run does, in virtual ms after the start. */
export interface Script {
  readonly payloads: readonly {
    readonly hook: string;
    readonly value: string;
    readonly afterMs: number;
  }[];
  readonly cancelAfterMs: number | null;
  readonly wakeAfterMs: number | null;
  /** The status that a request to the run's webhook is answered with; null: none is made. */
  readonly webhookStatus: number | null;
  /** Reads the run's stream live. */
  readonly reads: boolean;
}

const NOTHING_TO_DO: Script = {
  payloads: [],
  cancelAfterMs: null,
  wakeAfterMs: null,
  webhookStatus: null,
  reads: false,
};

export interface Planned {
  readonly workflow: string;
  readonly input: Input | ProgramInput;
  readonly script: Script;
  /** Null: how the run ends depends on timing. */
  readonly expected: Expected | null;
  /** Only of random programs that do not depend on timing: `step label`, `wait`, …, sorted. */
  readonly creations: readonly string[] | null;
}

export type Expected = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

interface Case {
  readonly file: string;
  readonly weight?: number;
  readonly width?: readonly [from: number, to: number];
  readonly hooks?: (draws: Draws) => readonly { hook: string; value: string }[];
  readonly cancels?: true;
  readonly wakes?: true;
  readonly webhookStatus?: number;
  readonly reads?: true;
  readonly expected?: (input: Input) => Expected;
}

const did = (prefix: string, width: number) =>
  Array.from({ length: width }, (_, i) => `did ${prefix}${i}`);
const value = (of: (input: Input) => Record<string, unknown>) => (input: Input) =>
  ({ ok: true, value: { canary: input.canary, ...of(input) } }) as const;
const one = () => [{ hook: "a", value: "one" }];
const seriesOf = (count: number) => (draws: Draws) => [
  ...Array.from({ length: draws.between(1, count) }, (_, i) => ({ hook: "a", value: `p${i}` })),
  { hook: "a", value: "stop" },
];

const CASES: Readonly<Record<string, Case>> = {
  sequence: {
    file: "sequences",
    expected: value(({ width }) => ({ done: did("s", width) })),
  },
  stepsAndSleeps: {
    file: "sequences",
    expected: value(({ width }) => ({ done: did("s", width) })),
  },
  generatorLoop: {
    file: "sequences",
    expected: value(({ width }) => ({ done: did("g", width) })),
  },
  attributes: { file: "sequences", expected: value(({ width }) => ({ width })) },
  clockReader: { file: "sequences", expected: value(() => ({ isOrdered: true })) },
  randomReader: { file: "sequences" },
  reduceTree: { file: "sequences", expected: value(({ width }) => ({ tree: treeOf(width) })) },
  fanOut: {
    file: "fan-outs",
    width: [2, 24],
    expected: value(({ width }) => ({ done: did("f", width) })),
  },
  fanOutThenSleep: {
    file: "fan-outs",
    width: [2, 16],
    expected: value(({ width }) => ({ done: did("f", width) })),
  },
  chunkedFanOut: {
    file: "fan-outs",
    expected: value(({ width }) => ({ done: [...did("k0.", width), ...did("k1.", width)] })),
  },
  settledFanOut: {
    file: "fan-outs",
    expected: value(({ width }) => ({
      settled: Array.from({ length: width }, (_, i) => (i % 3 === 2 ? "rejected" : "fulfilled")),
    })),
  },
  anyOf: { file: "fan-outs", expected: value(() => ({ winner: "did good" })) },
  noneOf: { file: "fan-outs", expected: value(({ width }) => ({ errors: width })) },
  looseSteps: { file: "fan-outs", expected: value(() => ({ kept: "did kept" })) },
  stepAgainstHook: { file: "races", hooks: one, expected: value(() => ({ isKnown: true })) },
  stepAgainstSleep: { file: "races", expected: value(() => ({ isKnown: true })) },
  hookAgainstSleep: { file: "races", hooks: one, expected: value(() => ({ isKnown: true })) },
  sleepAgainstSleep: { file: "races", expected: value(() => ({ isKnown: true })) },
  stepAgainstStep: { file: "races", expected: value(() => ({ isKnown: true })) },
  hookAgainstHook: {
    file: "races",
    hooks: () => [
      { hook: "a", value: "one" },
      { hook: "b", value: "other" },
    ],
    expected: value(() => ({ isKnown: true })),
  },
  raceLoop: { file: "races", hooks: one, expected: value(({ width }) => ({ turns: width })) },
  hookOnce: { file: "hooks", hooks: one, expected: value(() => ({ payload: "one" })) },
  hookLoop: { file: "hooks", hooks: seriesOf(6) },
  hookBuffered: {
    file: "hooks",
    hooks: () => [
      { hook: "a", value: "one" },
      { hook: "a", value: "two" },
    ],
    expected: value(() => ({ payloads: ["one", "two"] })),
  },
  hookDisposed: { file: "hooks", hooks: one, expected: value(() => ({ isText: true })) },
  hookConflict: {
    file: "hooks",
    hooks: one,
    expected: value(() => ({ isTaken: true, payload: "one" })),
  },
  hookReused: {
    file: "hooks",
    hooks: one,
    expected: value(() => ({ payload: "one", isFree: true })),
  },
  hookGuard: { file: "hooks", expected: value(() => ({ isMine: true, isTaken: true })) },
  manyHooks: {
    file: "hooks",
    hooks: () => ["a", "b", "c"].map((hook) => ({ hook, value: `to ${hook}` })),
    expected: value(() => ({ results: ["to a", "to b", "to c"] })),
  },
  retriedSteps: {
    file: "failures",
    expected: value(({ width }) => ({ done: did("r", width) })),
  },
  retriedInDays: {
    file: "failures",
    expected: value(() => ({ done: ["did slow", "did now"] })),
  },
  exhausted: { file: "failures", expected: value(() => ({ caught: "FatalError" })) },
  compensated: {
    file: "failures",
    expected: value(({ width }) => ({
      undone: Array.from({ length: width }, (_, i) => `undo${width - 1 - i}`),
    })),
  },
  nestedTries: {
    file: "failures",
    expected: value(() => ({ trace: ["inner", "finally", "outer", "did mended"] })),
  },
  unserializable: {
    file: "failures",
    expected: value(() => ({ caught: "error", sibling: "did sibling" })),
  },
  onceSteps: { file: "failures", expected: value(({ width }) => ({ count: width })) },
  failsItself: { file: "failures", expected: () => ({ ok: false }) },
  longSleep: { file: "times", expected: value(() => ({ isLong: true })) },
  manySleeps: { file: "times", expected: value(({ width }) => ({ count: width })) },
  hourAndTwo: { file: "times", expected: value(() => ({ isDue: true })) },
  shortSleeps: { file: "times", expected: value(() => ({})) },
  wrongSleeps: { file: "times", expected: value(() => ({ refused: 4 })) },
  wokenSleep: { file: "times", wakes: true, expected: value(() => ({})) },
  cancelledOnItsWay: { file: "times", cancels: true },
};

/** Of `workflows/outside.ts`: what reaches other runs, streams, signals, webhooks, tokens. */
const OUTSIDE_CASES: Readonly<Record<string, Case>> = {
  parent: {
    file: "outside",
    expected: value(({ width, token }) => ({
      dids: Array.from({ length: Math.min(width, 3) }, (_, i) => `did in-${token}/c${i}`),
    })),
  },
  childCancelled: {
    file: "outside",
    expected: value(() => ({ caught: "WorkflowRunCancelledError", status: "cancelled" })),
  },
  abortedByWorkflow: { file: "outside", expected: value(() => ({ told: "told enough" })) },
  abortedByStep: {
    file: "outside",
    expected: value(() => ({ told: "told aborter", reason: "aborter" })),
  },
  abortsChild: {
    file: "outside",
    expected: value(() => ({ told: "told family", reason: "family" })),
  },
  abortedByChild: {
    file: "outside",
    expected: value(() => ({ told: "told last words", reason: "last words" })),
  },
  writers: { file: "outside", reads: true, expected: value(() => ({ done: "did after" })) },
  piped: {
    file: "outside",
    expected: value(({ width }) => ({ read: Array.from({ length: width }, (_, i) => i).join() })),
  },
  tagged: { file: "outside", expected: value(({ width }) => ({ width })) },
  claimer: { file: "outside", hooks: one },
  kept: {
    file: "outside",
    expected: value(() => ({ isMine: true, isTaken: true, isFree: true })),
  },
  webhookDefault: {
    file: "outside",
    webhookStatus: 202,
    expected: value(() => ({ method: "POST" })),
  },
  webhookStatic: {
    file: "outside",
    webhookStatus: 204,
    expected: value(() => ({ method: "POST" })),
  },
  webhookManual: {
    file: "outside",
    webhookStatus: 201,
    expected: value(() => ({ method: "POST" })),
  },
};

/** Runs that other runs start; of these nobody but their parents cancels one. */
const CANCELLED_CHILDREN = ["sleeper", "victim"];

/** A run that no client asked for: what a run of a client started. */
export function plannedChild(workflow: string, input: Input): Planned {
  const name = workflow.slice(workflow.lastIndexOf("/") + 1);
  const isCancelled = CANCELLED_CHILDREN.includes(name);
  const script = { ...NOTHING_TO_DO, cancelAfterMs: isCancelled ? 0 : null };
  return { workflow, input, script, expected: null, creations: null };
}

function treeOf(width: number): string {
  let level = Array.from({ length: width }, (_, i) => `${i}`);
  while (level.length > 1) {
    const next: string[] = [];
    for (let i = 0; i < level.length; i += 2) next.push(`(${level.slice(i, i + 2).join(" ")})`);
    level = next;
  }
  return level[0] ?? "";
}

const ALL_CASES: Readonly<Record<string, Case>> = { ...CASES, ...OUTSIDE_CASES };
export const CASE_NAMES: readonly string[] = Object.keys(CASES);
export const OUTSIDE_NAMES: readonly string[] = Object.keys(OUTSIDE_CASES);
/** Their runs start others and wait for clients, so they are dear; few are drawn. */
const OUTSIDE_CHANCE = 0.12;
/** A fan-out this wide is drawn in at most one seed of a hundred. */
const WIDE = 1_024;
const WIDE_CHANCE = 0.004;

export interface Who {
  readonly canary: string;
  readonly token: string;
}

/** A run to start: half of them from the library, half random programs. */
export function plannedRun(draws: Draws, who: Who): Planned {
  if (draws.chance(OUTSIDE_CHANCE)) return plannedCase(draws, who, draws.pick(OUTSIDE_NAMES));
  return draws.chance(0.5) ? plannedCase(draws, who, draws.pick(CASE_NAMES)) : program(draws, who);
}

export function plannedCase(
  draws: Draws,
  who: Who,
  name: string,
  fixed: Partial<Input> = {},
): Planned {
  const found = ALL_CASES[name];
  if (found === undefined) throw new Error(`there is no workflow ${name}`);
  const [from, to] = found.width ?? [2, 6];
  const isWide = name === "fanOut" && draws.chance(WIDE_CHANCE);
  const input: Input = {
    ...who,
    hops: draws.pick([0, 0, 1, 2, 4, 8, 16]),
    width: isWide ? WIDE : draws.between(from, to),
    ms: draws.pick([0, 1, 10, 100, 100, 1_000]),
    ...fixed,
  };
  return {
    workflow: workflowId(found.file, name),
    input,
    script: scriptOf(draws, found),
    expected: found.expected?.(input) ?? null,
    creations: null,
  };
}

function program(draws: Draws, who: Who): Planned {
  const isIndependent = draws.chance(0.5);
  const program = randomProgram(draws, isIndependent);
  const payloads = hooksOf(program).flatMap(({ name, times }) =>
    Array.from({ length: times }, (_, i) => ({
      hook: name,
      value: `${name}.${i}`,
      afterMs: afterMs(draws),
    })),
  );
  const expectation = isIndependent ? expectationOf(program) : null;
  return {
    workflow: workflowId("programs", "runProgram"),
    input: { ...who, program },
    script: { ...NOTHING_TO_DO, payloads },
    expected: expectation === null ? null : outcomeOf(expectation.result, who.canary),
    creations: expectation?.creations ?? null,
  };
}

function outcomeOf(result: { readonly value: unknown } | null, canary: string): Expected {
  if (result === null) return { ok: false };
  return { ok: true, value: { canary, result: result.value } };
}

function scriptOf(draws: Draws, { hooks, cancels, wakes, ...more }: Case): Script {
  let at = 0;
  const payloads = (hooks?.(draws) ?? []).map((payload) => {
    at += afterMs(draws);
    return { ...payload, afterMs: at };
  });
  return {
    payloads,
    cancelAfterMs: cancels === true ? draws.between(0, 20_000) : null,
    wakeAfterMs: wakes === true ? draws.between(2_000, 60_000) : null,
    webhookStatus: more.webhookStatus ?? null,
    reads: more.reads === true,
  };
}

function afterMs(draws: Draws): number {
  return draws.pick([0, 1, 10, 100, 100, 1_000, 30_000]);
}

export function workflowId(file: string, name: string): string {
  return `workflow//./${file}//${name}`;
}
