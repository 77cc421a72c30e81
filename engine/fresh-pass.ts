/**
 * The first pass of a fresh run's first delivery: a stretch of run-ahead whose first write is
 * `run_started`.
 *
 * Owns what such a delivery does in place of a load (spec: "Turbo"). The guest is told of the run's
 * creation, as the message says it is, and of its start; bodies of its first steps may begin.
 *
 * E118 Every write of the delivery stands behind `run_started`; if that is refused, none is made and
 *      the run is read.
 */
import { ownChainsOf } from "./arming.ts";
import { lead, stretchOf, tellGuest } from "./ahead-pass.ts";
import type { Arrival, DeliveryState, Ending } from "./delivery-state.ts";
import { nowMs } from "./delivery-state.ts";
import { openedQuietly } from "./guest-pass.ts";
import { newEvent } from "./plan.ts";
import type { RunInput } from "./ports/queue.ts";
import { createdByInput, freshInput } from "./turbo.ts";

/** What is known of the run without a load; null: it is to be read. */
export function freshInputOf({ engine, message, meta }: Arrival): RunInput | null {
  if (!engine.parts.settings.turbo || engine.memory.runAhead.isOff) return null;
  return freshInput(message, meta);
}

/** The first stretch of a fresh run; null: the delivery goes on as any other, from the log. */
export async function beginFresh(state: DeliveryState, input: RunInput): Promise<Ending | null> {
  const { settings } = state.engine.parts;
  state.hasBegun = true;
  state.ahead.isTurbo = true;
  ownChainsOf(state);
  const stretch = stretchOf(state, settings.runAheadDepth);
  const { writes } = stretch;
  writes.foresee(createdByInput(input));
  writes.push({ ...newEvent("run_started", null, {}), occurredAt: nowMs(state) });
  writes.send();
  return lead(state, stretch, async () => {
    if (await openedQuietly(state)) await tellGuest(state, stretch);
  });
}
