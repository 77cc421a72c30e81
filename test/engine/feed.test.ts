import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import type { RunEvent } from "../../engine/events.ts";
import { LiveFeed } from "../../engine/feed.ts";
import type { EventPage, Events, SubscribeOptions } from "../../engine/ports/world.ts";
import { DEFAULT_SETTINGS } from "../../engine/settings.ts";
import type { Settings } from "../../engine/settings.ts";
import { slotOf } from "../../engine/slots.ts";
import { Pacing, pageAfter, readOn } from "../../engine/reads.ts";
import { RunLog } from "../../engine/log.ts";
import { HeldClock } from "../../worlds/conformance/index.ts";
import * as l from "./log-of.ts";

const event = (slot: number): RunEvent => l.eventAt(slot, slot === 1 ? l.created() : l.started());
const page = (events: readonly RunEvent[], more: Partial<EventPage> = {}): EventPage => ({
  events,
  hasMore: false,
  snapshot: { seq: events.at(-1)?.slot ?? 0, seqInBand: 1 },
  digestBefore: null,
  ...more,
});

/** A store whose log and push the test holds. */
class Store {
  log: RunEvent[] = [];
  lists = 0;
  refuses = false;
  /** Subscriptions are answered when the test says so. */
  answer: (() => void) | null = null;
  isSlow = false;
  hangs = false;
  push: (event: RunEvent) => void = () => undefined;
  options: SubscribeOptions | null = null;
  isSubscribed = false;
  /** What its heartbeats say; null: none come. */
  topSlot: number | null = 2;

  /** Beats every 5 s, as Worlds do. */
  beat(clock: HeldClock): void {
    clock.setTimer(5_000, () => {
      if (this.topSlot !== null) this.options?.onHeartbeat?.(slotOf(this.topSlot));
      if (this.isSubscribed) this.beat(clock);
    });
  }

  events(): Events {
    return {
      list: async (_runId: string, params: { afterSlot?: number; signal?: AbortSignal }) => {
        this.lists += 1;
        if (this.hangs) {
          return new Promise((_, reject) => {
            params.signal?.addEventListener("abort", () => reject(new Error("abandoned")));
          });
        }
        return page(this.log.filter((one) => one.slot > (params.afterSlot ?? 0)));
      },
      subscribe: async (
        _runId: string,
        _afterSlot: number,
        onEvent: (event: RunEvent) => void,
        options: SubscribeOptions,
      ) => {
        if (this.refuses) throw new BatonError("RUN_FEED_LIMIT", "enough");
        this.push = onEvent;
        this.options = options;
        if (this.isSlow) await new Promise<void>((resolve) => (this.answer = resolve));
        this.isSubscribed = true;
        return () => (this.isSubscribed = false);
      },
    } as unknown as Events;
  }
}

function feedOf(more: { hasPush?: boolean; settings?: Partial<Settings> } = {}) {
  const clock = new HeldClock();
  const store = new Store();
  let news = 0;
  const settings = { ...DEFAULT_SETTINGS, ...more.settings };
  const reader = { events: store.events(), runId: l.RUN.runId, clock, readTimeoutMs: 5_000 };
  const hasPush = more.hasPush ?? true;
  const feed = new LiveFeed({ reader, hasPush, settings, onNews: () => (news += 1) }, slotOf(2));
  const taken = () => feed.take().map((one) => Number(one.slot));
  /** Times of the next polls, in ms from now, without news in between. */
  const polls = async (count: number) => {
    const gaps: number[] = [];
    for (let i = 0; i < count; i++) {
      const from = clock.now();
      const before = store.lists;
      while (store.lists === before) {
        const next = clock.nextTimerAt;
        if (next === null) return gaps;
        await clock.advance(next - clock.now());
      }
      gaps.push(clock.now() - from);
    }
    return gaps;
  };
  return { feed, store, clock, taken, polls, news: () => news };
}

