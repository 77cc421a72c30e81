/**
 * The live feed of one delivery: what others commit while it runs.
 *
 * Two sources, the World's push and a poll of the log's tail, through one `offer()`; so order and
 * completeness never depend on the push (spec: "The live event feed and polling"). Events are handed
 * over between passes only, by `take()`.
 *
 * E50  What is handed over is gap-free from the log's top slot.
 * E51  A push that ends, fails or skips a slot is trouble: the poll is back at its short interval.
 * E52  The feed says that it is live only while a subscription is open, has reported no error and
 *      gives signs of life.
 * E53  A subscription that is not answered in time is none; nothing of a delivery waits for longer.
 */
import type { RunEvent } from "./events.ts";
import { FEED_POLL_BACKOFF_FACTOR_MAX, FEED_SILENCE_MS, POLL_BACKOFF_MS_MAX } from "./limits.ts";
import { readWithin } from "./reads.ts";
import type { TailReader } from "./reads.ts";
import type { Settings } from "./settings.ts";
import { nextSlot } from "./slots.ts";
import type { Slot } from "./slots.ts";

export interface FeedOptions {
  readonly reader: TailReader;
  /** Whether the World pushes. */
  readonly hasPush: boolean;
  readonly settings: Settings;
  /** There is something to take, or the push went down. */
  readonly onNews: () => void;
}

