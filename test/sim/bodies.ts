/**
 * Bodies of steps in a simulation: they take virtual time, do what their arguments say, and are
 * recorded, so that the oracle knows how often each ran and for which owner.
 */
import { parse, stringify } from "devalue";
import { errorPayload, payloadOfText, textOfPayload } from "../../engine/payload.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type { StepAttempt, StepOutcome, StepRunner } from "../../engine/ports/steps.ts";
import type { BodyRecord } from "./observation.ts";
import type { Plan } from "./workflows/steps.ts";

/** Retries that each simulated step asks for; the same as its source says. */
const MAX_RETRIES: Readonly<Record<string, number>> = { act: 30, brittle: 2, once: 0, take: 3 };

export interface BodiesOptions {
  readonly clock: Clock;
  /** Which living process runs them. */
  readonly owner: string;
  record(body: BodyRecord): void;
  /** Another number for each body, so that no two results are equal. */
  serial(): number;
  /** True: this attempt is cut short by something that is not its own doing. */
  isInterrupted(stepName: string, label: string): boolean;
}

export function simulatedBodies(options: BodiesOptions): StepRunner {
  return {
    traitsOf: (_run, _deploymentId, stepName) => {
      const maxRetries = MAX_RETRIES[shortName(stepName)];
      return Promise.resolve(maxRetries === undefined ? null : { maxRetries });
    },
    run: (attempt) => run(attempt, options),
  };
}

async function run(attempt: StepAttempt, options: BodiesOptions): Promise<StepOutcome> {
  const { clock } = options;
  const [canary, label, plan] = argumentsOf(attempt);
  const body: BodyRecord = {
    ref: attempt.run,
    stepId: attempt.stepId,
    stepName: shortName(attempt.stepName),
    label,
    canary,
    attempt: attempt.attempt,
    owner: options.owner,
    startedAtMs: clock.now(),
    end: "cut",
  };
  options.record(body);
  if (options.isInterrupted(body.stepName, label)) {
    body.end = "interrupted";
    return { kind: "interrupted", reason: "the simulation replaced its thread" };
  }
  const { attribute } = plan;
  if (attribute !== undefined) {
    await attempt.access.setAttributes([{ key: attribute, value: label }]);
  }
  const wasAborted = await elapsed(plan.ms, attempt.signal, clock);
  if (wasAborted) {
    body.end = "aborted";
    return failed(errorPayload("AbortError", "aborted"), true, null);
  }
  if (attempt.attempt <= (plan.failures ?? 0)) {
    body.end = "failed";
    return failure(attempt, label, plan, clock.now());
  }
  body.end = "completed";
  const padding = "·".repeat(plan.size ?? 0);
  return {
    kind: "completed",
    result: payloadOfText(stringify(`did ${label}#${options.serial()}${padding}`)),
  };
}

/** Waits `ms`; true if the attempt was aborted meanwhile. */
function elapsed(ms: number, signal: AbortSignal, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(true);
    const end = (wasAborted: boolean) => {
      cancel();
      signal.removeEventListener("abort", abort);
      resolve(wasAborted);
    };
    const abort = () => end(true);
    const cancel = clock.setTimer(ms, () => end(false));
    signal.addEventListener("abort", abort);
  });
}

function failure(attempt: StepAttempt, label: string, plan: Plan, nowMs: number): StepOutcome {
  const how = plan.how ?? "error";
  const message = `${label} failed`;
  if (how === "fatal") return failed(errorPayload("FatalError", message), true, null);
  const name = attempt.isLast ? "FatalError" : how === "retryable" ? "RetryableError" : "Error";
  const retryAt = how === "retryable" ? nowMs + (plan.retryMs ?? 1_000) : null;
  return failed(errorPayload(name, message), false, retryAt);
}

function failed(error: Uint8Array, isFatal: boolean, retryAt: number | null): StepOutcome {
  return { kind: "failed", error, isFatal, retryAt };
}

function argumentsOf(attempt: StepAttempt): [canary: string, label: string, plan: Plan] {
  const input = parse(textOfPayload(attempt.input)) as { args: [string, string, Plan] };
  return input.args;
}

export function shortName(stepName: string): string {
  return stepName.slice(stepName.lastIndexOf("/") + 1);
}
