/**
 * Live feeds of runs within this process.
 *
 * Owns who subscribes to what, and each subscriber's position. A push is only a hint: what a
 * subscriber gets is the slot after its last one, from the push if it fits, else from the log.
 *
 * W17  A feed gives each event above its start once, in slot order, without a gap.
 * W18  A feed ends by its own end, or by one `onError`; a subscriber that throws ends its own feed
 *      and disturbs no other.
 * W19  Clients have at most 2 feeds of a run and 64 of a tenant, unless the subscription says
 *      otherwise; the next is refused. A heartbeat gives the run's top slot, so that a silent feed
 *      is noticed.
 */
import { assert } from "../engine/assert.ts";
import { BatonError } from "../engine/errors.ts";
import type { RunEvent } from "../engine/events.ts";
import type { RunRef } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { FeedCaps, SubscribeOptions } from "../engine/ports/world.ts";
import type { Slot } from "../engine/slots.ts";
import { SLOT_NONE, nextSlot } from "../engine/slots.ts";
import type { Core } from "./core.ts";
import type { Appended } from "./ledger-answers.ts";
import { eventOf, unpackRows } from "./event-record.ts";

export const RUN_FEEDS_MAX = 2;
export const TENANT_FEEDS_MAX = 64;
const EVERY_CAP: FeedCaps = { perRunMax: RUN_FEEDS_MAX, perTenantMax: TENANT_FEEDS_MAX };
export const HEARTBEAT_MS = 5_000;
/** Events that one read of a feed that is behind takes. */
const CATCH_UP_EVENTS = 500;

interface Feed {
  readonly run: RunRef;
  readonly onEvent: (event: RunEvent) => void;
  readonly options: SubscribeOptions;
  position: Slot;
  isReading: boolean;
  isOver: boolean;
  stopHeartbeat: () => void;
}

interface WatchedRun {
  readonly feeds: Set<Feed>;
  topSlot: Slot;
}

export class Feeds {
  readonly #core: Core;
  readonly #clock: Clock;
  readonly #runs = new Map<string, WatchedRun>();
  readonly #clientFeeds = new Map<string, number>();

  constructor(core: Core, clock: Clock) {
    this.#core = core;
    this.#clock = clock;
  }

  async subscribe(
    run: RunRef,
    afterSlot: Slot,
    onEvent: (event: RunEvent) => void,
    options: SubscribeOptions,
  ): Promise<() => void> {
    const isClient = options.isClient === true;
    if (isClient) this.#takePlace(run, options.caps ?? EVERY_CAP);
    let topSlot: Slot;
    const feed: Feed = {
      run,
      onEvent,
      options,
      position: afterSlot,
      isReading: false,
      isOver: false,
      stopHeartbeat: () => undefined,
    };
    const watched = this.#runs.get(keyOf(run)) ?? { feeds: new Set<Feed>(), topSlot: SLOT_NONE };
    this.#runs.set(keyOf(run), watched);
    watched.feeds.add(feed);
    try {
      topSlot = await this.#core.call("events", "watch", run);
    } catch (error) {
      this.#remove(feed);
      throw error;
    }
    if (topSlot > watched.topSlot) watched.topSlot = topSlot;
    this.#beat(feed);
    void this.#catchUp(feed);
    return () => {
      this.#end(feed);
    };
  }

  /** New events of watched runs, in the order of their commits. */
  take(appended: readonly Appended[]): void {
    for (const { rows, topSlot, ...run } of appended) {
      const watched = this.#runs.get(keyOf(run));
      if (watched === undefined) continue;
      if (topSlot > watched.topSlot) watched.topSlot = topSlot;
      for (const feed of watched.feeds) this.#push(feed, rows);
    }
  }

  /** The World closes. */
  close(): void {
    const error = new BatonError("CLOSED", "the World was closed");
    for (const { feeds } of this.#runs.values()) {
      for (const feed of feeds) this.#fail(feed, error);
    }
  }

