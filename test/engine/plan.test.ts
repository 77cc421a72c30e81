import { describe, expect, it } from "vitest";
import type { NewEvent } from "../../engine/events.ts";
import { parseNewEvent } from "../../engine/events.ts";
import type { RunLog } from "../../engine/log.ts";
import {
  batchesOf,
  inlineSlots,
  newEvent,
  newHooksOf,
  newStepsOf,
  planOf,
} from "../../engine/plan.ts";
import type { PlanInput } from "../../engine/plan.ts";
import type { OpenOperation } from "../../engine/ports/sandbox.ts";
import * as l from "./log-of.ts";

const step = (n: number, input = l.bytes("in"), stepName = "work"): OpenOperation => ({
  kind: "step",
  correlationId: l.idOf("step", n),
  stepName,
  input,
});
const unserializable = (n: number): OpenOperation => ({
  kind: "unserializable_step",
  correlationId: l.idOf("step", n),
  stepName: "work",
  error: l.bytes("cannot"),
});
const wait = (n: number): OpenOperation => ({
  kind: "wait",
  correlationId: l.idOf("wait", n),
  resumeAt: l.T0 + n,
});
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
  }) as const satisfies OpenOperation;
const dispose = (n: number): OpenOperation => ({
  kind: "dispose_hook",
  correlationId: l.idOf("hook", n),
});
const attribute = (n: number): OpenOperation => ({
  kind: "set_attributes",
  correlationId: l.idOf("attr", n),
  changes: [{ key: "k", value: null }],
});

const output = { kind: "completed", output: l.bytes("done") } as const;

function plan(
  log: RunLog,
  operations: OpenOperation[],
  more: Partial<PlanInput> = {},
): ReturnType<typeof planOf> {
  return planOf({
    operations,
    completion: null,
    log,
    inlineSlots: 3,
    runnableHere: new Set(["work"]),
    tokenHashes: new Map([["t", "a".repeat(64)]]),
    creatorMessageId: "m1",
    nowMs: l.T0,
    ...more,
  });
}

const named = (events: readonly NewEvent[]) =>
  events.map((e) => `${e.eventType} ${Number(e.correlationId?.slice(-4) ?? 0)}`);
const begun = () => l.logOf(l.created(), l.started());

describe("which operations are decisions", () => {
  it("what the log holds is not planned again", () => {
    const log = l.logOf(l.created(), l.inlineStarted(1), l.waitCreated(1, l.T0 + 1));
    l.grow(log, l.hookCreated(1), l.attrSet(1));
    const made = plan(log, [step(1), wait(1), hook(1), attribute(1)]);
    expect(made).toEqual({ singles: [], batches: [], newWaits: [], ending: null, eventCount: 0 });
    expect(newStepsOf([step(1), step(2)], log)).toHaveLength(1);
    expect(newHooksOf([hook(1), hook(2)], log)).toHaveLength(1);
  });

  it("hooks, disposals and attributes are single writes in the order asked", () => {
    const made = plan(begun(), [hook(1), attribute(1), dispose(1), hook(2), step(1)]);
    expect(named(made.singles)).toEqual([
      "hook_created 1",
      "attr_set 1",
      "hook_disposed 1",
      "hook_created 2",
    ]);
    expect(made.eventCount).toBe(5);
  });

  it("a hook that met a conflict, was disposed of or is unknown has nothing to dispose of", () => {
    const log = l.logOf(l.created(), l.hookConflict(1), l.hookCreated(2), l.hookDisposed(2));
    expect(plan(log, [dispose(1), dispose(2), dispose(3)]).singles).toEqual([]);
  });

  it("an open hook is disposed of once", () => {
    const log = l.logOf(l.created(), l.hookCreated(1));
    expect(named(plan(log, [dispose(1)]).singles)).toEqual(["hook_disposed 1"]);
  });

  it("a hook's creation carries all that its code asked for", () => {
    const asked = hook(1, {
      metadata: l.bytes("meta"),
      isWebhook: true,
      retentionMs: 500,
      force: true,
    });
    expect(plan(begun(), [asked]).singles[0]).toMatchObject({
      eventData: {
        token: l.bytes('devl["t"]'),
        tokenHash: "a".repeat(64),
        metadata: l.bytes("meta"),
        isWebhook: true,
        isSystem: false,
        tokenRetentionUntil: l.T0 + 500,
        force: true,
      },
    });
  });
});

describe("the mode of a step", () => {
  it("the first free slots run in place, their starts first; the rest go to the queue", () => {
    const made = plan(begun(), [wait(1), step(1), step(2), step(3)], { inlineSlots: 2 });
    expect(made.batches.map(named)).toEqual([
      ["step_started 1", "step_started 2", "wait_created 1", "step_created 3"],
    ]);
    expect(made.newWaits).toEqual([{ waitId: l.idOf("wait", 1), resumeAt: l.T0 + 1, chain: "m1" }]);
    const [inline, , , background] = made.batches[0] ?? [];
    expect(inline?.eventData).toEqual({
      stepName: "work",
      attempt: 1,
      input: l.bytes("in"),
      inline: true,
    });
    expect(background?.eventData).toEqual({
      stepName: "work",
      input: l.bytes("in"),
      inline: false,
      creatorMessageId: "m1",
    });
  });

  it("a step that nothing here can run goes to the queue and takes no slot", () => {
    const made = plan(begun(), [step(1, l.bytes(""), "elsewhere"), step(2)], { inlineSlots: 1 });
    expect(made.batches.map(named)).toEqual([["step_started 2", "step_created 1"]]);
  });

  it.each([
    ["three by default less those open", {}, 2],
    ["none past the margin", { isPastMargin: true }, 0],
    ["none while a new hook's conflict is awaited", { awaitsConflict: true }, 0],
    ["none at the run's end", { isCompleting: true }, 0],
    ["none when all are taken", { openInlineSteps: 3 }, 0],
    ["never fewer than none", { openInlineSteps: 9 }, 0],
    ["none when set to none", { inlineStepsMax: 0 }, 0],
  ])("slots: %s", (_name, more, slots) => {
    const base = {
      inlineStepsMax: 3,
      openInlineSteps: 1,
      isPastMargin: false,
      awaitsConflict: false,
      isCompleting: false,
    };
    expect(inlineSlots({ ...base, ...more })).toBe(slots);
  });
});