export class LiveFeed {
  readonly #options: FeedOptions;
  /** Events above what was taken, by slot. */
  readonly #pending = new Map<Slot, RunEvent>();
  #topSlot: Slot;
  #highestSlot: Slot;
  #isLive = false;
  #isStopped = false;
  #hasFailed = false;
  #opening: Promise<void> | null = null;
  #isPolling = false;
  #intervalMs: number;
  /** Epoch ms; null: none is due. */
  #pollDueMs: number | null = null;
  #cancelPoll: () => void = () => undefined;
  #cancelWatch: () => void = () => undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(options: FeedOptions, topSlot: Slot) {
    this.#options = options;
    this.#topSlot = topSlot;
    this.#highestSlot = topSlot;
    this.#intervalMs = options.settings.pollIntervalMs;
  }

  get isLive(): boolean {
    return this.#isLive && !this.#isStopped;
  }

  /**
   * Opens it, above what the log holds. Once per delivery. Resolves when it is known whether a push
   * is up: at the latest after the deadline of a read, and then it is not.
   */
  async start(topSlot: Slot): Promise<void> {
    this.advance(topSlot);
    this.#opening ??= this.#open();
    await this.#opening;
  }

  async #open(): Promise<void> {
    this.#schedulePoll(this.#intervalMs);
    if (!this.#options.hasPush) return;
    try {
      await this.#subscribe();
    } catch {
      // Refused, or a cap was reached: the poll alone is complete, only slower.
      this.#hasFailed = true;
    }
  }

  /** The log has grown by what the delivery wrote or read itself. */
  advance(topSlot: Slot): void {
    if (topSlot <= this.#topSlot) return;
    this.#topSlot = topSlot;
    if (topSlot > this.#highestSlot) this.#highestSlot = topSlot;
    for (const slot of this.#pending.keys()) if (slot <= topSlot) this.#pending.delete(slot);
    // A write of this delivery may have woken others; look soon.
    this.#intervalMs = this.#shortInterval();
  }

  get hasNews(): boolean {
    return this.#pending.has(nextSlot(this.#topSlot));
  }

  /** The gap-free run of events right above the log's top slot. */
  take(): readonly RunEvent[] {
    const events: RunEvent[] = [];
    for (;;) {
      const slot = nextSlot(this.#topSlot);
      const event = this.#pending.get(slot);
      if (event === undefined) return events;
      this.#pending.delete(slot);
      this.#topSlot = slot;
      events.push(event);
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelPoll();
    this.#cancelWatch();
    this.#unsubscribe();
    this.#pending.clear();
  }

  async #subscribe(): Promise<void> {
    const { reader, settings } = this.#options;
    const opening = reader.events.subscribe(
      reader.runId,
      this.#topSlot,
      (event) => {
        this.#watch();
        this.#offer("push", [event]);
      },
      { onError: () => this.#goDown(), onHeartbeat: (slot) => this.#beat(slot) },
    );
    const unsubscribe = await this.#within(settings.readTimeoutMs, opening);
    if (unsubscribe === null || this.#isStopped || this.#hasFailed) {
      // Nobody waits any more for what never answered, answers late, or has failed meanwhile.
      opening.then(
        (end) => end(),
        () => undefined,
      );
      return;
    }
    this.#unsubscribe = unsubscribe;
    this.#isLive = true;
    this.#intervalMs = settings.feedPollIntervalMs;
    this.#schedulePoll(this.#intervalMs);
    this.#watch();
  }

  /** Null: it was not answered in time. 0: no deadline. */
  async #within<T>(timeoutMs: number, answer: Promise<T>): Promise<T | null> {
    if (timeoutMs === 0) return answer;
    let cancel = (): void => undefined;
    const late = new Promise<null>((resolve) => {
      cancel = this.#options.reader.clock.setTimer(timeoutMs, () => resolve(null));
    });
    return Promise.race([answer, late]).finally(() => cancel());
  }

  /** The World's top slot: what is missing below it was not pushed, or not yet. */
  #beat(topSlot: Slot): void {
    this.#watch();
    if (topSlot > this.#highestSlot) void this.#poll();
  }

  /** A feed can die without a word, so silence fails it; nothing is subscribed to again. */
  #watch(): void {
    this.#cancelWatch();
    if (this.#isStopped || !this.#isLive) return;
    const { clock } = this.#options.reader;
    this.#cancelWatch = clock.setTimer(FEED_SILENCE_MS, () => {
      this.#unsubscribe();
      this.#goDown();
    });
  }

  #goDown(): void {
    if (this.#isStopped || this.#hasFailed) return;
    this.#hasFailed = true;
    this.#isLive = false;
    this.#cancelWatch();
    this.#trouble();
    this.#options.onNews();
  }

  /** Takes a push or a page of a poll alike; true if it brought something that was missing. */
  #offer(source: "push" | "poll", events: readonly RunEvent[]): boolean {
    if (this.#isStopped) return false;
    let isNew = false;
    for (const event of events) {
      if (event.slot <= this.#topSlot || this.#pending.has(event.slot)) continue;
      this.#pending.set(event.slot, event);
      if (event.slot > this.#highestSlot) this.#highestSlot = event.slot;
      isNew = true;
    }
    if (source === "push" && isNew && this.#hasGap()) this.#trouble();
    if (isNew && this.hasNews) this.#options.onNews();
    return isNew;
  }

  #hasGap(): boolean {
    return this.#highestSlot - this.#topSlot > this.#pending.size;
  }

  /** The next poll is soon, and no trouble puts it off. */
  #trouble(): void {
    this.#intervalMs = this.#shortInterval();
    const soonMs = this.#options.reader.clock.now() + this.#intervalMs;
    if (this.#pollDueMs === null || this.#pollDueMs > soonMs) this.#schedulePoll(this.#intervalMs);
  }

  #shortInterval(): number {
    return this.#options.settings.pollIntervalMs;
  }

  #schedulePoll(delayMs: number): void {
    this.#cancelPoll();
    this.#pollDueMs = null;
    if (this.#isStopped) return;
    if (this.#options.settings.pollIntervalMs === 0) return;
    const { clock } = this.#options.reader;
    this.#pollDueMs = clock.now() + delayMs;
    this.#cancelPoll = clock.setTimer(delayMs, () => {
      this.#pollDueMs = null;
      void this.#poll();
    });
  }

  async #poll(): Promise<void> {
    if (this.#isPolling || this.#isStopped) return;
    this.#isPolling = true;
    const wasLive = this.#isLive;
    let isClean = false;
    try {
      const { reader, settings } = this.#options;
      const params = { afterSlot: this.#topSlot };
      const page =
        settings.readTimeoutMs === 0
          ? await reader.events.list(reader.runId, params)
          : await readWithin(reader, params, settings.readTimeoutMs);
      if (page !== null) isClean = !this.#offer("poll", page.events) && !this.#hasGap();
    } catch {
      // A failed poll is no news; the next one is soon.
      isClean = false;
    } finally {
      this.#isPolling = false;
    }
    this.#intervalMs = isClean ? this.#backedOff(wasLive && this.#isLive) : this.#shortInterval();
    this.#schedulePoll(this.#intervalMs);
  }

  /** Beside a live push up to twice its interval, otherwise up to ten seconds. */
  #backedOff(isLive: boolean): number {
    const { feedPollIntervalMs } = this.#options.settings;
    const short = this.#shortInterval();
    const longest = isLive
      ? feedPollIntervalMs * FEED_POLL_BACKOFF_FACTOR_MAX
      : POLL_BACKOFF_MS_MAX;
    const next = isLive ? Math.max(this.#intervalMs * 2, feedPollIntervalMs) : this.#intervalMs * 2;
    return Math.max(short, Math.min(next, longest));
  }
}
