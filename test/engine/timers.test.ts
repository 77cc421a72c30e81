import { describe, expect, it } from "vitest";
import type { Send } from "../../engine/ports/queue.ts";
import * as t from "../../engine/timers.ts";
import * as l from "./log-of.ts";

const HOP = 82_800_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const wait = (resumeAt: number, chain = "m1") => ({ waitId: l.idOf("wait", 1), resumeAt, chain });
const continuation = (send: Send | null) =>
  send?.message.kind === "orchestrator" ? send.message.waitContinuation : undefined;
const sent = (send: Send | null) => ({ ...send?.options, ...continuation(send) });
const key = (resumeAt: number, slot: string | number) =>
  `wait:${l.idOf("wait", 1)}:${resumeAt}:${slot}`;

describe("hops", () => {
  it.each([
    ["a due wait has none", l.T0, null],
    ["a past one has none", l.T0 - 5, null],
    ["1 ms away: the wait's own deadline", l.T0 + 1, l.T0 + 1],
    ["exactly one hop away: the last hop", l.T0 + HOP, l.T0 + HOP],
    ["a little more: a first hop of what is left over", l.T0 + HOP + 7, l.T0 + 7],
    ["3 days: a first hop of 3 hours", l.T0 + 3 * DAY, l.T0 + 3 * HOUR],
    ["400 days", l.T0 + 400 * DAY, l.T0 + 400 * DAY - 417 * HOP],
  ])("%s", (_name, resumeAt, expected) => {
    expect(t.hopAtMs(resumeAt, l.T0)).toBe(expected);
  });

  it("a sleep of 400 days is reached hop by hop, each at most 23 hours, at its very deadline", () => {
    const resumeAt = l.T0 + 400 * DAY;
    let now = l.T0;
    let send = t.timerOf(l.RUN, wait(resumeAt), { attempt: 1, nowMs: now });
    const keys = new Set<string>();
    for (let hops = 0; hops < 1_000; hops++) {
      const delayMs = send?.options?.delayMs ?? 0;
      expect(delayMs).toBeLessThanOrEqual(HOP);
      expect(keys.has(send?.options?.idempotencyKey ?? "")).toBe(false);
      keys.add(send?.options?.idempotencyKey ?? "");
      now += delayMs;
      const came = continuation(send);
      if (!t.isIntermediateHop(came) || came === undefined) break;
      send = t.hopAfter(l.RUN, came, now);
    }
    expect(now).toBe(resumeAt);
    expect(keys.size).toBe(418);
  });

  it("a hop that came early names the one after its own, not itself again", () => {
    const resumeAt = l.T0 + 3 * DAY;
    const came = continuation(t.timerOf(l.RUN, wait(resumeAt), { attempt: 1, nowMs: l.T0 }));
    expect(came).toMatchObject({ resumeAtMs: resumeAt, hopAtMs: l.T0 + 3 * HOUR, attempt: 1 });
    const early = came === undefined ? null : t.hopAfter(l.RUN, came, l.T0 + 3 * HOUR - 500);
    const hopMs = l.T0 + 3 * HOUR + HOP;
    expect(sent(early)).toMatchObject({
      idempotencyKey: key(resumeAt, hopMs),
      hopAtMs: hopMs,
      delayMs: HOP + 500,
    });
  });

  it("a last hop has no hop after it", () => {
    expect(t.hopAfter(l.RUN, { correlationId: l.idOf("wait", 1), attempt: 1 }, l.T0)).toBeNull();
    expect(t.isIntermediateHop(undefined)).toBe(false);
  });

  it("a hop that comes late sends the next without delay", () => {
    const came = {
      correlationId: l.idOf("wait", 1),
      attempt: 2,
      resumeAtMs: l.T0,
      hopAtMs: l.T0 - HOP,
    };
    expect(sent(t.hopAfter(l.RUN, came, l.T0 + 5))).toEqual({
      idempotencyKey: key(l.T0, `${l.T0}:a2`),
      delayMs: 0,
      correlationId: l.idOf("wait", 1),
      attempt: 2,
    });
  });
});

describe("keys", () => {
  const resumeAt = l.T0 + HOUR;
  const keyOf = (attempt: number, nowMs = l.T0, at = resumeAt) =>
    t.timerOf(l.RUN, wait(at), { attempt, nowMs })?.options?.idempotencyKey;

  it.each([
    ["is the hop's deadline", keyOf(1), key(resumeAt, resumeAt)],
    ["counts the attempt after a timer that came early", keyOf(2), key(resumeAt, `${resumeAt}:a2`)],
    [
      "is of the hop and not of the wait where more than one is to come",
      keyOf(1, l.T0, l.T0 + 2 * HOP),
      key(l.T0 + 2 * HOP, l.T0 + HOP),
    ],
  ])("a timer's key %s", (_name, used, expected) => {
    expect(used).toBe(expected);
  });

  it("all senders of one hop window use one key, whatever their clocks", () => {
    const keys = new Set([0, 1, 17 * 60_000, HOUR - 1].map((ms) => keyOf(1, l.T0 + ms)));
    expect(keys.size).toBe(1);
  });
});

describe("chains", () => {
  const log = l.logOf(
    l.created(),
    l.waitCreated(1, l.T0 + 300, "m1"),
    l.waitCreated(2, l.T0 + 200, "m1"),
    l.waitCreated(3, l.T0 + 100, "m2"),
    l.waitCreated(4, l.T0 + 50, "m2"),
    l.waitCreated(5, l.T0 + 200, "m1"),
    l.waitCompleted(4),
  );
  const ids = (waits: readonly t.TimedWait[]) => waits.map((w) => Number(w.waitId.slice(-2)));
  const waits = () => log.waits.values();

  it("each owned chain arms its earliest open wait, the older of two equal ones", () => {
    expect(ids(t.earliestOfChains(waits(), () => true))).toEqual([2, 3]);
    expect(ids(t.earliestOfChains(waits(), (chain) => chain === "m2"))).toEqual([3]);
    expect(t.earliestOfChains(waits(), () => false)).toEqual([]);
  });

  it("before a creation only an earliest new wait is armed", () => {
    const fresh = (resumeAt: number) => ({ ...wait(resumeAt), waitId: l.idOf("wait", 9) });
    const before = (resumeAts: number[], chain = "m1") =>
      t.timerBeforeCreation(waits(), resumeAts.map(fresh), chain)?.resumeAt ?? null;
    expect(before([l.T0 + 150, l.T0 + 120])).toBe(l.T0 + 120);
    expect(before([l.T0 + 200])).toBeNull();
    expect(before([])).toBeNull();
    expect(before([l.T0 + 999], "m3")).toBe(l.T0 + 999);
  });

  it("before a completion the next wait of its chain is armed, and of no other", () => {
    const completing = [...waits()].filter((w) => [2].includes(Number(w.waitId.slice(-2))));
    expect(ids(t.timersBeforeCompletion(waits(), completing))).toEqual([5]);
    const both = [...waits()].filter((w) => [2, 5, 3].includes(Number(w.waitId.slice(-2))));
    expect(ids(t.timersBeforeCompletion(waits(), both))).toEqual([1]);
  });
});