describe("the live feed", () => {
  it("hands over a gap-free run only, whatever the order of arrival", async () => {
    const { feed, store, taken, news } = feedOf();
    await feed.start(slotOf(2));
    store.push(event(4));
    expect([taken(), news(), feed.hasNews]).toEqual([[], 0, false]);
    store.push(event(3));
    store.push(event(3));
    store.push(event(1));
    expect([taken(), news()]).toEqual([[3, 4], 1]);
  });

  it("drops what the delivery wrote or read itself", async () => {
    const { feed, store, taken } = feedOf();
    await feed.start(slotOf(2));
    store.push(event(3));
    store.push(event(4));
    feed.advance(slotOf(3));
    expect(taken()).toEqual([4]);
    feed.advance(slotOf(3));
    store.push(event(5));
    expect(taken()).toEqual([5]);
  });

  it("without a push polls at 2 s, backs off to 10 s, and is back at 2 s after news", async () => {
    const { feed, store, polls, taken } = feedOf({ hasPush: false });
    await feed.start(slotOf(2));
    expect(feed.isLive).toBe(false);
    expect(await polls(5)).toEqual([2_000, 4_000, 8_000, 10_000, 10_000]);
    store.log = [event(3)];
    expect(await polls(1)).toEqual([10_000]);
    expect(taken()).toEqual([3]);
    expect(await polls(2)).toEqual([2_000, 4_000]);
    feed.advance(slotOf(5));
    await polls(1);
    expect(await polls(1)).toEqual([4_000]);
  });

  it("beside a live push polls at 10 s, and doubles clean polls once", async () => {
    const { feed, store, clock, polls } = feedOf();
    await feed.start(slotOf(2));
    store.beat(clock);
    expect(feed.isLive).toBe(true);
    expect(await polls(3)).toEqual([10_000, 20_000, 20_000]);
  });

  it("a push that skips a slot is trouble: the poll fills the gap within 2 s", async () => {
    const { feed, store, polls, taken } = feedOf();
    await feed.start(slotOf(2));
    store.log = [event(3), event(4)];
    store.push(event(4));
    expect(await polls(1)).toEqual([2_000]);
    expect(taken()).toEqual([3, 4]);
  });

  it("a push that dies silently is caught by the poll", async () => {
    const { feed, store, polls, taken } = feedOf();
    await feed.start(slotOf(2));
    store.log = [event(3)];
    expect(await polls(1)).toEqual([10_000]);
    expect(taken()).toEqual([3]);
  });

  it("a heartbeat above what is known polls at once, one that is not polls nothing", async () => {
    const { feed, store, clock, taken } = feedOf();
    await feed.start(slotOf(2));
    store.beat(clock);
    await clock.advance(5_000);
    expect(store.lists).toBe(0);
    store.log = [event(3)];
    store.topSlot = 3;
    await clock.advance(5_000);
    expect(taken()).toEqual([3]);
    expect(feed.isLive).toBe(true);
  });

  it("15 s without an event or a heartbeat end liveness, and the poll is back at 2 s", async () => {
    const { feed, store, clock, polls, news } = feedOf();
    await feed.start(slotOf(2));
    store.beat(clock);
    await clock.advance(8_000);
    store.topSlot = null;
    store.push(event(3));
    await clock.advance(14_999);
    expect([feed.isLive, news()]).toEqual([true, 1]);
    await clock.advance(1);
    expect([feed.isLive, store.isSubscribed, news()]).toEqual([false, false, 2]);
    expect(await polls(1)).toEqual([2_000]);
  });

  it("a subscription that fails ends liveness at once, and says so", async () => {
    const { feed, store, polls, news } = feedOf();
    await feed.start(slotOf(2));
    store.options?.onError(new Error("closed"));
    expect([feed.isLive, news()]).toEqual([false, 1]);
    expect(await polls(1)).toEqual([2_000]);
  });

  it("a refused subscription leaves the poll alone", async () => {
    const { feed, store, polls } = feedOf();
    store.refuses = true;
    await feed.start(slotOf(2));
    expect(feed.isLive).toBe(false);
    expect(await polls(1)).toEqual([2_000]);
  });

  it("a subscription that is not answered in 5 s is none, and one that comes later is ended", async () => {
    const { feed, store, clock, taken } = feedOf();
    store.isSlow = true;
    const opened = feed.start(slotOf(2));
    store.log = [event(3)];
    await clock.advance(2_000);
    expect(taken()).toEqual([3]);
    await clock.advance(3_000);
    await opened;
    expect(feed.isLive).toBe(false);
    store.answer?.();
    await clock.advance(0);
    expect([feed.isLive, store.isSubscribed]).toEqual([false, false]);
  });

  it("a feed that fails before its subscription is answered does not come to life by the answer", async () => {
    const { feed, store, clock } = feedOf();
    store.isSlow = true;
    const opened = feed.start(slotOf(2));
    await clock.advance(0);
    store.options?.onError(new Error("closed"));
    store.answer?.();
    await opened;
    await clock.advance(0);
    expect([feed.isLive, store.isSubscribed]).toEqual([false, false]);
  });

  it("trouble upon trouble does not put the poll off", async () => {
    const { feed, store, clock } = feedOf();
    await feed.start(slotOf(2));
    for (let slot = 4; slot < 10; slot++) {
      store.push(event(slot));
      await clock.advance(500);
    }
    expect(store.lists).toBe(1);
  });

  it.each([
    ["without a push", false, 361],
    ["beside a live push", true, 181],
  ])("an idle hour %s costs so many polls", async (_name, hasPush, most) => {
    const { feed, store, clock } = feedOf({ hasPush });
    await feed.start(slotOf(2));
    if (hasPush) store.beat(clock);
    await clock.advance(3_600_000);
    expect(feed.isLive).toBe(hasPush);
    expect(store.lists).toBeLessThanOrEqual(most);
    expect(store.lists).toBeGreaterThan(most - 5);
  });

  it("a poll that hangs is abandoned and the next one is soon", async () => {
    const { feed, store, clock, taken } = feedOf({ hasPush: false });
    await feed.start(slotOf(2));
    store.hangs = true;
    await clock.advance(2_000);
    store.hangs = false;
    store.log = [event(3)];
    await clock.advance(5_000);
    expect(taken()).toEqual([]);
    await clock.advance(2_000);
    expect(taken()).toEqual([3]);
  });

  it("a poll interval of 0 turns polls off", async () => {
    const { feed, store, clock } = feedOf({ settings: { pollIntervalMs: 0 } });
    await feed.start(slotOf(2));
    await clock.advance(60_000);
    expect([store.lists, clock.nextTimerAt]).toEqual([0, null]);
  });

  it("stopped, it holds nothing and takes nothing", async () => {
    const { feed, store, clock, taken, news } = feedOf();
    await feed.start(slotOf(2));
    feed.stop();
    store.push(event(3));
    expect([taken(), news(), store.isSubscribed, clock.nextTimerAt]).toEqual([[], 0, false, null]);
    expect(feed.isLive).toBe(false);
  });
});

