/**
 * Attempts and back-off: what becomes of a step after an attempt, and whether there is a next one.
 *
 * The same rules for a body in the orchestrator and for one behind its own message. Pure.
 *
 * E16  `maxRetries: 0` is at most one attempt per live owner, an interrupted one included: what cut
 *      it short cannot say how far it came.
 * E17  The end of a process cuts short only bodies that may run again, and such an attempt does not
 *      count.
 */
import { assertNever } from "./assert.ts";
import { errorPayload } from "./payload.ts";
import type { Payload } from "./payload.ts";
import type { StepOutcome } from "./ports/steps.ts";
import { RETRY_BACKOFF_MS, STEP_INTERRUPTIONS_MAX } from "./limits.ts";
import { attemptsOf } from "./steps.ts";
import type { StepState } from "./steps.ts";

export type NextAttempt =
  | { readonly kind: "start"; readonly attempt: number; readonly isLast: boolean }
  /** It has had all its attempts; the step fails with this. */
  | { readonly kind: "exhausted"; readonly attempt: number; readonly error: Payload };

/** The attempt that comes after what the log holds (spec: "Retries"). */
export function nextAttemptOf(step: StepState, maxRetries: number): NextAttempt {
  const attempt = attemptsOf(step) + 1;
  const attemptsMax = maxRetries + 1;
  if (attempt > attemptsMax) {
    return { kind: "exhausted", attempt, error: exhaustedError(step.stepName, maxRetries) };
  }
  return { kind: "start", attempt, isLast: attempt === attemptsMax };
}

export type Verdict =
  | { readonly kind: "completed"; readonly result: Payload }
  | { readonly kind: "failed"; readonly error: Payload }
  | {
      readonly kind: "retry";
      readonly error: Payload;
      /** Epoch ms. */
      readonly retryAtMs: number;
      readonly isInterrupted: boolean;
    };

export interface AttemptEnd {
  readonly outcome: StepOutcome;
  readonly stepName: string;
  readonly maxRetries: number;
  readonly isLast: boolean;
  /** How often attempts of this step were cut short before this one. */
  readonly interruptions: number;
  readonly nowMs: number;
}

/** What the log is to say of an attempt that ended. */
export function verdictOf(end: AttemptEnd): Verdict {
  const { outcome } = end;
  switch (outcome.kind) {
    case "completed":
      return { kind: "completed", result: outcome.result };
    case "failed": {
      if (outcome.isFatal || end.isLast) return { kind: "failed", error: outcome.error };
      const retryAtMs = outcome.retryAt ?? end.nowMs + RETRY_BACKOFF_MS;
      return { kind: "retry", error: outcome.error, retryAtMs, isInterrupted: false };
    }
    case "interrupted":
      return interrupted(end, outcome.reason);
    default:
      return assertNever(outcome);
  }
}

/** What counts of a body that was cut short because its process stops: only what it completed. */
export function outcomeOfCut(outcome: StepOutcome): StepOutcome {
  // Its failure may be no more than its answer to the signal.
  return outcome.kind === "failed" ? { kind: "interrupted", reason: STOPPING } : outcome;
}

/** Why a body is cut short, for the error that its step's log keeps. */
export const STOPPING = "its process stops";

function interrupted(end: AttemptEnd, reason: string): Verdict {
  const error = errorPayload(
    end.maxRetries === 0 ? "FatalError" : "Error",
    `An attempt of step "${end.stepName}" was cut short: ${reason}`,
  );
  if (end.maxRetries === 0) return { kind: "failed", error };
  const isInterrupted = end.interruptions < STEP_INTERRUPTIONS_MAX;
  // Past the bound it counts like any failure, so that it ends.
  if (!isInterrupted && end.isLast) return { kind: "failed", error };
  return { kind: "retry", error, retryAtMs: end.nowMs, isInterrupted };
}

function exhaustedError(stepName: string, maxRetries: number): Payload {
  const retries = `${maxRetries} ${maxRetries === 1 ? "retry" : "retries"}`;
  return errorPayload(
    "FatalError",
    `Step "${stepName}" failed: its last attempt never reported an outcome and its ${retries} are used up`,
  );
}
