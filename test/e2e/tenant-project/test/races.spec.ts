/**
 * Every race of {step, hook, sleep, cancel, wake, crash}, two at a time, in both orders.
 *
 * "X before Y" is: X commits, then Y, and the run's orchestrator decides nothing between the two.
 * The six kinds make thirty ordered pairs; the nine pairs within a kind that make sense are below
 * them. Left out, since there is no such order:
 *
 * - a sleep before a shorter one, by time: time has one direction. By a wake it is "wake before sleep".
 * - one cancellation, wake or crash before another of its kind, the other way round: nothing tells
 *   the two apart, so one order of each is all there is.
 */
import { createTestBaton, moves } from "baton/testing";
import type { Landing, LoggedEvent, Move, TestBaton, TestOutcome } from "baton/testing";
import { buildBundle } from "baton/build";
import type { BuiltBundle } from "baton/build";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Entrant } from "../workflows/first.ts";

const { step, hook, sleep, cancel, wake, crash } = moves;

/**
 * Warm: heaps stay, steps run in place. Cold: every event is met by a replay of the whole log, and
 * steps run from the queue. The log is the same.
 */
const MODES = {
  warm: {},
  cold: { isCold: true, inlineStepsMax: 0, lingerMs: 0 },
} as const;
type Mode = keyof typeof MODES;

interface Race {
  readonly race: string;
  readonly entrants: readonly Entrant[];
  /** `waits`: the sleeps' ids, in the order of the entrants. */
  readonly script: readonly Move[] | ((waits: readonly string[]) => readonly Move[]);
  /** Who `Promise.race` says came first; absent: the run was cancelled, for the reason "no". */
  readonly winner?: string;
  /** What the log says from the first move on, warm and cold. */
  readonly log: readonly string[];
  /** The moves that came too late: the run had ended. */
  readonly tooLate?: readonly Move["kind"][];
}

const A: Entrant = { kind: "step", name: "a" };
const B: Entrant = { kind: "step", name: "b" };
const X: Entrant = { kind: "hook", token: "x" };
const Y: Entrant = { kind: "hook", token: "y" };
const MINUTE: Entrant = { kind: "sleep", ms: 60_000 };
const TWO_MINUTES: Entrant = { kind: "sleep", ms: 120_000 };
const xPaid = hook("x", "x paid");
const yPaid = hook("y", "y paid");
const stop = cancel("no");

