/**
 * Arming: the sends of timers, at the moments that the rules of timers.ts name.
 *
 * Owns which chains a delivery has come to own, and that it sends each wait's timer once.
 */
import type { DeliveryState } from "./delivery-state.ts";
import type { EntityId } from "./ids.ts";
import type { Send } from "./ports/queue.ts";
import {
  earliestOfChains,
  timerBeforeCreation,
  timerOf,
  timersBeforeCompletion,
} from "./timers.ts";
import type { TimedWait } from "./timers.ts";
import { isOpen } from "./waits.ts";
import type { WaitState } from "./waits.ts";

/** The chains that a delivery owns from its start (spec: "Who arms a timer"). */
export function ownChainsOf(state: DeliveryState): void {
  const { message, meta, log } = state;
  state.ownedChains.add(meta.messageId);
  const own = message.waitContinuation;
  const isRedelivery = Math.min(meta.deliveryCount, meta.attempt) > 1;
  const wait = own === undefined ? undefined : log.waits.get(own.correlationId);
  if (wait !== undefined && isRedelivery) state.ownedChains.add(wait.chain);
  if (!meta.recovery) return;
  // The timers died with the queue: of every chain.
  for (const open of log.waits.values()) state.ownedChains.add(open.chain);
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

/** What this delivery owns, and of the timers that came to it those whose waits are still ahead. */
export async function armOwned(state: DeliveryState): Promise<void> {
  const { waits } = state.log;
  const owned = earliestOfChains(waits.values(), (chain) => state.ownedChains.has(chain));
  const early = [...timersHere(state).keys()].flatMap((waitId) => {
    const wait = waits.get(waitId);
    return wait !== undefined && isOpen(wait) ? [wait] : [];
  });
  await arm(state, [...early, ...owned]);
}

async function arm(state: DeliveryState, waits: readonly TimedWait[]): Promise<void> {
  const { clock, world } = state.engine.parts;
  const here = timersHere(state);
  const sends: Send[] = [];
  const armed: EntityId[] = [];
  for (const wait of waits) {
    if (state.timedWaits.has(wait.waitId) || armed.includes(wait.waitId)) continue;
    const attempt = (here.get(wait.waitId) ?? 0) + 1;
    const send = timerOf(state.run, wait, { attempt, nowMs: clock.now() });
    if (send === null) continue;
    armed.push(wait.waitId);
    sends.push(send);
  }
  if (sends.length > 0) await world.queue.sendBatch(sends);
  state.counts.messagesSent += sends.length;
  // Only now: a failed send commits nothing and is made again.
  for (const waitId of armed) state.timedWaits.add(waitId);
}

/** The waits whose timers came to this delivery and to no other, and the attempts of those. */
function timersHere({ message, meta }: DeliveryState): ReadonlyMap<EntityId, number> {
  const own = message.waitContinuation;
  const here = new Map<EntityId, number>();
  for (const { correlationId, attempt } of own === undefined
    ? meta.timers
    : [own, ...meta.timers]) {
    here.set(correlationId, Math.max(attempt, here.get(correlationId) ?? 0));
  }
  return here;
}
