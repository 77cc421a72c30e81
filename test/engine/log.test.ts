import { describe, expect, it } from "vitest";
import { InvariantViolation } from "../../engine/assert.ts";
import { isBatonError } from "../../engine/errors.ts";
import { nextFeed, eventsToMerge } from "../../engine/consume.ts";
import { RunLog } from "../../engine/log.ts";
import type { GuestEvent } from "../../engine/ports/sandbox.ts";
import { slotOf } from "../../engine/slots.ts";
import { attemptsOf } from "../../engine/steps.ts";
import { dueWaits, nextDueMs } from "../../engine/waits.ts";
import * as l from "./log-of.ts";

const all = (log: RunLog) => log.markConsumed(log.topSlot);
const inertSlots = (log: RunLog) =>
  log.unconsumed.filter((one) => one.isInert).map((one) => one.event.slot);

describe("the order of a log", () => {
  it("an event is taken only right above the top slot", () => {
    const log = l.logOf(l.created());
    expect(() => log.append(l.eventAt(3, l.started()))).toThrow(InvariantViolation);
    expect(() => log.append(l.eventAt(1, l.started()))).toThrow(InvariantViolation);
    expect(log.topSlot).toBe(1);
  });

  it("a log that does not begin with run_created is broken", () => {
    expect(() => l.logOf(l.started())).toThrow(/broken/);
  });

  it("a second run_created is broken", () => {
    try {
      l.logOf(l.created(), l.created());
      expect.unreachable();
    } catch (error) {
      expect(isBatonError(error, "CORRUPTED_EVENT_LOG")).toBe(true);
    }
  });

  it("the first terminal event by position is the run's status, and all after it is inert", () => {
    const log = l.logOf(l.created(), l.started(), l.stepCreated(1));
    l.grow(log, { type: "run_cancelled" }, l.stepCompleted(1), {
      type: "run_completed",
      data: { output: l.bytes("x") },
    });
    expect(log.run).toMatchObject({ kind: "over", by: "run_cancelled", slot: 4 });
    expect(inertSlots(log)).toEqual([5, 6]);
  });

  it("a run that is over before it started says so", () => {
    const log = l.logOf(l.created(), { type: "run_cancelled" });
    expect(log.run).toMatchObject({ kind: "over", startedAt: null });
  });
});

describe("steps in a log", () => {
  it("an inline step is created by its first start, a background one by step_created", () => {
    const log = l.logOf(l.created(), l.started(), l.inlineStarted(1), l.stepCreated(2));
    expect(log.steps.get(l.idOf("step", 1))).toMatchObject({ mode: "inline", starts: 1 });
    expect(log.steps.get(l.idOf("step", 2))).toMatchObject({ mode: "background", starts: 0 });
  });

  it("a start without a creation is inert", () => {
    const log = l.logOf(l.created(), l.stepStarted(1));
    expect(log.steps.size).toBe(0);
    expect(inertSlots(log)).toEqual([2]);
  });

  it.each([
    ["start", l.stepStarted(1, 2)],
    ["retry", l.stepRetrying(1)],
    ["second outcome", l.stepFailed(1)],
    ["second creation", l.stepCreated(1)],
  ])("a %s after the outcome is inert, before and after the guest consumed it", (_name, late) => {
    const log = l.logOf(l.created(), l.stepCreated(1), l.stepStarted(1), l.stepCompleted(1));
    l.grow(log, late);
    expect(inertSlots(log)).toEqual([5]);
    all(log);
    if (late.type === "step_created") return;
    l.grow(log, late);
    expect(inertSlots(log)).toEqual([6]);
  });

  it("a second step_created of an open step is inert", () => {
    const log = l.logOf(l.created(), l.stepCreated(1), l.stepCreated(1));
    expect(inertSlots(log)).toEqual([3]);
  });

  it("a retry that the orchestrator moved makes an inline step a background one for good", () => {
    const log = l.logOf(l.created(), l.inlineStarted(1));
    l.grow(log, l.stepRetrying(1, { creatorMessageId: "m1" }));
    const step = log.steps.get(l.idOf("step", 1));
    expect(step).toMatchObject({
      mode: "background",
      retry: { moved: true, retryAt: l.T0 + 60_000 },
    });
    l.grow(log, l.stepStarted(1, 2));
    expect(log.steps.get(l.idOf("step", 1))).toMatchObject({ mode: "background", retry: null });
  });

  it("attempts are starts less interrupted ones", () => {
    const log = l.logOf(l.created(), l.stepCreated(1), l.stepStarted(1));
    l.grow(log, l.stepRetrying(1, { interrupted: true }), l.stepStarted(1), l.stepRetrying(1));
    const step = log.steps.get(l.idOf("step", 1));
    expect(step).toMatchObject({ starts: 2, interruptions: 1, startedAt: l.T0 + 3 });
    expect(step === undefined ? null : attemptsOf(step)).toBe(1);
  });
});

