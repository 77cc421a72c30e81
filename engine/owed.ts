/**
 * Owed messages: what a committed prefix implies the queue must hold.
 *
 * Owns the wake, the step message, their keys and the re-send rule (spec: "The re-send rule").
 * Pure; a send of these may be repeated at any time.
 *
 * E23  A step has one key for life, so a second send while its message lives is dropped.
 * E24  A re-send happens only inside the time for which every World deduplicates that key, and is
 *      marked, so that its handler reads the log before it runs anything.
 */
import { SPEC_VERSION } from "./events.ts";
import type { RunRef } from "./ids.ts";
import { STEP_MESSAGE_INPUT_BYTES_MAX, STEP_RESEND_AGE_MS_MAX } from "./limits.ts";
import type { Payload } from "./payload.ts";
import type { OrchestratorMessage, Send } from "./ports/queue.ts";
import { attemptsOf } from "./steps.ts";
import type { StepState } from "./steps.ts";

/** "Look at this run": no key, no delay; a key could be taken by a delivery that is leaving. */
export function wakeOf(run: RunRef): Send {
  return { message: orchestratorMessage(run, "wake") };
}

export function orchestratorMessage(
  run: RunRef,
  reason: OrchestratorMessage["reason"],
): OrchestratorMessage {
  const { tenantId, runId } = run;
  return { kind: "orchestrator", tenantId, runId, specVersion: SPEC_VERSION, reason };
}

/** The key of a step's message, for its whole life. */
function stepKey(step: StepState): string {
  return `step:${step.stepId}`;
}

export interface StepSend {
  readonly step: StepState;
  readonly deploymentId: string;
  /** Not carried when absent or too large; the delivery then reads the creation event. */
  readonly input?: Payload;
  readonly isResend?: true;
  readonly nowMs: number;
}

/** A background step's message, delayed to its retry if one waits. */
export function stepSendOf(run: RunRef, send: StepSend): Send {
  const { step, input } = send;
  const fits = input !== undefined && input.length <= STEP_MESSAGE_INPUT_BYTES_MAX;
  const delayMs = step.retry === null ? 0 : Math.max(0, step.retry.retryAt - send.nowMs);
  return {
    message: {
      kind: "step",
      tenantId: run.tenantId,
      runId: run.runId,
      specVersion: SPEC_VERSION,
      stepId: step.stepId,
      stepName: step.stepName,
      stepAttempt: attemptsOf(step) + 1,
      stepCreatedAt: step.createdAt,
      deploymentId: send.deploymentId,
      ...(fits ? { stepInput: input } : {}),
      ...(send.isResend === true ? { stepResent: true } : {}),
    },
    options: { idempotencyKey: stepKey(step), ...(delayMs > 0 ? { delayMs } : {}) },
  };
}

export interface Resends {
  readonly due: readonly StepState[];
  /** Without a message perhaps, but a send now might make a second one. */
  readonly tooOld: readonly StepState[];
}

/**
 * The steps whose message may never have been sent: those created and not started, and those whose
 * retry the orchestrator moved to their message. After queue state was lost: every open one, with no
 * bound on age, since what would have deduplicated it is gone as well.
 */
export function resendsOf(
  steps: Iterable<StepState>,
  { nowMs, isRecovery }: { readonly nowMs: number; readonly isRecovery: boolean },
): Resends {
  const due: StepState[] = [];
  const tooOld: StepState[] = [];
  for (const step of steps) {
    if (step.outcome !== null || step.mode === "inline") continue;
    if (isRecovery) {
      due.push(step);
      continue;
    }
    const owedSince = owedSinceMs(step);
    if (owedSince === null) continue;
    (nowMs - owedSince < STEP_RESEND_AGE_MS_MAX ? due : tooOld).push(step);
  }
  return { due, tooOld };
}

/** Since when a message of this step may be owed, epoch ms; null: its message has been at work. */
function owedSinceMs(step: StepState): number | null {
  if (step.retry?.moved === true) return step.retry.recordedAt;
  return step.starts === 0 ? step.createdAt : null;
}
