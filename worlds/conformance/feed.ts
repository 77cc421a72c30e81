/** Cases of the live feed: W17 to W19. */
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../engine/events.ts";
import type { RunId, TenantId } from "../../engine/ids.ts";
import type { SubscribeOptions } from "../../engine/ports/world.ts";
import { positionOf } from "../../engine/slots.ts";
import { HEARTBEAT_MS, RUN_FEEDS_MAX, TENANT_FEEDS_MAX } from "../feeds.ts";
import type { Cases } from "./cases.ts";
import type { Bench } from "./harness.ts";
import * as h from "./harness.ts";

async function subscribed(
  bench: Bench,
  runId: RunId,
  after = 0,
  options: Partial<SubscribeOptions> & { onEvent?: (event: RunEvent) => void } = {},
  tenantId: TenantId = h.A,
) {
  const slots: number[] = [];
  const errors: Error[] = [];
  const { onEvent, ...rest } = options;
  const stop = await bench.store(tenantId).events.subscribe(
    runId,
    positionOf(after),
    (event) => {
      slots.push(event.slot);
      onEvent?.(event);
    },
    { onError: (error) => errors.push(error), ...rest },
  );
  return { slots, errors, stop };
}

const upTo = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);

export const feedCases: Cases = (use) => {
  describe("order and completeness (W17)", () => {
    it("a feed gives what was there above its start, and then what comes", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runStarted());
      await bench.inBand(runId, h.waitCreated());
      const feed = await subscribed(bench, runId, 1);
      await bench.until(() => {
        expect(feed.slots).toEqual([2, 3]);
      });
      await bench.store().events.create(runId, h.attrSet());
      await bench.until(() => {
        expect(feed.slots).toEqual([2, 3, 4]);
      });
    });

    it("an event of the feed is the event of the log", async () => {
      const bench = use();
      const runId = await bench.started();
      const seen: RunEvent[] = [];
      await subscribed(bench, runId, 1, { onEvent: (event) => seen.push(event) });
      await bench.inBand(runId, h.stepCreated());
      await bench.inBand(runId, h.waitCreated());
      await bench.until(() => {
        expect(seen.length).toBe(2);
      });
      expect(seen).toEqual((await bench.log(runId)).slice(1));
    });

    it("a batch comes event by event, in order", async () => {
      const bench = use();
      const runId = await bench.started();
      const feed = await subscribed(bench, runId, 1);
      const many = Array.from({ length: 10 }, () => h.stepCreated());
      await bench.store().events.createBatch(runId, many, {});
      await bench.until(() => {
        expect(feed.slots).toEqual(upTo(2, 11));
      });
    });

    it("many concurrent writers give one dense order", async () => {
      const bench = use();
      const runId = await bench.started();
      const feed = await subscribed(bench, runId, 1);
      await Promise.all(
        Array.from({ length: 300 }, async () => bench.store().events.create(runId, h.attrSet())),
      );
      await bench.until(() => {
        expect(feed.slots).toEqual(upTo(2, 301));
      });
    });

    it("a subscriber that is far behind loses nothing while writers go on", async () => {
      const bench = use();
      const runId = await bench.started();
      const { events } = bench.store();
      await Promise.all(
        Array.from({ length: 1_200 }, async () => events.create(runId, h.attrSet())),
      );
      const opening = subscribed(bench, runId, 0);
      const writing = Promise.all(
        Array.from({ length: 200 }, async () => events.create(runId, h.attrSet())),
      );
      const feed = await opening;
      await writing;
      await bench.until(() => {
        expect(feed.slots).toEqual(upTo(1, 1_401));
      });
    });

    it("two feeds of one run, from two starts, each give all of theirs", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runStarted());
      const low = await subscribed(bench, runId, 0);
      const high = await subscribed(bench, runId, 2);
      await bench.inBand(runId, h.waitCreated());
      await bench.until(() => {
        expect([low.slots, high.slots]).toEqual([[1, 2, 3], [3]]);
      });
    });

    it("a feed that starts above the top waits for what comes after its start", async () => {
      const bench = use();
      const runId = await bench.started();
      const feed = await subscribed(bench, runId, 2);
      await bench.inBand(runId, h.runStarted());
      await bench.inBand(runId, h.waitCreated());
      await bench.until(() => {
        expect(feed.slots).toEqual([3]);
      });
    });

    it("a refused write gives no event", async () => {
      const bench = use();
      const runId = await bench.started();
      const feed = await subscribed(bench, runId, 1);
      await h.refusal(
        bench.inBand(runId, h.runStarted(), { expectedSeqInBand: 7 }),
        "IN_BAND_SUPERSEDED",
      );
      await bench.store().events.create(runId, h.attrSet());
      await bench.until(() => {
        expect(feed.slots).toEqual([2]);
      });
    });

    it("the disposal that a force-claim writes comes through the victim's feed", async () => {
      const bench = use();
      const [victim, claimer] = [await bench.started(), await bench.started()];
      await bench.inBand(victim, h.hookCreated(h.newId("hook"), "t"));
      const feed = await subscribed(bench, victim, 2);
      await bench.inBand(claimer, h.hookCreated(h.newId("hook"), "t", { force: true }));
      await bench.until(() => {
        expect(feed.slots).toEqual([3]);
      });
    });
  });

  describe("the end of a feed (W18)", () => {
    it("after its end a feed gives nothing, and no error", async () => {
      const bench = use();
      const runId = await bench.started();
      const feed = await subscribed(bench, runId, 1);
      feed.stop();
      feed.stop();
      await bench.inBand(runId, h.runStarted());
      await bench.quiet();
      expect([feed.slots, feed.errors]).toEqual([[], []]);
    });

    it("a subscriber that throws ends its own feed, once, and no other", async () => {
      const bench = use();
      const runId = await bench.started();
      const bad = await subscribed(bench, runId, 1, {
        onEvent: () => {
          throw new Error("the subscriber failed");
        },
      });
      const good = await subscribed(bench, runId, 1);
      await bench.inBand(runId, h.runStarted());
      await bench.inBand(runId, h.waitCreated());
      await bench.until(() => {
        expect(good.slots).toEqual([2, 3]);
      });
      expect(bad.slots).toEqual([2]);
      expect(bad.errors.map((error) => error.message)).toEqual(["the subscriber failed"]);
    });

    it("a subscriber that ends its feed from within gets nothing more", async () => {
      const bench = use();
      const runId = await bench.started();
      await bench.inBand(runId, h.runStarted());
      await bench.inBand(runId, h.waitCreated());
      let stop: (() => void) | null = null;
      const feed = await subscribed(bench, runId, 1, { onEvent: () => stop?.() });
      stop = feed.stop;
      await bench.quiet();
      expect(feed.slots.length).toBeLessThanOrEqual(2);
      const seen = feed.slots.length;
      await bench.store().events.create(runId, h.attrSet());
      await bench.store().events.create(runId, h.attrSet());
      await bench.quiet();
      expect(feed.slots.length).toBeLessThanOrEqual(seen + 1);
    });

    it("closing the World ends its feeds with an error", async () => {
      const bench = use();
      const runId = await bench.started();
      const feed = await subscribed(bench, runId, 1);
      await bench.world.close();
      expect(feed.errors.map((error) => (error as h.Coded).code)).toEqual(["CLOSED"]);
    });

    it("a feed of a run that does not exist is refused", async () => {
      const bench = use();
      await h.refusal(subscribed(bench, h.newRunId()), "RUN_NOT_FOUND");
    });
  });

  describe("caps and heartbeats (W19)", () => {
    it("a run's clients have their feeds, the next is a 429, and an end frees a place", async () => {
      const bench = use();
      const runId = await bench.started();
      const feeds = [];
      for (let i = 0; i < RUN_FEEDS_MAX; i++) {
        feeds.push(await subscribed(bench, runId, 1, { isClient: true }));
      }
      const error = await h.refusal(
        subscribed(bench, runId, 1, { isClient: true }),
        "RUN_FEED_LIMIT",
      );
      expect([error.status, error.details.allowed]).toEqual([429, RUN_FEEDS_MAX]);
      feeds[0]?.stop();
      const again = await subscribed(bench, runId, 1, { isClient: true });
      await bench.inBand(runId, h.runStarted());
      await bench.until(() => {
        expect(again.slots).toEqual([2]);
      });
    });

    it("the engine's own feed is not counted", async () => {
      const bench = use();
      const runId = await bench.started();
      for (let i = 0; i < RUN_FEEDS_MAX; i++) {
        await subscribed(bench, runId, 1, { isClient: true });
      }
      const own = await subscribed(bench, runId, 1);
      await bench.inBand(runId, h.runStarted());
      await bench.until(() => {
        expect(own.slots).toEqual([2]);
      });
    });

    it("caps that the subscription brings hold in the place of the World's", async () => {
      const bench = use();
      const runId = await bench.started();
      const capped = { isClient: true, caps: { perRunMax: 1, perTenantMax: null } };
      await subscribed(bench, runId, 1, capped);
      const refused = await h.refusal(subscribed(bench, runId, 1, capped), "RUN_FEED_LIMIT");
      expect([refused.details.used, refused.details.allowed]).toEqual([1, 1]);
      const uncapped = { isClient: true, caps: { perRunMax: null, perTenantMax: null } };
      for (let i = 0; i < 3; i++) await subscribed(bench, runId, 1, uncapped);
    });

    it("a tenant's clients have their feeds over all runs, and another tenant's are its own", async () => {
      const bench = use();
      const runs: RunId[] = [];
      for (let i = 0; i <= TENANT_FEEDS_MAX / RUN_FEEDS_MAX; i++) runs.push(await bench.started());
      for (let i = 0; i < TENANT_FEEDS_MAX; i++) {
        await subscribed(bench, runs[Math.floor(i / RUN_FEEDS_MAX)] as RunId, 1, {
          isClient: true,
        });
      }
      const last = runs.at(-1) as RunId;
      await h.refusal(subscribed(bench, last, 1, { isClient: true }), "RUN_FEED_LIMIT");
      const other = await bench.started(h.B);
      const feed = await subscribed(bench, other, 0, { isClient: true }, h.B);
      await bench.until(() => {
        expect(feed.slots).toEqual([1]);
      });
    });

    it("a refused subscription takes no place", async () => {
      const bench = use();
      const missing = h.newRunId();
      for (let i = 0; i < TENANT_FEEDS_MAX + 1; i++) {
        await h.refusal(subscribed(bench, missing, 0, { isClient: true }), "RUN_NOT_FOUND");
      }
      const runId = await bench.started();
      expect((await subscribed(bench, runId, 1, { isClient: true })).errors).toEqual([]);
    });

    it("a heartbeat gives the top slot, also when nothing is pushed", async () => {
      const bench = use();
      const runId = await bench.started();
      const beats: number[] = [];
      const feed = await subscribed(bench, runId, 1, { onHeartbeat: (slot) => beats.push(slot) });
      await bench.open.advance(HEARTBEAT_MS);
      expect(beats).toEqual([1]);
      await bench.inBand(runId, h.runStarted());
      await bench.open.advance(HEARTBEAT_MS);
      expect(beats).toEqual([1, 2]);
      feed.stop();
      await bench.open.advance(HEARTBEAT_MS * 3);
      expect(beats).toEqual([1, 2]);
    });

    it("a heartbeat of a feed that starts above the top gives the true top", async () => {
      const bench = use();
      const runId = await bench.started();
      const beats: number[] = [];
      await subscribed(bench, runId, 9, { onHeartbeat: (slot) => beats.push(slot) });
      await bench.open.advance(HEARTBEAT_MS);
      expect(beats).toEqual([1]);
    });
  });
};
