/**
 * A live feed on its way to one simulated process: its pushes take time, and it may lose some, repeat
 * some, fall silent or fail. What a World gives is in order and whole; what arrives need not be.
 */
import { BatonError } from "../../engine/errors.ts";
import type { RunEvent } from "../../engine/events.ts";
import type { Events, SubscribeOptions } from "../../engine/ports/world.ts";
import type { Draws } from "./draws.ts";
import type { FaultKind } from "./faults.ts";
import type { VirtualClock } from "./virtual-clock.ts";

export interface FeedWay {
  readonly clock: VirtualClock;
  readonly draws: Draws;
  /** Calls back once the process is awake, and never if it is dead. */
  readonly whenAwake: (callback: () => void) => void;
}

type Subscription = Parameters<Events["subscribe"]>;

/** A feed that goes bad does so soon: deliveries are short. */
const GOES_BAD_MS_MAX = 2_000;
const DROPPED = 0.4;
const REPEATED = 0.4;
const LATE_MS_MAX = 3_000;

/** What the World is asked for in place of `asked`, so that the feed arrives under the fault. */
export function subscriptionUnder(
  fault: FaultKind | null,
  asked: readonly unknown[],
  way: FeedWay,
): readonly unknown[] {
  const { clock, draws, whenAwake } = way;
  const [runId, afterSlot, onEvent, options] = asked as Subscription;
  const { arrive, goBad } = arrivals(fault, onEvent, way);
  if (fault === "feed silent" || fault === "feed failed" || fault === "feed stuck") {
    clock.setTimer(draws.between(0, GOES_BAD_MS_MAX), () => {
      goBad();
      if (fault !== "feed failed") return;
      const error = new BatonError("WORLD_UNAVAILABLE", "simulated: the feed failed");
      whenAwake(() => options.onError(error));
    });
  }
  const isSilent = () => fault !== "feed stuck" && goBad.isBad();
  const under: SubscribeOptions = {
    ...options,
    onHeartbeat: (topSlot) => {
      if (!isSilent()) whenAwake(() => options.onHeartbeat?.(topSlot));
    },
  };
  return [runId, afterSlot, arrive, under];
}

function arrivals(
  fault: FaultKind | null,
  onEvent: (event: RunEvent) => void,
  { clock, draws, whenAwake }: FeedWay,
) {
  const underway: RunEvent[] = [];
  const pushMs = draws.between(0, 20);
  let isBad = false;
  const give = () => {
    const event = underway.shift();
    if (event !== undefined && !isBad) whenAwake(() => onEvent(event));
  };
  const arrive = (event: RunEvent) => {
    if (fault === "feed drops" && draws.chance(DROPPED)) return;
    underway.push(event);
    // Whichever of equal timers comes first, it brings the oldest.
    clock.setTimer(pushMs, give);
    if (fault !== "feed repeats" || !draws.chance(REPEATED)) return;
    clock.setTimer(draws.between(0, LATE_MS_MAX), () => whenAwake(() => onEvent(event)));
  };
  const goBad = Object.assign(() => void (isBad = true), { isBad: () => isBad });
  return { arrive, goBad };
}