describe("waits in a log", () => {
  it("a second wait_completed is inert, and so is one of an unknown wait", () => {
    const log = l.logOf(l.created(), l.waitCreated(1, l.T0 + 5), l.waitCompleted(1));
    l.grow(log, l.waitCompleted(1), l.waitCompleted(2), l.waitCreated(1, l.T0 + 9));
    expect(inertSlots(log)).toEqual([4, 5, 6]);
  });

  it("a request to wake without names is about the waits below its slot only", () => {
    const log = l.logOf(l.created(), l.waitCreated(1, l.T0 + 1e6), l.wakeRequested());
    l.grow(log, l.waitCreated(2, l.T0 + 1e6));
    expect(dueWaits(log.waits.values(), l.T0).map((w) => w.waitId)).toEqual([l.idOf("wait", 1)]);
  });

  it("a request to wake with names touches no other wait", () => {
    const log = l.logOf(l.created(), l.waitCreated(1, l.T0 + 1e6), l.waitCreated(2, l.T0 + 1e6));
    l.grow(log, l.wakeRequested(2, 7));
    expect(dueWaits(log.waits.values(), l.T0).map((w) => w.waitId)).toEqual([l.idOf("wait", 2)]);
  });

  it("a wait is due at its deadline, not before", () => {
    const log = l.logOf(l.created(), l.waitCreated(1, l.T0 + 100), l.waitCreated(2, l.T0 + 50));
    expect(dueWaits(log.waits.values(), l.T0 + 99)).toHaveLength(1);
    expect(dueWaits(log.waits.values(), l.T0 + 100).map((w) => w.createdSlot)).toEqual([3, 2]);
    expect(nextDueMs(log.waits.values())).toBe(l.T0 + 50);
    l.grow(log, l.waitCompleted(1), l.waitCompleted(2), l.wakeRequested());
    expect(dueWaits(log.waits.values(), l.T0 + 1e9)).toEqual([]);
    expect(nextDueMs(log.waits.values())).toBeNull();
  });

  it("of several that one look finds due the shortest ends first, and a woken one last", () => {
    const log = l.logOf(l.created(), l.waitCreated(1, l.T0 + 1e6), l.waitCreated(2, l.T0 + 80));
    l.grow(log, l.waitCreated(3, l.T0 + 10), l.waitCreated(4, l.T0 + 10), l.wakeRequested(1));
    const due = dueWaits(log.waits.values(), l.T0 + 1000).map((wait) => wait.waitId);
    expect(due).toEqual([3, 4, 2, 1].map((n) => l.idOf("wait", n)));
  });
});

describe("hooks and attributes in a log", () => {
  it.each([
    ["disposal", l.hookDisposed(1)],
    ["conflict", l.hookConflict(1)],
  ])("after a %s every event of the hook is inert", (_name, closing) => {
    const log = l.logOf(l.created(), l.hookCreated(1), l.hookReceived(1), closing);
    l.grow(log, l.hookReceived(1), l.hookDisposed(1), l.hookConflict(1), l.hookCreated(1));
    expect(inertSlots(log)).toEqual([5, 6, 7, 8]);
  });

  it("a conflict in place of a creation closes the hook at once", () => {
    const log = l.logOf(l.created(), l.hookConflict(1));
    expect(log.hooks.get(l.idOf("hook", 1))).toMatchObject({ closedSlot: 2 });
    expect(inertSlots(log)).toEqual([]);
  });

  it("a payload or disposal of an unknown hook is inert", () => {
    expect(inertSlots(l.logOf(l.created(), l.hookReceived(1), l.hookDisposed(1)))).toEqual([2, 3]);
  });

  it("a second write of one attribute id is inert, and so is one without an id", () => {
    const log = l.logOf(l.created(), l.attrSet(1), l.attrSet(1), l.attrSet(null, "client"));
    expect(inertSlots(log)).toEqual([3, 4]);
    all(log);
    expect(log.attributes.size).toBe(0);
  });
});

