/**
 * Timers: which timer messages must exist for the open waits, and under which keys.
 *
 * Owns hops, keys and chains (spec: "Timers and waits"). Pure; the delivery sends what is named
 * here. A timer carries no decision: a late, early or second one finds what the log holds.
 *
 * E20  A hop's deadline and key follow from its wait's deadline alone, so all who send one hop send
 *      one message.
 * E21  A wait's timer is out before its `wait_created` commits, and the next timer of a chain
 *      before the `wait_completed` ahead of it does.
 * E22  Of a chain only the earliest open wait has a timer, sent by who owns the chain.
 * E27  A timer that came before its wait was due is sent again by the delivery that it came to, as
 *      its message or coalesced into it, and by no other.
 */
import { WAIT_HOP_MS } from "./limits.ts";
import { SPEC_VERSION } from "./events.ts";
import type { EntityId, RunRef } from "./ids.ts";
import type { Send, WaitContinuation } from "./ports/queue.ts";
import { isOpen } from "./waits.ts";
import type { WaitState } from "./waits.ts";

/** What a timer is for: a wait of the log, or one that is about to be written. */
export interface TimedWait {
  readonly waitId: EntityId;
  readonly resumeAt: number;
  readonly chain: string;
}

/**
 * The deadline of the earliest hop still ahead, epoch ms: whole hops counted back from the wait's
 * deadline. Null once the wait is due.
 */
export function hopAtMs(resumeAtMs: number, nowMs: number): number | null {
  if (resumeAtMs <= nowMs) return null;
  const hopsAfter = Math.ceil((resumeAtMs - nowMs) / WAIT_HOP_MS) - 1;
  return resumeAtMs - hopsAfter * WAIT_HOP_MS;
}

/**
 * The timer of `wait` that is next, as a message; null if the wait is due already. `attempt` is 1,
 * or one more than that of a timer which came too early: its key is still held by that one.
 */
export function timerOf(
  run: RunRef,
  wait: TimedWait,
  { attempt, nowMs }: { readonly attempt: number; readonly nowMs: number },
): Send | null {
  const hopMs = hopAtMs(wait.resumeAt, nowMs);
  if (hopMs === null) return null;
  return timerSend(run, {
    continuation: continuationOf(wait, hopMs, attempt),
    key: `wait:${wait.waitId}:${wait.resumeAt}:${hopSlot(hopMs, attempt)}`,
    delayMs: hopMs - nowMs,
  });
}

/** The hop after an intermediate one, named by its own deadline whatever the clock says. */
export function hopAfter(run: RunRef, continuation: WaitContinuation, nowMs: number): Send | null {
  const { resumeAtMs, hopAtMs: cameAtMs, attempt, correlationId } = continuation;
  if (resumeAtMs === undefined || cameAtMs === undefined) return null;
  const hopMs = Math.min(cameAtMs + WAIT_HOP_MS, resumeAtMs);
  const wait = { waitId: correlationId, resumeAt: resumeAtMs, chain: "" };
  return timerSend(run, {
    continuation: continuationOf(wait, hopMs, attempt),
    key: `wait:${correlationId}:${resumeAtMs}:${hopSlot(hopMs, attempt)}`,
    delayMs: Math.max(0, hopMs - nowMs),
  });
}

/** A hop but the last of a long wait: it reads the run's status, sends the next and is done. */
export function isIntermediateHop(continuation: WaitContinuation | undefined): boolean {
  return continuation?.resumeAtMs !== undefined;
}

function hopSlot(hopMs: number, attempt: number): string {
  return attempt > 1 ? `${hopMs}:a${attempt}` : `${hopMs}`;
}

function continuationOf(wait: TimedWait, hopMs: number, attempt: number): WaitContinuation {
  const base = { correlationId: wait.waitId, attempt };
  return hopMs === wait.resumeAt ? base : { ...base, resumeAtMs: wait.resumeAt, hopAtMs: hopMs };
}

function timerSend(
  run: RunRef,
  timer: {
    readonly continuation: WaitContinuation;
    readonly key: string;
    readonly delayMs: number;
  },
): Send {
  return {
    message: {
      kind: "orchestrator",
      ...run,
      specVersion: SPEC_VERSION,
      reason: "timer",
      waitContinuation: timer.continuation,
    },
    options: { idempotencyKey: timer.key, delayMs: timer.delayMs },
  };
}

/** Of each chain that `owns` says yes to, the open wait that is due first. */
export function earliestOfChains(
  waits: Iterable<WaitState>,
  owns: (chain: string) => boolean,
): readonly TimedWait[] {
  const earliest = new Map<string, WaitState>();
  for (const wait of waits) {
    if (!isOpen(wait) || !owns(wait.chain)) continue;
    const other = earliest.get(wait.chain);
    if (other === undefined || comesBefore(wait, other)) earliest.set(wait.chain, wait);
  }
  return [...earliest.values()];
}

/**
 * The timer to send before `newWaits`, all of chain `chain`, are written: of the chain's earliest
 * wait, when that is a new one (E21).
 */
export function timerBeforeCreation(
  waits: Iterable<WaitState>,
  newWaits: readonly TimedWait[],
  chain: string,
): TimedWait | null {
  const [held] = earliestOfChains(waits, (other) => other === chain);
  let earliest: TimedWait | null = held ?? null;
  let isNew = false;
  for (const wait of newWaits) {
    if (earliest !== null && earliest.resumeAt <= wait.resumeAt) continue;
    earliest = wait;
    isNew = true;
  }
  return isNew ? earliest : null;
}

/** The timers to send before `completing` are written: the next of each of their chains (E21). */
export function timersBeforeCompletion(
  waits: Iterable<WaitState>,
  completing: readonly WaitState[],
): readonly TimedWait[] {
  const ids = new Set(completing.map((wait) => wait.waitId));
  const chains = new Set(completing.map((wait) => wait.chain));
  const left = [...waits].filter((wait) => !ids.has(wait.waitId));
  return earliestOfChains(left, (chain) => chains.has(chain));
}

function comesBefore(wait: WaitState, other: WaitState): boolean {
  if (wait.resumeAt !== other.resumeAt) return wait.resumeAt < other.resumeAt;
  return wait.createdSlot < other.createdSlot;
}
