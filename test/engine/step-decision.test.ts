import { describe, expect, it } from "vitest";
import { decisionOf } from "../../engine/step-delivery.ts";
import type { StepState } from "../../engine/steps.ts";
import * as l from "./log-of.ts";

const HOUR = 3_600_000;

function decide(
  lines: readonly l.Line[],
  more: { atMs?: number; attempt?: number; maxRetries?: number } = {},
) {
  const step = l.logOf(l.created(), ...lines).steps.get(l.idOf("step", 1)) as StepState;
  const { atMs = l.T0 + 10, attempt = 1, maxRetries = 3 } = more;
  return decisionOf({ step, traits: { maxRetries }, meta: { attempt }, nowMs: atMs }, 48);
}

const created = l.stepCreated(1);
const started = l.stepStarted(1);
const retrying = l.stepRetrying(1, { retryAfter: l.T0 + 60_000 });

describe("what a delivery that read the log does with its step", () => {
  it.each([
    ["an outcome: nothing is run", decide([created, l.stepCompleted(1)]), { kind: "done" }],
    ["no start yet: the first attempt", decide([created]), { kind: "start", next: { attempt: 1 } }],
    [
      "a start without an outcome: the next attempt",
      decide([created, started]),
      { kind: "start", next: { attempt: 2, isLast: false } },
    ],
    [
      "a start without an outcome and no retries: it fails",
      decide([created, started], { maxRetries: 0 }),
      { kind: "fail", attempt: 2 },
    ],
    [
      "a retry that is not due: the rest of its time",
      decide([created, started, retrying], { atMs: l.T0 + 59_999 }),
      { kind: "early", afterMs: 1 },
    ],
    [
      "a retry that is due: it starts",
      decide([created, started, retrying], { atMs: l.T0 + 60_000 }),
      { kind: "start", next: { attempt: 2 } },
    ],
    [
      "past the cap, but active within the hour: it starts",
      decide([created], { attempt: 49, atMs: l.T0 + 1 + HOUR }),
      { kind: "start" },
    ],
    [
      "past the cap and still for an hour: it fails",
      decide([created], { attempt: 49, atMs: l.T0 + 2 + HOUR }),
      { kind: "fail", attempt: 1 },
    ],
    [
      "still for an hour, but not past the cap: it starts",
      decide([created], { attempt: 48, atMs: l.T0 + 2 + HOUR }),
      { kind: "start" },
    ],
    [
      "past the cap after a long retry that has just come due: it starts",
      decide([created, started, retrying], { attempt: 49, atMs: l.T0 + 60_000 + HOUR - 1 }),
      { kind: "start" },
    ],
  ])("%s", (_name, decision, expected) => {
    expect(decision).toMatchObject(expected);
  });
});
