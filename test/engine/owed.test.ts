import { describe, expect, it } from "vitest";
import { orchestratorMessage, resendsOf, stepSendOf, wakeOf } from "../../engine/owed.ts";
import { nextAttemptOf, verdictOf } from "../../engine/retry.ts";
import type { AttemptEnd } from "../../engine/retry.ts";
import type { StepState } from "../../engine/steps.ts";
import * as l from "./log-of.ts";

const HOUR = 3_600_000;

function stepOf(...lines: l.Line[]): StepState {
  const log = l.logOf(l.created(), ...lines);
  const step = log.steps.get(l.idOf("step", 1));
  if (step === undefined) throw new Error("the lines create step 1");
  return step;
}

describe("messages", () => {
  it("a wake carries no key, no delay and no decision", () => {
    expect(wakeOf(l.RUN)).toEqual({
      message: { kind: "orchestrator", ...l.RUN, specVersion: 9, reason: "wake" },
    });
    expect(orchestratorMessage(l.RUN, "recovery")).toMatchObject({ reason: "recovery" });
  });

  it("a step's message has the step's key and carries its input", () => {
    const step = stepOf(l.stepCreated(1));
    const send = stepSendOf(l.RUN, { step, deploymentId: "d", input: l.bytes("in"), nowMs: l.T0 });
    expect(send).toEqual({
      message: {
        kind: "step",
        ...l.RUN,
        specVersion: 9,
        stepId: l.idOf("step", 1),
        stepName: "work",
        stepAttempt: 1,
        stepCreatedAt: l.T0 + 2,
        deploymentId: "d",
        stepInput: l.bytes("in"),
      },
      options: { idempotencyKey: `step:${l.idOf("step", 1)}` },
    });
  });

  it.each([
    [128 * 1024, true],
    [128 * 1024 + 1, false],
  ])("an input of %i bytes is carried: %s", (size, isCarried) => {
    const input = new Uint8Array(size);
    const send = stepSendOf(l.RUN, {
      step: stepOf(l.stepCreated(1)),
      deploymentId: "d",
      input,
      nowMs: l.T0,
    });
    expect("stepInput" in send.message).toBe(isCarried);
  });

  it("a retry's message is delayed to the retry and names the next attempt", () => {
    const step = stepOf(l.inlineStarted(1), l.stepRetrying(1, { creatorMessageId: "m1" }));
    const send = stepSendOf(l.RUN, {
      step,
      deploymentId: "d",
      isResend: true,
      nowMs: l.T0 + 10_000,
    });
    expect(send.message).toMatchObject({ stepAttempt: 2, stepResent: true });
    expect(send.options).toEqual({
      idempotencyKey: `step:${l.idOf("step", 1)}`,
      delayMs: 50_000,
    });
    const late = stepSendOf(l.RUN, { step, deploymentId: "d", nowMs: l.T0 + 90_000 });
    expect(late.options?.delayMs).toBeUndefined();
  });
});

describe("the re-send rule", () => {
  const age = 23 * HOUR;
  const at = l.T0 + 2;
  const moved = { creatorMessageId: "m1" };

  it.each([
    ["created, not started", [l.stepCreated(1)], at, "due"],
    ["just inside the bound", [l.stepCreated(1)], at + age - 1, "due"],
    ["at the bound", [l.stepCreated(1)], at + age, "tooOld"],
    ["started", [l.stepCreated(1), l.stepStarted(1)], at, "none"],
    ["ended", [l.stepCreated(1), l.stepCompleted(1)], at, "none"],
    ["inline and open", [l.inlineStarted(1)], at, "none"],
    ["retry moved by the orchestrator", [l.inlineStarted(1), l.stepRetrying(1, moved)], at, "due"],
    ["moved retry, old", [l.inlineStarted(1), l.stepRetrying(1, moved)], at + 1 + age, "tooOld"],
    [
      "retry of the step's own message",
      [l.stepCreated(1), l.stepStarted(1), l.stepRetrying(1)],
      at,
      "none",
    ],
    [
      "moved retry that has started since",
      [l.inlineStarted(1), l.stepRetrying(1, moved), l.stepStarted(1, 2)],
      at,
      "none",
    ],
  ] as const)("%s", (_name, lines, nowMs, expected) => {
    const resends = resendsOf([stepOf(...lines)], { nowMs, isRecovery: false });
    expect({ due: resends.due.length, tooOld: resends.tooOld.length }).toEqual({
      due: expected === "due" ? 1 : 0,
      tooOld: expected === "tooOld" ? 1 : 0,
    });
  });

  it("a recovery sends every open background step, started or not, of any age", () => {
    const nowMs = l.T0 + 100 * 24 * HOUR;
    const due = (...lines: l.Line[]) =>
      resendsOf([stepOf(...lines)], { nowMs, isRecovery: true }).due.length;
    expect(due(l.stepCreated(1))).toBe(1);
    expect(due(l.stepCreated(1), l.stepStarted(1))).toBe(1);
    expect(due(l.inlineStarted(1), l.stepRetrying(1, moved))).toBe(1);
    expect(due(l.inlineStarted(1))).toBe(0);
    expect(due(l.stepCreated(1), l.stepFailed(1))).toBe(0);
  });
});