  #push(feed: Feed, rows: Uint8Array): void {
    for (const row of unpackRows(rows)) {
      if (feed.isOver || feed.isReading || row.slot <= feed.position) continue;
      if (row.slot === nextSlot(feed.position)) this.#give(feed, eventOf(feed.run.runId, row));
      else void this.#catchUp(feed);
    }
  }

  /** Reads the log until the feed stands at its top; pushes that come meanwhile are in the log. */
  async #catchUp(feed: Feed): Promise<void> {
    if (feed.isReading || feed.isOver) return;
    feed.isReading = true;
    try {
      while (!feed.isOver && feed.position < this.#topOf(feed)) {
        const place = { ...feed.run, afterSlot: feed.position };
        const page = await this.#core.call("events", "list", {
          ...place,
          limit: CATCH_UP_EVENTS,
          correlationId: null,
        });
        const rows = unpackRows(page.rows);
        assert(rows.length > 0, "a log reaches up to its top slot");
        for (const row of rows) {
          if (!feed.isOver) this.#give(feed, eventOf(feed.run.runId, row));
        }
      }
    } catch (error) {
      this.#fail(feed, error);
    } finally {
      feed.isReading = false;
    }
  }

  #give(feed: Feed, event: RunEvent): void {
    assert(event.slot === nextSlot(feed.position), "a feed has no gap");
    feed.position = event.slot;
    try {
      feed.onEvent(event);
    } catch (error) {
      this.#fail(feed, error);
    }
  }

  #topOf(feed: Feed): Slot {
    return this.#runs.get(keyOf(feed.run))?.topSlot ?? feed.position;
  }

  #beat(feed: Feed): void {
    const { onHeartbeat } = feed.options;
    if (onHeartbeat === undefined || feed.isOver) return;
    feed.stopHeartbeat = this.#clock.setTimer(HEARTBEAT_MS, () => {
      if (feed.isOver) return;
      onHeartbeat(this.#topOf(feed));
      this.#beat(feed);
    });
  }

  #fail(feed: Feed, cause: unknown): void {
    if (feed.isOver) return;
    this.#end(feed);
    feed.options.onError(cause instanceof Error ? cause : new Error("a feed failed", { cause }));
  }

  #end(feed: Feed): void {
    if (feed.isOver) return;
    this.#remove(feed);
    // The World may be closed already; then nothing watches any more.
    this.#core.call("events", "unwatch", feed.run).catch(() => undefined);
  }

  #remove(feed: Feed): void {
    feed.isOver = true;
    feed.stopHeartbeat();
    const watched = this.#runs.get(keyOf(feed.run));
    watched?.feeds.delete(feed);
    if (watched?.feeds.size === 0) this.#runs.delete(keyOf(feed.run));
    if (feed.options.isClient !== true) return;
    for (const key of [keyOf(feed.run), feed.run.tenantId]) {
      const left = (this.#clientFeeds.get(key) ?? 1) - 1;
      if (left === 0) this.#clientFeeds.delete(key);
      else this.#clientFeeds.set(key, left);
    }
  }

  #takePlace(run: RunRef, { perRunMax, perTenantMax }: FeedCaps): void {
    const places = [
      { key: keyOf(run), field: "feedsPerRun", allowed: perRunMax },
      { key: run.tenantId, field: "feedsPerTenant", allowed: perTenantMax },
    ];
    for (const { key, field, allowed } of places) {
      const used = this.#clientFeeds.get(key) ?? 0;
      if (allowed === null || used < allowed) continue;
      throw new BatonError("RUN_FEED_LIMIT", "there are as many live feeds as there may be", {
        field,
        used,
        allowed,
      });
    }
    for (const { key } of places) {
      this.#clientFeeds.set(key, (this.#clientFeeds.get(key) ?? 0) + 1);
    }
  }
}

function keyOf({ tenantId, runId }: RunRef): string {
  return `${tenantId}/${runId}`;
}
