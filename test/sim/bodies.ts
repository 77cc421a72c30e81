/**
 * Bodies of steps in a simulation: they take virtual time, do what their arguments say, and are
 * recorded, so that the oracle knows how often each ran and for which owner.
 */
import { stringify } from "devalue";
import { errorPayload, payloadOfText } from "../../engine/payload.ts";
import type { RunRef } from "../../engine/ids.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type { StepAttempt, StepOutcome, StepRunner } from "../../engine/ports/steps.ts";
import type { BodyRecord } from "./observation.ts";
import { OUTSIDE_BODIES, argumentsIn, resultText } from "./outside-bodies.ts";
import type { Done } from "./outside-bodies.ts";
import { canaryOf } from "./simulated-tenants.ts";
import type { Plan } from "./workflows/steps.ts";

/** Retries that each simulated step asks for; the same as its source says. */
const MAX_RETRIES: Readonly<Record<string, number>> = {
  act: 30,
  brittle: 2,
  once: 0,
  take: 3,
  ...Object.fromEntries(Object.keys(OUTSIDE_BODIES).map((name) => [name, 30])),
};

export interface BodiesOptions {
  readonly clock: Clock;
  /** Which living process runs them. */
  readonly owner: string;
  record(body: BodyRecord): void;
  /** Another number for each body, so that no two results are equal. */
  serial(): number;
  /** True: this attempt is cut short by something that is not its own doing. */
  isInterrupted(stepName: string, label: string): boolean;
  /** A token that a body of the run was told. */
  mention(run: RunRef, token: string): void;
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
  const [canary, label, plan, given] = argumentsIn(attempt) as [string, string, Plan, object];
  const body: BodyRecord = {
    ref: attempt.run,
    stepId: attempt.stepId,
    stepName: shortName(attempt.stepName),
    label,
    canary,
    attempt: attempt.attempt,
    owner: options.owner,
    startedAtMs: clock.now(),
    wrote: [],
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
  const outside = OUTSIDE_BODIES[body.stepName];
  if (outside !== undefined) {
    const serial = options.serial();
    const mention = (token: string) => options.mention(attempt.run, token);
    const doing = { attempt, body, plan, given: { ...given }, serial, clock, mention };
    return outsideOutcome(attempt, body, outside(doing));
  }
  body.end = "completed";
  const padding = "·".repeat(plan.size ?? 0);
  return {
    kind: "completed",
    result: payloadOfText(stringify(`did ${label}#${options.serial()}${padding}`)),
  };
}

async function outsideOutcome(
  attempt: StepAttempt,
  body: BodyRecord,
  doing: Promise<Done>,
): Promise<StepOutcome> {
  try {
    const { value, isFlushing } = await doing;
    body.end = "completed";
    const result = payloadOfText(resultText(value));
    return { kind: "completed", result, ...(isFlushing === undefined ? {} : { isFlushing }) };
  } catch (error) {
    body.end = attempt.signal.aborted ? "aborted" : "failed";
    return failed(errorPayload("Error", String(error)), attempt.signal.aborted, null);
  }
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

export function shortName(stepName: string): string {
  return stepName.slice(stepName.lastIndexOf("/") + 1);
}

/** The platform's own steps: real ones, recorded and interrupted as the others. */
export function platformBodies(steps: StepRunner, options: BodiesOptions): StepRunner {
  const { clock, owner } = options;
  return {
    traitsOf: (run, deploymentId, stepName) => steps.traitsOf(run, deploymentId, stepName),
    run: async (attempt) => {
      const { stepName } = attempt;
      const body: BodyRecord = {
        ref: attempt.run,
        stepId: attempt.stepId,
        stepName,
        label: stepName,
        canary: canaryOf(attempt.run.tenantId),
        attempt: attempt.attempt,
        owner,
        startedAtMs: clock.now(),
        wrote: [],
        end: "cut",
      };
      options.record(body);
      if (options.isInterrupted(stepName, stepName)) {
        body.end = "interrupted";
        return { kind: "interrupted", reason: "the simulation replaced its thread" };
      }
      const outcome = await steps.run(attempt);
      body.end = outcome.kind;
      return outcome;
    },
  };
}
