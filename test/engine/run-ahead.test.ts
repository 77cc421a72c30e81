import { describe, expect, it } from "vitest";
import { AheadWrites } from "../../engine/ahead-writes.ts";
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import type { EntityId } from "../../engine/ids.ts";
import { newEvent } from "../../engine/plan.ts";
import type { OpenOperation } from "../../engine/ports/sandbox.ts";
import type { EventBatchResult, Events } from "../../engine/ports/world.ts";
import { isHazard, moverOf, placedEvent, sensitiveHooks } from "../../engine/run-ahead.ts";
import type { Boundary } from "../../engine/run-ahead.ts";
import { slotOf } from "../../engine/slots.ts";
import { InBandWriter } from "../../engine/writer.ts";
import * as l from "./log-of.ts";

const hook = (n: number, more: Partial<Extract<OpenOperation, { kind: "hook" }>> = {}) =>
  ({
    kind: "hook",
    correlationId: l.idOf("hook", n),
    token: "t",
    metadata: null,
    isWebhook: false,
    isSystem: false,
    force: false,
    retentionMs: 0,
    awaitsConflict: false,
    ...more,
  }) as const;
const at = (more: Partial<Boundary> = {}): Boundary => ({
  operations: [],
  awaitedHooks: [],
  completion: null,
  ...more,
});
const HERE = l.idOf("step", 1);
const around = (
  lines: readonly l.Line[],
  boundary: Boundary = at(),
  deadlineMs: number = l.T0 + 600_000,
) => {
  const log = l.logOf(l.created(), l.started(), ...lines);
  const runsHere = (id: EntityId) => id === HERE;
  return { boundary, log, steps: log.steps, runsHere, deadlineMs };
};

describe("a boundary", () => {
  it.each([
    ["nothing else is open", around([]), null],
    ["a step runs here", around([l.inlineStarted(1)]), null],
    ["an inline step's body is lost", around([l.inlineStarted(2)]), "step elsewhere"],
    ["a step is in the background", around([l.stepCreated(1)]), "step elsewhere"],
    ["a background step has ended", around([l.stepCreated(1), l.stepCompleted(1)]), null],
    [
      "a hook is open and nobody waits on it",
      around([l.hookCreated(1)], at({ operations: [hook(1)] })),
      null,
    ],
    [
      "a hook is awaited",
      around([l.hookCreated(1)], at({ operations: [hook(1)], awaitedHooks: [l.idOf("hook", 1)] })),
      "hook",
    ],
    [
      "a hook's conflict is awaited",
      around([l.hookCreated(1)], at({ operations: [hook(1, { awaitsConflict: true })] })),
      "hook",
    ],
    [
      "an abort signal has a hook",
      around([l.hookCreated(1)], at({ operations: [hook(1, { isSystem: true })] })),
      "hook",
    ],
    ["the heap does not know an open hook", around([l.hookCreated(1)]), "hook"],
    ["the heap forgot a hook that is closed", around([l.hookCreated(1), l.hookDisposed(1)]), null],
    ["a wait is due in the window", around([l.waitCreated(1, l.T0 + 600_000)]), "wait"],
    ["a wait is due within the skew", around([l.waitCreated(1, l.T0 + 630_000)]), "wait"],
    ["a wait is due later", around([l.waitCreated(1, l.T0 + 630_001)]), null],
    ["a wait is completed", around([l.waitCreated(1, l.T0), l.waitCompleted(1)]), null],
  ] as const)("where %s", (_name, surroundings, mover) => {
    expect(moverOf(surroundings)).toBe(mover);
  });
});