describe("attempts", () => {
  const started = stepOf(l.stepCreated(1), l.stepStarted(1));
  const interrupted = stepOf(
    l.stepCreated(1),
    l.stepStarted(1),
    l.stepRetrying(1, { interrupted: true }),
  );

  it.each([
    [
      "the first of four",
      stepOf(l.stepCreated(1)),
      3,
      { kind: "start", attempt: 1, isLast: false },
    ],
    ["the only one", stepOf(l.stepCreated(1)), 0, { kind: "start", attempt: 1, isLast: true }],
    ["the second", started, 1, { kind: "start", attempt: 2, isLast: true }],
    ["one too many", started, 0, { kind: "exhausted", attempt: 2 }],
    ["an interrupted one does not count", interrupted, 0, { kind: "start", attempt: 1 }],
  ])("%s", (_name, step, maxRetries, expected) => {
    expect(nextAttemptOf(step, maxRetries)).toMatchObject(expected);
  });

  it("what is exhausted names the step and its retries", () => {
    const next = nextAttemptOf(started, 0);
    expect(next.kind === "exhausted" ? l.textOf(next.error) : "").toContain(
      'Step \\"work\\" failed: its last attempt never reported an outcome and its 0 retries',
    );
  });
});

describe("what becomes of an attempt", () => {
  const end = (more: Partial<AttemptEnd>): AttemptEnd => ({
    outcome: { kind: "completed", result: l.bytes("r") },
    stepName: "work",
    maxRetries: 3,
    isLast: false,
    interruptions: 0,
    nowMs: l.T0,
    ...more,
  });
  const failed = { kind: "failed", error: l.bytes("e"), isFatal: false, retryAt: null } as const;
  const cut = { kind: "interrupted", reason: "its thread was replaced" } as const;

  it.each([
    ["a result", {}, { kind: "completed", result: l.bytes("r") }],
    [
      "a failure is tried again after about a second",
      { outcome: failed },
      { kind: "retry", retryAtMs: l.T0 + 1_000, isInterrupted: false },
    ],
    [
      "a retry of days away keeps its time to the millisecond",
      { outcome: { ...failed, retryAt: l.T0 + 180_000_001 } },
      { kind: "retry", retryAtMs: l.T0 + 180_000_001 },
    ],
    ["the last failure is final", { outcome: failed, isLast: true }, { kind: "failed" }],
    ["a fatal failure is final", { outcome: { ...failed, isFatal: true } }, { kind: "failed" }],
    [
      "an interrupted attempt is run again at once, uncounted",
      { outcome: cut, isLast: true },
      { kind: "retry", retryAtMs: l.T0, isInterrupted: true },
    ],
    [
      "an interrupted attempt of a step without retries is its last",
      { outcome: cut, maxRetries: 0, isLast: true },
      { kind: "failed" },
    ],
    [
      "interrupted too often: it counts",
      { outcome: cut, interruptions: 16 },
      { kind: "retry", isInterrupted: false },
    ],
    [
      "interrupted too often, and the last: it fails",
      { outcome: cut, interruptions: 16, isLast: true },
      { kind: "failed" },
    ],
  ] as const)("%s", (_name, more, expected) => {
    expect(verdictOf(end(more))).toMatchObject(expected);
  });
});