describe("reads of a tail", () => {
  const reader = (list: (attempt: number) => Promise<EventPage>, readTimeoutMs = 5_000) => {
    const clock = new HeldClock();
    let attempt = 0;
    const events = { list: () => list(++attempt) } as unknown as Events;
    return {
      reader: { events, runId: l.RUN.runId, clock, readTimeoutMs },
      clock,
      attempts: () => attempt,
    };
  };
  const never = () => new Promise<EventPage>(() => undefined);

  it("are sent again after 5 s and 10 s, and given up after three tries", async () => {
    const { reader: tail, clock, attempts } = reader(never);
    const read = pageAfter(tail, { afterSlot: slotOf(1) });
    const failed = expect(read).rejects.toMatchObject({ code: "WORLD_UNAVAILABLE" });
    await clock.advance(4_999);
    expect(attempts()).toBe(1);
    await clock.advance(1);
    expect(attempts()).toBe(2);
    await clock.advance(10_000);
    expect(attempts()).toBe(3);
    await clock.advance(20_000);
    await failed;
  });

  it("use the answer of a later try", async () => {
    const { reader: tail, clock } = reader((attempt) =>
      attempt === 1 ? never() : Promise.resolve(page([event(2)])),
    );
    const read = pageAfter(tail, { afterSlot: slotOf(1) });
    await clock.advance(5_000);
    expect((await read).events).toHaveLength(1);
    expect(clock.nextTimerAt).toBeNull();
  });

  it("of a whole log, and with the deadline off, have none", async () => {
    for (const [afterSlot, timeout] of [
      [0, 5_000],
      [1, 0],
    ] as const) {
      const { reader: tail, clock } = reader(async () => page([]), timeout);
      await pageAfter(tail, afterSlot === 0 ? {} : { afterSlot: slotOf(afterSlot) });
      expect(clock.nextTimerAt).toBeNull();
    }
  });

  it("take one page at a time, and say whether there is more", async () => {
    const pages = [
      page([event(1)], { hasMore: true, snapshot: { seq: 2, seqInBand: 1 } }),
      page([event(2), event(3)], {
        snapshot: { seq: 3, seqInBand: 2 },
        digestBefore: event(1).digest,
      }),
    ];
    const { reader: tail } = reader(async (attempt) => pages[attempt - 1]!);
    const log = new RunLog();
    const pacing = new Pacing();
    const first = await readOn(tail, log, pacing);
    expect(first).toEqual({ kind: "read", counts: { seq: 2, seqInBand: 1 }, hasMore: true });
    expect(await readOn(tail, log, pacing)).toMatchObject({ hasMore: false });
    expect(log.topSlot).toBe(3);
  });

  it("ask for fewer events the larger they are, and grow by steps where they are small", () => {
    const pacing = new Pacing();
    expect(pacing.limit).toBe(64);
    pacing.note([]);
    pacing.note([event(2)]);
    expect(pacing.limit).toBe(512);
    pacing.note([event(2)]);
    expect(pacing.limit).toBe(1_000);
    const large = l.eventAt(3, {
      type: "step_completed",
      data: { result: new Uint8Array(1 << 20) },
    });
    pacing.note([large]);
    expect(pacing.limit).toBe(4);
    pacing.note([
      l.eventAt(3, { type: "step_completed", data: { result: new Uint8Array(9 << 20) } }),
    ]);
    expect(pacing.limit).toBe(1);
  });

  it.each([
    ["a gap", page([event(2)]), "CORRUPTED_EVENT_LOG"],
    ["an empty page that promises more", page([], { hasMore: true }), "CORRUPTED_EVENT_LOG"],
    ["no counts", { ...page([]), snapshot: undefined } as never, "SNAPSHOT_MISSING"],
    [
      "positions that are not committed yet",
      page([event(1)], { snapshot: { seq: 2, seqInBand: 2 } }),
      "WORLD_UNAVAILABLE",
    ],
  ])("of a log with %s are refused", async (_name, answer, code) => {
    const { reader: tail } = reader(async () => answer);
    await expect(readOn(tail, new RunLog(), new Pacing())).rejects.toMatchObject({ code });
  });

  it("of another history than the log's are told apart by the digest", async () => {
    const log = l.logOf(l.created());
    const { reader: tail } = reader(async () => page([event(2)], { digestBefore: "f".repeat(64) }));
    expect(await readOn(tail, log, new Pacing())).toEqual({ kind: "rewritten" });
    expect(log.topSlot).toBe(1);
  });
});