describe("arguments that cannot be encoded", () => {
  it("the step is created and failed at once", () => {
    const made = plan(begun(), [unserializable(1)]);
    expect(made.batches.map(named)).toEqual([["step_created 1", "step_failed 1"]]);
    expect(made.batches[0]?.[1]?.eventData).toEqual({ stepName: "work", error: l.bytes("cannot") });
  });

  it("after a crash between the two only the failure is left to write", () => {
    const log = l.logOf(l.created(), l.stepCreated(1, { inline: true }));
    expect(plan(log, [unserializable(1)]).batches.map(named)).toEqual([["step_failed 1"]]);
    l.grow(log, l.stepFailed(1));
    expect(plan(log, [unserializable(1)]).batches).toEqual([]);
  });
});

describe("the end of a run", () => {
  it("is planned behind everything else", () => {
    const made = plan(begun(), [step(1), attribute(1)], { completion: output, inlineSlots: 0 });
    expect(named(made.singles)).toEqual(["attr_set 1"]);
    expect(made.batches.map(named)).toEqual([["step_created 1"]]);
    expect(made.ending).toMatchObject({
      eventType: "run_completed",
      eventData: { output: l.bytes("done") },
    });
    expect(made.eventCount).toBe(3);
  });

  it("a failure carries its error and code", () => {
    const completion = { kind: "failed", error: l.bytes("e"), errorCode: "USER_ERROR" } as const;
    expect(plan(begun(), [], { completion }).ending).toMatchObject({
      eventType: "run_failed",
      eventData: { error: l.bytes("e"), errorCode: "USER_ERROR" },
    });
  });

  it("begins no sleep and no internal hook", () => {
    const made = plan(begun(), [wait(1), hook(1, { isSystem: true }), dispose(1)], {
      completion: output,
    });
    expect(made).toMatchObject({ singles: [], batches: [], newWaits: [], eventCount: 1 });
  });

  it.each([
    ["an ordinary hook is left to the terminal event", [hook(1), dispose(1)], ["hook_created 1"]],
    [
      "a retained one is released early",
      [hook(1, { retentionMs: 9 }), dispose(1)],
      ["hook_created 1", "hook_disposed 1"],
    ],
    [
      "one before a later creation makes room for it",
      [hook(1), dispose(1), hook(2)],
      ["hook_created 1", "hook_disposed 1", "hook_created 2"],
    ],
  ])("of hooks that are disposed of: %s", (_name, operations, expected) => {
    expect(named(plan(begun(), operations, { completion: output }).singles)).toEqual(expected);
  });

  it("an open retained hook is released early", () => {
    const log = l.logOf(l.created(), l.hookCreated(1, { tokenRetentionUntil: l.T0 + 9 }));
    expect(named(plan(log, [dispose(1)], { completion: output }).singles)).toEqual([
      "hook_disposed 1",
    ]);
  });
});

describe("batches of creations", () => {
  const created = (n: number, size: number) =>
    newEvent("step_created", l.idOf("step", n), {
      stepName: "work",
      input: new Uint8Array(size),
      inline: false,
    });
  const sizes = (events: NewEvent[]) => batchesOf(events).map((batch) => batch.length);

  it("64 creations are one batch, 65 are two", () => {
    const events = (count: number) => Array.from({ length: count }, (_, n) => created(n, 1));
    expect(sizes(events(64))).toEqual([64]);
    expect(sizes(events(65))).toEqual([64, 1]);
    expect(sizes(events(1_024))).toEqual(Array.from({ length: 16 }, () => 64));
    expect(sizes([])).toEqual([]);
  });

  it("a batch holds 512 KiB, an allowance of 1 KiB for each event included", () => {
    const fits = 256 * 1024 - 1024;
    expect(sizes([created(1, fits), created(2, fits)])).toEqual([2]);
    expect(sizes([created(1, fits), created(2, fits + 1)])).toEqual([1, 1]);
  });

  it("a creation over the budget goes alone", () => {
    expect(sizes([created(1, 1), created(2, 600 * 1024), created(3, 1)])).toEqual([1, 1, 1]);
  });

  it("every planned event passes the schema of a World's door", () => {
    const made = plan(begun(), [step(1), step(2), wait(1), hook(1), attribute(1), dispose(1)], {
      inlineSlots: 1,
    });
    const ended = plan(begun(), [], { completion: output });
    const events = [...made.singles, ...made.batches.flat(), ended.ending].flatMap((e) => e ?? []);
    expect(events).toHaveLength(7);
    for (const event of events) expect(parseNewEvent(event)).toMatchObject({ specVersion: 9 });
  });
});
