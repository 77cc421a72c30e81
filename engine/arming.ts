/**
 * Arming: the sends of timers, at the moments that the rules of timers.ts name.
 *
 * Owns which chains a delivery has come to own, and that it sends each wait's timer once.
 */
import type { DeliveryState } from "./delivery-state.ts";
import { mayHoldTimer, nowMs } from "./delivery-state.ts";
import type { EntityId } from "./ids.ts";
import type { Send } from "./ports/queue.ts";
import {
  earliestOfChains,
  nearDueWaits,
  timerBeforeCreation,
  timerOf,
  timersBeforeCompletion,
} from "./timers.ts";
import type { Sender, TimedWait } from "./timers.ts";
import { isOpen } from "./waits.ts";
import type { WaitState } from "./waits.ts";

/** The chains that a delivery owns from its start (spec: "Who arms a timer"). */
export function ownChainsOf(state: DeliveryState): void {
  state.ownedChains.add(state.meta.messageId);
  const own = ownTimer(state);
  const isRedelivery = Math.min(state.meta.deliveryCount, state.meta.attempt) > 1;
  const wait = own === null ? undefined : state.log.waits.get(own.waitId);
  if (wait !== undefined && isRedelivery) state.ownedChains.add(wait.chain);
  if (!state.meta.recovery) return;
  // The timers died with the queue: of every chain.
  for (const open of state.log.waits.values()) state.ownedChains.add(open.chain);
}

/** Before new waits of this delivery's message commit. */
export async function armBeforeCreation(
  state: DeliveryState,
  newWaits: readonly TimedWait[],
): Promise<void> {
  if (newWaits.length === 0) return;
  const wait = timerBeforeCreation(state.log.waits.values(), newWaits, state.meta.messageId);
  if (wait !== null) await arm(state, [wait]);
}

/** Before the completions of these waits commit; from then on this delivery owns their chains. */
export async function armBeforeCompletion(
  state: DeliveryState,
  completing: readonly WaitState[],
): Promise<void> {
  await arm(state, timersBeforeCompletion(state.log.waits.values(), completing));
  for (const wait of completing) state.ownedChains.add(wait.chain);
}

/** What this delivery owns, and its own timer's wait if that is still ahead. */
export async function armOwned(state: DeliveryState): Promise<void> {
  const owned = earliestOfChains(state.log.waits.values(), (chain) => state.ownedChains.has(chain));
  const own = ownTimer(state);
  const wait = own === null ? undefined : state.log.waits.get(own.waitId);
  const early = wait !== undefined && isOpen(wait) ? [wait] : [];
  await arm(state, [...early, ...owned]);
}

/** What may have been coalesced into this delivery a moment before it was due. */
export async function armNearDue(state: DeliveryState): Promise<void> {
  if (!mayHoldTimer(state)) return;
  await arm(state, nearDueWaits(state.log.waits.values(), nowMs(state)));
}

async function arm(state: DeliveryState, waits: readonly TimedWait[]): Promise<void> {
  const { clock, world } = state.engine.parts;
  const sends: Send[] = [];
  const nearDue: Send[] = [];
  const armed: EntityId[] = [];
  for (const wait of waits) {
    if (state.timedWaits.has(wait.waitId) || armed.includes(wait.waitId)) continue;
    const sender = senderOf(state, wait.waitId);
    const send = timerOf(state.run, wait, { sender, nowMs: clock.now() });
    if (send === null) continue;
    armed.push(wait.waitId);
    if (wasSentByThisProcess(state, sender, send)) continue;
    sends.push(send);
    if (sender.kind === "may_hold_timer") nearDue.push(send);
  }
  if (sends.length > 0) await world.queue.sendBatch(sends);
  for (const send of nearDue) state.engine.memory.nearDueKeys.add(nearDueKey(state, send));
  state.counts.messagesSent += sends.length;
  // Only now: a failed send commits nothing and is made again.
  for (const waitId of armed) state.timedWaits.add(waitId);
}

function senderOf(state: DeliveryState, waitId: EntityId): Sender {
  const own = ownTimer(state);
  if (own?.waitId === waitId) return { kind: "own_timer", attempt: own.attempt + 1 };
  return mayHoldTimer(state) ? { kind: "may_hold_timer" } : { kind: "first" };
}

/** The wait that this delivery's message is the timer of. */
function ownTimer(state: DeliveryState): { waitId: EntityId; attempt: number } | null {
  const continuation = state.message.waitContinuation;
  if (continuation === undefined) return null;
  return { waitId: continuation.correlationId, attempt: continuation.attempt };
}

/** A busy run's re-runs do not each pay a queue round trip for one near-due wait. */
function wasSentByThisProcess(state: DeliveryState, sender: Sender, send: Send): boolean {
  if (sender.kind !== "may_hold_timer") return false;
  return state.engine.memory.nearDueKeys.has(nearDueKey(state, send));
}

function nearDueKey(state: DeliveryState, send: Send): string {
  return `${state.run.tenantId}/${state.run.runId}/${send.options?.idempotencyKey ?? ""}`;
}
