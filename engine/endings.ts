/**
 * Endings: who in this process waits for a run to end, and who tells them.
 *
 * A delivery of this process that sees a run end says so at once; ends that other processes write
 * come through the World's feed, one for all waiters of a run, and none where a cap refuses it.
 *
 * E65  A hint decides nothing: an outcome is read from the World alone.
 */
import { Hints } from "./hints.ts";
import type { RunRef } from "./ids.ts";
import type { World } from "./ports/world.ts";
import { isRunTerminal } from "./run.ts";
import type { Slot } from "./slots.ts";

export class Endings {
  readonly #world: World;
  readonly #hints = new Hints();
  /** What ends the feed of a run; null while it is being opened. */
  readonly #feeds = new Map<string, (() => void) | null>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Calls back at each hint that the run has ended; returns what ends that. */
  listen(run: RunRef, onHint: () => void): () => void {
    const key = keyOf(run);
    const unlisten = this.#hints.listen(key, onHint);
    return () => {
      if (unlisten()) this.#unfollow(key);
    };
  }

  /** The run has a terminal event, as far as this process knows. */
  announce(run: RunRef): void {
    this.#hints.announce(keyOf(run));
  }

  /** Has the World push the end of a run that is listened to; at most one feed for a run. */
  async follow(run: RunRef, afterSlot: Slot): Promise<void> {
    const key = keyOf(run);
    if (!this.#world.capabilities.liveFeed || this.#feeds.has(key)) return;
    this.#feeds.set(key, null);
    const onEvent = (event: { readonly eventType: Parameters<typeof isRunTerminal>[0] }): void => {
      if (isRunTerminal(event.eventType)) this.announce(run);
    };
    // The next look asks for another.
    const onError = (): void => this.#unfollow(key);
    const { events } = this.#world.forTenant(run.tenantId);
    try {
      const options = { onError, isClient: true };
      const unsubscribe = await events.subscribe(run.runId, afterSlot, onEvent, options);
      this.#feeds.set(key, unsubscribe);
      if (!this.#hints.has(key)) this.#unfollow(key);
    } catch {
      // A cap, or the World is away: looking now and then is complete, only slower.
      this.#feeds.delete(key);
    }
  }

  #unfollow(key: string): void {
    const unsubscribe = this.#feeds.get(key);
    if (unsubscribe === undefined || unsubscribe === null) return;
    this.#feeds.delete(key);
    unsubscribe();
  }
}

function keyOf(run: RunRef): string {
  return `${run.tenantId}/${run.runId}`;
}
