/**
 * Errors as data: what is left of one when it crosses a thread border, and how it is made whole.
 */
import { InvariantViolation } from "../engine/assert.ts";
import type { ErrorCode, ErrorDetails } from "../engine/errors.ts";
import { BatonError } from "../engine/errors.ts";

/** Errors lose their class on the way; this is what is left of them. */
export interface CrossingError {
  readonly code: ErrorCode | "INVARIANT_VIOLATION";
  readonly message: string;
  readonly details: ErrorDetails;
}

export function crossing(error: unknown): CrossingError {
  if (error instanceof BatonError) {
    return { code: error.code, message: error.message, details: error.details };
  }
  if (error instanceof InvariantViolation) {
    return { code: "INVARIANT_VIOLATION", message: error.message, details: {} };
  }
  const { message, code } = error as { message?: string; code?: unknown };
  return {
    code: "WORLD_UNAVAILABLE",
    message: `the store failed: ${message ?? "no reason given"}`,
    details: typeof code === "string" ? { used: code } : {},
  };
}

export function crossed({ code, message, details }: CrossingError): Error {
  if (code === "INVARIANT_VIOLATION") return new InvariantViolation(message);
  return new BatonError(code, message, details);
}