describe("the size of a log", () => {
  it("nothing is kept of what is closed and consumed", () => {
    const log = l.logOf(l.created(), l.started());
    for (let n = 1; n <= 200; n++) {
      l.grow(log, l.inlineStarted(n), l.stepCompleted(n), l.waitCreated(n, l.T0));
      l.grow(log, l.waitCompleted(n), l.hookCreated(n), l.hookDisposed(n), l.attrSet(n));
      all(log);
    }
    expect([log.steps.size, log.waits.size, log.hooks.size, log.attributes.size]).toEqual([
      0, 0, 0, 0,
    ]);
    expect(log.unconsumed).toHaveLength(0);
    expect(JSON.stringify(log.fold()).length).toBeLessThan(1_000);
  });

  it("what is closed is kept until the guest has consumed that it is", () => {
    const log = l.logOf(l.created(), l.started(), l.inlineStarted(1), l.stepCompleted(1));
    log.markConsumed(slotOf(3));
    expect(log.steps.size).toBe(1);
    log.markConsumed(slotOf(4));
    expect(log.steps.size).toBe(0);
  });

  it("a restored log goes on where the folded one stopped", () => {
    const log = l.logOf(l.created(), l.started(), l.stepCreated(1), l.waitCreated(1, l.T0 + 9));
    l.grow(log, l.hookCreated(1));
    expect(() => log.fold()).toThrow(InvariantViolation);
    all(log);
    const restored = RunLog.restore(log.fold());
    for (const one of [log, restored]) l.grow(one, l.stepCompleted(1), l.hookReceived(1));
    expect(restored.unconsumed).toEqual(log.unconsumed);
    expect([restored.topSlot, restored.digest, restored.consumedSlot]).toEqual([7, log.digest, 5]);
    all(restored);
    all(log);
    expect(restored.fold()).toEqual(log.fold());
  });
});

describe("what the guest is fed", () => {
  it("gets each event that may resume or check it, and no other", () => {
    const log = l.logOf(
      l.created(),
      l.started(),
      l.inlineStarted(1),
      l.stepCreated(2),
      l.stepStarted(2),
      l.stepRetrying(2),
      l.waitCreated(1, l.T0 + 5),
      l.wakeRequested(),
      l.waitCompleted(1),
      l.attrSet(1),
      l.attrSet(null, "client"),
      l.hookCreated(1),
      l.hookReceived(1),
      l.hookConflict(2),
      { type: "noop", data: { sealed: true } },
      l.stepCompleted(1),
      l.stepFailed(2),
      l.stepCompleted(2),
    );
    const feed = nextFeed(log, 100);
    expect(feed?.upTo).toBe(18);
    expect(feed?.events.map((e) => e.slot)).toEqual([1, 2, 3, 4, 7, 9, 10, 12, 13, 14, 16, 17]);
    const by = new Map<number, GuestEvent>(feed?.events.map((e) => [e.slot, e]));
    expect(by.get(3)?.asked).toEqual({ stepName: "work" });
    expect(by.get(7)?.asked).toEqual({ resumeAt: l.T0 + 5 });
    expect(by.get(13)?.payload).toEqual(l.bytes("payload"));
    expect(by.get(14)?.conflictingRunId).toBe("wrun_other");
    expect(by.get(16)?.payload).toEqual(l.bytes("result 1"));
    expect(by.get(17)?.payload).toEqual(l.bytes("error 2"));
    expect(by.get(1)?.payload).toEqual(l.bytes("input"));
    expect(by.get(2)?.payload).toBeNull();
  });

  it("takes a long log in pieces", () => {
    const log = l.logOf(l.created(), l.started(), l.stepCreated(1));
    expect(nextFeed(log, 2)).toMatchObject({ upTo: 2, events: [{ slot: 1 }, { slot: 2 }] });
    log.markConsumed(slotOf(2));
    expect(nextFeed(log, 2)).toMatchObject({ upTo: 3, events: [{ slot: 3 }] });
    log.markConsumed(slotOf(3));
    expect(nextFeed(log, 2)).toBeNull();
  });
});

describe("how an answer to a write joins the log", () => {
  const at = (...slots: number[]) => slots.map((slot) => l.eventAt(slot, l.started()));
  const merge = (report: number[], own: number[], hasMore = false) => {
    const merged = eventsToMerge(slotOf(5), { report: at(...report), own: at(...own), hasMore });
    return { slots: merged.events.map((e) => e.slot as number), isBehind: merged.isBehind };
  };

  it.each([
    ["an empty report and the next slot", merge([], [6]), [6], false],
    ["a report below the own event", merge([7, 6], [8]), [6, 7, 8], false],
    ["a report between two own events", merge([7], [6, 8]), [6, 7, 8], false],
    ["slots that are known already", merge([4, 5], [5, 6]), [6], false],
    ["an own event above a hole", merge([], [7]), [], true],
    ["a hole inside the report", merge([6, 8], [9]), [6], true],
    ["a report that may be incomplete", merge([6], [7], true), [6, 7], true],
  ])("%s", (_name, merged, slots, isBehind) => {
    expect(merged).toEqual({ slots, isBehind });
  });
});