describe("an event below an uncommitted one", () => {
  const awaited = new Set([l.idOf("hook", 1)]);
  const context = { sensitive: awaited, runsHere: (id: EntityId) => id === HERE };
  it.each([
    ["a payload of an awaited hook", l.hookReceived(1), true],
    ["a conflict of an awaited hook", l.hookConflict(1), true],
    ["a disposal of an awaited hook", l.hookDisposed(1), true],
    ["a payload of another hook", l.hookReceived(2), false],
    ["an outcome of a step elsewhere", l.stepCompleted(2), true],
    ["a failure of a step elsewhere", l.stepFailed(2), true],
    ["a start of a step elsewhere", l.stepStarted(2), true],
    ["a retry of a step elsewhere", l.stepRetrying(2), true],
    ["an event of a step that runs here", l.stepStarted(1), false],
    ["a completed wait", l.waitCompleted(1), true],
    ["a cancellation", { type: "run_cancelled" }, false],
    ["an attribute", l.attrSet(null, "client"), false],
    ["a sealed hole", { type: "noop", data: { sealed: true } }, false],
    ["a request to wake", l.wakeRequested(), false],
  ] as const)("%s", (_name, line, isOne) => {
    expect(isHazard(l.eventAt(5, line), context)).toBe(isOne);
  });
});

it("an event is foreseen under the time that is sent with it", () => {
  const event = { ...newEvent("run_started", null, {}), occurredAt: 7 };
  const placed = placedEvent(event, { runId: l.RUN.runId, slot: slotOf(2), nowMs: 9 });
  expect(placed).toMatchObject({ slot: 2, createdAt: 7, eventType: "run_started" });
  expect(placed).not.toHaveProperty("occurredAt");
});

it("hooks that the code waits on are sensitive, whatever else is open", () => {
  const { log, boundary } = around(
    [l.hookCreated(1), l.hookCreated(2)],
    at({ operations: [hook(1), hook(2)], awaitedHooks: [l.idOf("hook", 2)] }),
  );
  expect([...sensitiveHooks(boundary, log)]).toEqual([l.idOf("hook", 2)]);
});

/** Answers that a test gives one by one, for batches as they were sent. */
function heldWrites() {
  const log = l.logOf(l.created(), l.started());
  log.markConsumed(log.topSlot);
  const sent: { types: string[]; answer: (result: Partial<EventBatchResult>) => void }[] = [];
  const events = {
    createBatch: (_runId: string, batch: readonly NewEvent[]) =>
      new Promise<EventBatchResult>((resolve) => {
        const answer = (result: Partial<EventBatchResult>) =>
          resolve({ results: [], allocated: 0, events: [], hasMore: false, ...result });
        sent.push({ types: batch.map(({ eventType }) => eventType), answer });
      }),
  } as unknown as Events;
  const writer = new InBandWriter({ events, runId: l.RUN.runId, log, seqInBand: 2 });
  const committed: RunEvent[] = [];
  const writes = new AheadWrites({
    writer,
    log,
    runId: l.RUN.runId,
    now: () => l.T0,
    runsHere: (id) => id === HERE || id === l.idOf("step", 2),
    onCommitted: (these) => void committed.push(...these),
    onAnswer: () => undefined,
  });
  const start = (n: number) => {
    const step = { stepName: "work", attempt: 1, input: l.bytes("in"), inline: true } as const;
    writes.push(newEvent("step_started", l.idOf("step", n), step));
    writes.send();
  };
  const end = (n: number) => {
    const outcome = { stepName: "work", result: l.bytes("out") };
    writes.push(newEvent("step_completed", l.idOf("step", n), outcome));
    writes.send();
  };
  return { log, sent, writes, start, end };
}

const own = (slot: number, line: l.Line, more: Partial<l.Line> = {}) =>
  ({ kind: "committed", event: l.eventAt(slot, { ...line, at: l.T0, ...more }) }) as const;
const turn = () => new Promise<void>((resolve) => void setImmediate(resolve));