const RACES: readonly Race[] = [
  {
    race: "step before hook",
    entrants: [A, X],
    script: [step("a"), xPaid],
    winner: "a",
    log: ["step_completed a", "hook_received x", "run_completed"],
  },
  {
    race: "hook before step",
    entrants: [A, X],
    script: [xPaid, step("a")],
    winner: "x paid",
    log: ["hook_received x", "step_completed a", "run_completed"],
  },
  {
    race: "step before sleep",
    entrants: [A, MINUTE],
    script: [step("a"), sleep()],
    winner: "a",
    log: ["step_completed a", "wait_completed 0", "run_completed"],
  },
  {
    race: "sleep before step",
    entrants: [A, MINUTE],
    script: [sleep(), step("a")],
    winner: "slept 60000",
    log: ["wait_completed 0", "step_completed a", "run_completed"],
  },
  {
    race: "step before cancel",
    entrants: [A],
    script: [step("a"), stop],
    log: ["step_completed a", "run_cancelled"],
  },
  {
    // A run that is over still takes a body's outcome; nobody hears of it.
    race: "cancel before step",
    entrants: [A],
    script: [stop, step("a")],
    log: ["run_cancelled", "step_completed a"],
  },
  {
    race: "step before wake",
    entrants: [A, MINUTE],
    script: [step("a"), wake()],
    winner: "a",
    log: ["step_completed a", "wake_requested", "wait_completed 0", "run_completed"],
  },
  {
    // A wake is a request: the sleep ends when the orchestrator next acts, which is behind the step.
    race: "wake before step",
    entrants: [A, MINUTE],
    script: [wake(), step("a")],
    winner: "a",
    log: ["wake_requested", "step_completed a", "wait_completed 0", "run_completed"],
  },
  {
    race: "step before crash",
    entrants: [A],
    script: [step("a"), crash()],
    winner: "a",
    log: ["step_completed a", "run_completed"],
  },
  {
    // The outcome died with the worker, so the body runs again.
    race: "crash before step",
    entrants: [A],
    script: [crash(), step("a")],
    winner: "a",
    log: ["step_started a", "step_completed a", "run_completed"],
  },
  {
    race: "hook before sleep",
    entrants: [X, MINUTE],
    script: [xPaid, sleep()],
    winner: "x paid",
    log: ["hook_received x", "wait_completed 0", "run_completed"],
  },
  {
    race: "sleep before hook",
    entrants: [X, MINUTE],
    script: [sleep(), xPaid],
    winner: "slept 60000",
    log: ["wait_completed 0", "hook_received x", "run_completed"],
  },
  {
    race: "hook before cancel",
    entrants: [X],
    script: [xPaid, stop],
    log: ["hook_received x", "run_cancelled"],
  },
  {
    race: "cancel before hook",
    entrants: [X],
    script: [stop, xPaid],
    log: ["run_cancelled"],
    tooLate: ["hook"],
  },
  {
    race: "hook before wake",
    entrants: [X, MINUTE],
    script: [xPaid, wake()],
    winner: "x paid",
    log: ["hook_received x", "wake_requested", "wait_completed 0", "run_completed"],
  },
  {
    race: "wake before hook",
    entrants: [X, MINUTE],
    script: [wake(), xPaid],
    winner: "x paid",
    log: ["wake_requested", "hook_received x", "wait_completed 0", "run_completed"],
  },
  {
    race: "hook before crash",
    entrants: [X],
    script: [xPaid, crash()],
    winner: "x paid",
    log: ["hook_received x", "run_completed"],
  },
  {
    race: "crash before hook",
    entrants: [X],
    script: [crash(), xPaid],
    winner: "x paid",
    log: ["hook_received x", "run_completed"],
  },
  {
    // What was decided before it was heard of lands behind it, and changes nothing.
    race: "sleep before cancel",
    entrants: [MINUTE],
    script: [sleep(), stop],
    log: ["wait_completed 0", "run_cancelled", "run_completed"],
  },
  {
    race: "cancel before sleep",
    entrants: [MINUTE],
    script: [stop, sleep()],
    log: ["run_cancelled"],
    tooLate: ["sleep"],
  },
  {
    // The longer sleep is woken, and has lost already.
    race: "sleep before wake",
    entrants: [MINUTE, TWO_MINUTES],
    script: [sleep(), wake()],
    winner: "slept 60000",
    log: ["wait_completed 0", "wake_requested", "run_completed"],
  },
  {
    // The longer sleep is woken before the shorter one ends; both end at once, first asked first.
    race: "wake before sleep",
    entrants: [TWO_MINUTES, MINUTE],
    script: ([long]) => [wake([long ?? ""]), sleep()],
    winner: "slept 120000",
    log: ["wake_requested", "wait_completed 0", "wait_completed 1", "run_completed"],
  },
  {
    race: "sleep before crash",
    entrants: [MINUTE],
    script: [sleep(), crash()],
    winner: "slept 60000",
    log: ["wait_completed 0", "run_completed"],
  },
  {
    race: "crash before sleep",
    entrants: [MINUTE],
    script: [crash(), sleep()],
    winner: "slept 60000",
    log: ["wait_completed 0", "run_completed"],
  },
  {
    race: "cancel before wake",
    entrants: [MINUTE],
    script: [stop, wake()],
    log: ["run_cancelled"],
    tooLate: ["wake"],
  },
  {
    race: "wake before cancel",
    entrants: [MINUTE],
    script: [wake(), stop],
    log: ["wake_requested", "run_cancelled"],
  },
  {
    race: "cancel before crash",
    entrants: [MINUTE],
    script: [stop, crash()],
    log: ["run_cancelled"],
  },
  {
    race: "crash before cancel",
    entrants: [MINUTE],
    script: [crash(), stop],
    log: ["run_cancelled"],
  },
  {
    race: "wake before crash",
    entrants: [MINUTE],
    script: [wake(), crash()],
    winner: "slept 60000",
    log: ["wake_requested", "wait_completed 0", "run_completed"],
  },
  {
    race: "crash before wake",
    entrants: [MINUTE],
    script: [crash(), wake()],
    winner: "slept 60000",
    log: ["wake_requested", "wait_completed 0", "run_completed"],
  },

  // Within a kind.
  {
    race: "step a before step b",
    entrants: [A, B],
    script: [step("a"), step("b")],
    winner: "a",
    log: ["step_completed a", "step_completed b", "run_completed"],
  },
  {
    race: "step b before step a",
    entrants: [A, B],
    script: [step("b"), step("a")],
    winner: "b",
    log: ["step_completed b", "step_completed a", "run_completed"],
  },
  {
    race: "hook x before hook y",
    entrants: [X, Y],
    script: [xPaid, yPaid],
    winner: "x paid",
    log: ["hook_received x", "hook_received y", "run_completed"],
  },
  {
    race: "hook y before hook x",
    entrants: [X, Y],
    script: [yPaid, xPaid],
    winner: "y paid",
    log: ["hook_received y", "hook_received x", "run_completed"],
  },
  {
    race: "sleep before a longer sleep",
    entrants: [TWO_MINUTES, MINUTE],
    script: [sleep(), sleep()],
    winner: "slept 60000",
    log: ["wait_completed 1", "run_completed"],
    tooLate: ["sleep"],
  },
  {
    race: "sleep before a sleep of the same instant",
    entrants: [MINUTE, MINUTE],
    script: (waits) => waits.map((waitId) => sleep(waitId)),
    winner: "slept 60000",
    log: ["wait_completed 0", "wait_completed 1", "run_completed"],
  },
  {
    race: "cancel before another cancel",
    entrants: [MINUTE],
    script: [stop, cancel("too late")],
    log: ["run_cancelled"],
    tooLate: ["cancel"],
  },
  {
    // Two requests are one by the time the orchestrator acts: sleeps end in the order they began.
    race: "wake before another wake",
    entrants: [MINUTE, TWO_MINUTES],
    script: ([short = "", long = ""]) => [wake([long]), wake([short])],
    winner: "slept 60000",
    log: [
      "wake_requested",
      "wake_requested",
      "wait_completed 0",
      "wait_completed 1",
      "run_completed",
    ],
  },
  {
    race: "crash before another crash",
    entrants: [MINUTE],
    script: [crash(), crash(), sleep()],
    winner: "slept 60000",
    log: ["wait_completed 0", "run_completed"],
  },
];

