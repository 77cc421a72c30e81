/**
 * Scripted races: a test says in which order things commit.
 *
 * Owns the moves and how each is brought to its commit while the run's orchestrator is kept away.
 * Order is made by when things happen and by nothing else: every commit is the engine's own.
 */
import type { Baton, Run } from "../compose.ts";
import { assertNever } from "../assert.ts";
import { BatonError, isBatonError } from "../errors.ts";
import type { EventType, RunEvent } from "../events.ts";
import type { Door, Watch } from "./door.ts";
import { isNamed } from "./held-steps.ts";
import type { HeldSteps } from "./held-steps.ts";
import { isOver } from "./looking.ts";
import type { LoggedEvent, Looking, OpenSleep } from "./looking.ts";

/** Something that can commit before or behind something else. Made by `moves`. */
export type Move =
  | { readonly kind: "step"; readonly name: string }
  | { readonly kind: "hook"; readonly token: string; readonly payload: unknown }
  | { readonly kind: "sleep"; readonly waitId: string | null }
  | { readonly kind: "cancel"; readonly reason: string | null }
  | { readonly kind: "wake"; readonly waitIds: readonly string[] | null }
  | { readonly kind: "crash" };

/** The moves of a race. */
export const moves = {
  /**
   * What a body of the step came to: its result, its error, or that it is to be tried again. `name`
   * is the function's name or the step's id. Hold the step before the run starts (`kit.hold`).
   */
  step: (name: string): Move => ({ kind: "step", name }),
  /** A payload for the open hook of this token. */
  hook: (token: string, payload?: unknown): Move => ({ kind: "hook", token, payload }),
  /** The end of a sleep: time moves to it. The one that ends first, unless one is named. */
  sleep: (waitId?: string): Move => ({ kind: "sleep", waitId: waitId ?? null }),
  cancel: (reason?: string): Move => ({ kind: "cancel", reason: reason ?? null }),
  /**
   * A request to end sleeps now: those named, or all that are open. What commits here is the request;
   * the run's orchestrator ends the sleeps when it next acts.
   */
  wake: (waitIds?: readonly string[]): Move => ({ kind: "wake", waitIds: waitIds ?? null }),
  /** The worker dies, with its heaps, its timers and all that it has not answered. */
  crash: (): Move => ({ kind: "crash" }),
} as const;

/** What became of a move. */
export type Landing =
  | { readonly kind: "committed"; readonly eventType: EventType; readonly slot: number }
  | { readonly kind: "crashed" }
  /** The run was over before it could commit. */
  | { readonly kind: "too_late"; readonly status: "completed" | "failed" | "cancelled" };

export interface RaceParts {
  readonly baton: Baton;
  readonly door: Door;
  readonly held: HeldSteps;
  readonly looking: Looking;
  readonly nowMs: () => number;
  readonly advance: (ms: number) => Promise<void>;
  readonly settle: () => Promise<void>;
  readonly crash: () => Promise<void>;
}

const STEP_OUTCOMES: ReadonlySet<EventType> = new Set<EventType>([
  "step_completed",
  "step_failed",
  "step_retrying",
]);

/** Makes each move commit, in this order; the run goes on behind the last one. */
export async function race(
  parts: RaceParts,
  run: Run,
  script: readonly Move[],
): Promise<readonly Landing[]> {
  await parts.settle();
  const { runId } = run;
  const landings: Landing[] = [];
  try {
    for (const move of script) {
      parts.door.shut(runId);
      await parts.settle();
      landings.push(await landed(parts, run, move));
    }
  } finally {
    parts.door.open(runId);
  }
  await parts.settle();
  return landings;
}

async function landed(parts: RaceParts, run: Run, move: Move): Promise<Landing> {
  if (move.kind === "crash") {
    await parts.crash();
    return { kind: "crashed" };
  }
  const { status } = await parts.looking.row(run);
  // A body may still report to a run that is over.
  if (isOver(status) && move.kind !== "step") return { kind: "too_late", status };
  switch (move.kind) {
    case "step":
      return stepLanded(parts, run, move.name);
    case "sleep":
      return sleepLanded(parts, run, move.waitId);
    case "hook":
    case "cancel":
    case "wake":
      return requestLanded(parts, run, move);
    default:
      return assertNever(move);
  }
}

/** What a client asks for is in the log when its call answers. */
async function requestLanded(
  parts: RaceParts,
  run: Run,
  move: Extract<Move, { kind: "hook" | "cancel" | "wake" }>,
): Promise<Landing> {
  const { eventType, ask } = requestOf(parts, run, move);
  const watch = parts.door.watch(run.runId, (event) => event.eventType === eventType);
  try {
    const isTaken = await ask();
    if (isTaken && watch.landed !== null) return committed(watch.landed);
  } finally {
    watch.end();
  }
  throw await refused(parts, run, move.kind);
}

