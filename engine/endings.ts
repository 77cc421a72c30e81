/**
 * Endings: who in this process waits for a run to end, and who tells them.
 *
 * Owns hints only. Whoever is told looks into the World, and looks now and then without being told,
 * so a hint that never comes costs time and nothing else. A delivery of this process that sees a run
 * end says so at once; ends that other processes write come through the World's feed, one for all
 * waiters of a run, and none where a cap refuses it.
 *
 * E65  A hint decides nothing: an outcome is read from the World alone.
 */
import type { RunRef } from "./ids.ts";
import type { World } from "./ports/world.ts";
import { isRunTerminal } from "./run.ts";
import type { Slot } from "./slots.ts";

interface Watched {
  readonly waiters: Set<() => void>;
  /** Ends the feed; null while there is none. */
  unsubscribe: (() => void) | null;
  isFollowed: boolean;
}

export class Endings {
  readonly #world: World;
  readonly #runs = new Map<string, Watched>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Calls back at each hint that the run has ended; returns what ends that. */
  listen(run: RunRef, onHint: () => void): () => void {
    const key = keyOf(run);
    const watched = this.#runs.get(key) ?? newWatched();
    this.#runs.set(key, watched);
    watched.waiters.add(onHint);
    return () => {
      watched.waiters.delete(onHint);
      if (watched.waiters.size > 0) return;
      this.#runs.delete(key);
      watched.unsubscribe?.();
    };
  }

  /** The run has a terminal event, as far as this process knows. */
  announce(run: RunRef): void {
    const watched = this.#runs.get(keyOf(run));
    for (const waiter of watched?.waiters ?? []) waiter();
  }

  /** Has the World push the end of a run that is listened to; at most one feed for a run. */
  async follow(run: RunRef, afterSlot: Slot): Promise<void> {
    const watched = this.#runs.get(keyOf(run));
    if (!this.#world.capabilities.liveFeed || watched === undefined || watched.isFollowed) return;
    watched.isFollowed = true;
    const { events } = this.#world.forTenant(run.tenantId);
    try {
      const unsubscribe = await events.subscribe(
        run.runId,
        afterSlot,
        (event) => {
          if (isRunTerminal(event.eventType)) this.announce(run);
        },
        // The next look asks for another.
        { onError: () => (watched.isFollowed = false), isClient: true },
      );
      if (watched.waiters.size === 0) unsubscribe();
      else watched.unsubscribe = unsubscribe;
    } catch {
      // A cap, or the World is away: looking now and then is complete, only slower.
      watched.isFollowed = false;
    }
  }
}

function newWatched(): Watched {
  return { waiters: new Set(), unsubscribe: null, isFollowed: false };
}

function keyOf(run: RunRef): string {
  return `${run.tenantId}/${run.runId}`;
}
