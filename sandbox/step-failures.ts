/**
 * Failures of attempts that no guest code wrote: limits, refusals, text that no library of ours
 * writes. As payloads, in the guests' encoding.
 */
import { BatonError } from "../engine/errors.ts";
import { payloadOfText } from "../engine/payload.ts";
import type { LimitExceeded } from "../engine/ports/sandbox.ts";
import { exhaustionText } from "../engine/ports/steps.ts";
import type { StepAttempt, StepOutcome } from "../engine/ports/steps.ts";
import { errorClassOf, errorExports } from "./guest/errors.ts";
import { encodeText } from "./host-codec.ts";

type Failed = Extract<StepOutcome, { kind: "failed" }>;
type About = Pick<StepAttempt, "stepName" | "attempt" | "isLast">;

/** The attempt failed, and counts. */
export function failedBy(error: Error, about: About, isFatal = false): Failed {
  const { stepName, attempt, isLast } = about;
  const last =
    isLast && !isFatal
      ? new errorExports.FatalError(exhaustionText(stepName, attempt, error.message), {
          cause: error,
        })
      : error;
  return { kind: "failed", error: payloadOfText(textOfError(last)), isFatal, retryAt: null };
}

export function textOfError(error: Error): string {
  return encodeText(error, { what: "an error" });
}

/** `limit` may be any limit of a step, by its name. */
export interface StepLimitExceeded extends Omit<LimitExceeded, "code"> {
  readonly code: LimitExceeded["code"] | "WALL_LIMIT_EXCEEDED" | "QUOTA_EXCEEDED";
}

export function limitError(exceeded: StepLimitExceeded): Error {
  const { code, limit, used, allowed } = exceeded;
  const message = `${code}: the step used ${used} of ${allowed} (${limit})`;
  return new errorExports.QuotaExceededError(message, { code, limit, used, allowed });
}

export function refusedError(message: string): Error {
  return new errorExports.NotAvailableError(message);
}

/** An error of the platform, as the body sees it: without the host's stack. */
export function toldError(error: unknown): Error {
  if (!(error instanceof Error)) return refusedError("the platform gave no answer");
  const { name, message } = error;
  const Class =
    errorClassOf(name) ?? (name === "TypeError" ? TypeError : errorExports.WorkflowRuntimeError);
  const fields =
    error instanceof BatonError ? { ...error.details, code: error.code } : fieldsOf(error);
  const told = new Class(message, fields);
  const value = `${name}: ${message}`;
  return Object.defineProperty(told, "stack", { value, configurable: true, writable: true });
}

function fieldsOf(error: Error): Record<string, unknown> {
  const fields = Object.fromEntries(Object.entries(error));
  return "cause" in error ? { ...fields, cause: error.cause } : fields;
}

export function egressError(message: string): Error {
  return new errorExports.EgressDeniedError(message);
}

/** What the engine's dump of an exception said, as an error of the step. */
export function bundleError(failure: { readonly message: string }): Error {
  return new Error(`the bundle's step side could not be loaded: ${failure.message}`);
}

export function isClosed(error: unknown): boolean {
  return error instanceof BatonError && error.code === "CLOSED";
}