let bundle: BuiltBundle;
let kit: TestBaton;

beforeAll(async () => {
  bundle = await buildBundle({ projectRoot: ".", entries: ["workflows"] });
});

describe("the table", () => {
  it("has 39 races, none twice", () => {
    expect(new Set(RACES.map(({ race }) => race)).size).toBe(39);
  });
});

describe.each(Object.keys(MODES) as Mode[])("%s", (mode) => {
  beforeEach(async () => {
    kit = await createTestBaton({ deploy: bundle, settings: MODES[mode] });
    kit.hold("a");
    kit.hold("b");
  });
  afterEach(async () => {
    await kit.close();
  });

  it.each(RACES)("$race", async ({ entrants, script, winner, log, tooLate = [] }) => {
    const run = await kit.baton.start("first", [entrants]);
    for (const entrant of entrants) {
      if (entrant.kind === "step") await kit.waitForStep(run, entrant.name);
    }
    await kit.settle();
    const before = await kit.events(run);
    const moves = typeof script === "function" ? script(waitsOf(before)) : script;
    const landings = await kit.race(run, moves);
    const events = await kit.events(run);
    const expected: TestOutcome =
      winner === undefined
        ? { status: "cancelled", cancelReason: "no" }
        : { status: "completed", output: winner };
    expect(await kit.outcome(run)).toEqual(expected);
    expect(told(events).slice(before.length)).toEqual(log);
    expect(lateOf(moves, landings)).toEqual(tooLate);
    expect(areInOrder(landings)).toBe(true);
  });
});

function waitsOf(events: readonly LoggedEvent[]): readonly string[] {
  const created = events.filter(({ eventType }) => eventType === "wait_created");
  return created.map(({ entityId }) => entityId ?? "");
}

/** Each event with what it is about: a step's name, a hook's token, which of the sleeps. */
function told(events: readonly LoggedEvent[]): readonly string[] {
  const waits = waitsOf(events);
  const hooks = events.filter(({ eventType }) => eventType === "hook_created");
  const tokens = new Map(hooks.map(({ entityId, data }) => [entityId, data["token"]]));
  return events.map(({ eventType, entityId, data }) => {
    switch (eventType) {
      case "step_started":
      case "step_completed":
        return `${eventType} ${String(data["stepName"]).split("/").at(-1)}`;
      case "hook_received":
        return `${eventType} ${tokens.get(entityId)}`;
      case "wait_completed":
        return `${eventType} ${waits.indexOf(entityId ?? "")}`;
      default:
        return eventType;
    }
  });
}

function lateOf(moves: readonly Move[], landings: readonly Landing[]): readonly Move["kind"][] {
  return moves.filter((_, i) => landings[i]?.kind === "too_late").map(({ kind }) => kind);
}

function areInOrder(landings: readonly Landing[]): boolean {
  const slots = landings.flatMap((landing) => (landing.kind === "committed" ? [landing.slot] : []));
  return slots.every((slot, i) => i === 0 || slot > (slots[i - 1] ?? 0));
}