describe("writes that run ahead", () => {
  it("go out one group at a time, in the order decided", async () => {
    const { sent, writes, start, end, log } = heldWrites();
    start(1);
    end(1);
    start(2);
    expect(sent.map(({ types }) => types)).toEqual([["step_started"]]);
    expect([...writes.unstarted]).toEqual([l.idOf("step", 1), l.idOf("step", 2)]);
    sent[0]?.answer({ results: [own(3, l.inlineStarted(1))], allocated: 1 });
    await turn();
    expect(sent[1]?.types).toEqual(["step_completed", "step_started"]);
    expect([...writes.unstarted]).toEqual([l.idOf("step", 2)]);
    sent[1]?.answer({
      results: [own(4, l.stepCompleted(1)), own(5, l.inlineStarted(2))],
      allocated: 2,
    });
    await writes.idle();
    expect([writes.stop, writes.isDisplaced, log.topSlot]).toEqual([null, false, 5]);
  });

  it("form groups of at most 16", async () => {
    const { sent, start } = heldWrites();
    for (let n = 1; n <= 20; n++) start(n);
    sent[0]?.answer({ results: [own(3, l.inlineStarted(1))], allocated: 1 });
    await turn();
    expect(sent.map(({ types }) => types.length)).toEqual([1, 16]);
  });

  it("show the steps as they will be, and count as consumed only what is committed", async () => {
    const { sent, writes, start, end, log } = heldWrites();
    start(1);
    end(1);
    writes.noteTold(slotOf(4));
    expect(writes.steps().get(HERE)?.outcome).toEqual({ kind: "completed", slot: 4 });
    expect([log.consumedSlot, writes.outcomeCount]).toEqual([2, 1]);
    sent[0]?.answer({ results: [own(3, l.inlineStarted(1))], allocated: 1 });
    await turn();
    expect(log.consumedSlot).toBe(3);
    sent[1]?.answer({ results: [own(4, l.stepCompleted(1))], allocated: 1 });
    await writes.idle();
    expect([log.consumedSlot, writes.outcomeCount]).toEqual([4, 0]);
  });

  it("that are displaced by what nobody minds are all sent, and count as consumed no more", async () => {
    const { sent, writes, start, end, log } = heldWrites();
    start(1);
    end(1);
    writes.noteTold(slotOf(4));
    const foreign = l.eventAt(3, l.attrSet(null, "client"));
    sent[0]?.answer({
      results: [own(4, l.inlineStarted(1))],
      events: [foreign],
      allocated: 1,
    });
    await turn();
    sent[1]?.answer({ results: [own(5, l.stepCompleted(1))], allocated: 1 });
    await writes.idle();
    expect([writes.stop, writes.isDisplaced, log.consumedSlot]).toEqual([null, true, 2]);
  });

  it.each([
    ["a completed wait", [l.waitCreated(7, l.T0), l.waitCompleted(7)], "hazard"],
    ["an end of a step elsewhere", [l.stepCreated(7), l.stepCompleted(7)], "hazard"],
    ["a cancellation", [{ type: "run_cancelled" }], "over"],
  ] as const)("stop at %s below them: nothing further is sent", async (_name, lines, kind) => {
    const { sent, writes, start, end } = heldWrites();
    start(1);
    end(1);
    start(2);
    sent[0]?.answer({
      results: [own(3 + lines.length, l.inlineStarted(1))],
      events: lines.map((line, i) => l.eventAt(3 + i, line)),
      allocated: 1,
    });
    await writes.idle();
    expect(writes.stop?.kind).toBe(kind);
    expect(sent).toHaveLength(1);
    expect([...writes.unstarted]).toEqual([l.idOf("step", 2)]);
  });

  it("do not stop at an inert event of a step that has ended", async () => {
    const { sent, writes, start } = heldWrites();
    start(1);
    sent[0]?.answer({
      results: [own(4, l.inlineStarted(1))],
      events: [l.eventAt(3, l.stepCompleted(9))],
      allocated: 1,
    });
    await writes.idle();
    expect([writes.stop, writes.isDisplaced]).toEqual([null, true]);
  });

  it("stop where the World keeps another time, a refused item, or an answer that leaves out some", async () => {
    const answers = [
      ["other time", { results: [own(3, l.inlineStarted(1), { at: l.T0 + 1 })], allocated: 1 }],
      ["refused", { results: [{ kind: "refused", error: new Error("no") }] }],
      ["behind", { results: [own(4, l.inlineStarted(1))], allocated: 1, hasMore: true }],
    ] as const;
    for (const [kind, answer] of answers) {
      const { sent, writes, start, end } = heldWrites();
      start(1);
      end(1);
      sent[0]?.answer(answer);
      await writes.idle();
      expect(writes.stop?.kind).toBe(kind);
      expect(sent).toHaveLength(1);
    }
  });
});