function requestOf(
  { baton }: RaceParts,
  run: Run,
  move: Extract<Move, { kind: "hook" | "cancel" | "wake" }>,
): { readonly eventType: EventType; readonly ask: () => Promise<boolean> } {
  switch (move.kind) {
    case "hook":
      return {
        eventType: "hook_received",
        ask: async () => {
          const { tenantId } = run;
          try {
            return (
              (await baton.resumeHook(move.token, move.payload, { tenantId })).runId === run.runId
            );
          } catch (error) {
            if (isBatonError(error, "HOOK_NOT_FOUND")) return false;
            throw error;
          }
        },
      };
    case "cancel":
      return { eventType: "run_cancelled", ask: () => run.cancel(move.reason ?? undefined) };
    case "wake":
      return {
        eventType: "wake_requested",
        ask: async () => (await run.wakeUp(move.waitIds ?? undefined)).stoppedCount > 0,
      };
    default:
      return assertNever(move);
  }
}

/** The body's outcome is let go; one that the orchestrator has to write brings it to the door. */
async function stepLanded(parts: RaceParts, run: Run, name: string): Promise<Landing> {
  const isOutcome = (event: RunEvent) =>
    STEP_OUTCOMES.has(event.eventType) &&
    "stepName" in event.eventData &&
    isNamed(event.eventData.stepName, name);
  const letOneGo = async (): Promise<boolean> => {
    const first = parts.held.of(run.runId).find((held) => isNamed(held.stepName, name));
    first?.letGo();
    // Before the orchestrator hears of anything else: the outcome is the next thing that it writes.
    if (first !== undefined) await parts.settle();
    return first !== undefined;
  };
  const watch = parts.door.watch(run.runId, isOutcome);
  return brought(parts, run, { what: `an outcome of step ${name}`, watch, before: letOneGo });
}

async function sleepLanded(parts: RaceParts, run: Run, waitId: string | null): Promise<Landing> {
  const sleep = first(await parts.looking.sleeps(run), waitId);
  if (sleep === null) return endedAlready(parts, run, waitId);
  const watch = parts.door.watch(
    run.runId,
    (event) => event.eventType === "wait_completed" && event.correlationId === sleep.waitId,
  );
  await parts.advance(Math.max(0, sleep.resumeAt - parts.nowMs()));
  const before = async (): Promise<boolean> => true;
  return brought(parts, run, { what: "the end of its sleep", watch, before });
}

/** Sleeps that end at one instant commit together, so a named one may be in the log by now. */
async function endedAlready(parts: RaceParts, run: Run, waitId: string | null): Promise<Landing> {
  const ended = (await parts.looking.events(run)).find(
    ({ eventType, entityId }) => eventType === "wait_completed" && entityId === waitId,
  );
  if (ended === undefined) throw await refused(parts, run, "sleep");
  return committed(ended);
}

function first(sleeps: readonly OpenSleep[], waitId: string | null): OpenSleep | null {
  const among = sleeps.filter((sleep) => waitId === null || sleep.waitId === waitId);
  return among.toSorted((a, b) => a.resumeAt - b.resumeAt)[0] ?? null;
}

/** Lets the orchestrator act until the event is there; its door is shut behind it again. */
async function brought(
  { door, looking, settle }: RaceParts,
  run: Run,
  until: {
    readonly what: string;
    readonly watch: Watch;
    /** Called until it says that it has done what it is to do once. */
    readonly before: () => Promise<boolean>;
  },
): Promise<Landing> {
  let isDone = await until.before();
  try {
    return await looking.until<Landing>(run, until.what, async () => {
      if (until.watch.landed !== null) return committed(until.watch.landed);
      isDone ||= await until.before();
      if (until.watch.landed !== null) return committed(until.watch.landed);
      door.open(run.runId);
      await settle();
      if (until.watch.landed !== null) return committed(until.watch.landed);
      const { status } = await looking.row(run);
      return isOver(status) ? { kind: "too_late", status } : null;
    });
  } finally {
    until.watch.end();
  }
}

function committed({ eventType, slot }: Pick<LoggedEvent, "eventType" | "slot">): Landing {
  return { kind: "committed", eventType, slot };
}

/** Why a move cannot be made at all, which is a mistake of the script. */
async function refused({ looking }: RaceParts, run: Run, kind: Move["kind"]): Promise<BatonError> {
  const missing = {
    hook: "has no open hook of this token",
    sleep: "has no such sleep that is open",
    wake: "has no such sleep that is open",
    cancel: "cannot be cancelled",
    step: "has no such step",
    crash: "has no worker",
  }[kind];
  const doing = await looking.doing(run);
  return new BatonError(
    "NOT_REACHED",
    `a race cannot make "${kind}": the run ${missing}; it is ${doing}`,
    {
      field: "move",
      used: kind,
      allowed: run.runId,
    },
  );
}
