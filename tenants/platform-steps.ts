/**
 * The guest library's own steps that the platform carries out itself, without any code of a tenant:
 * other runs, signals, answers to webhooks. Where the process trusts bundles as its own code, also
 * requests and the reading of bodies, which otherwise belong into step heaps.
 */
import type { PlatformCall } from "../engine/ports/access.ts";
import { BUILTIN_STEPS } from "../engine/ports/builtin-steps.ts";
import { ERROR_TABLE, isBatonError } from "../engine/errors.ts";
import type { HostCodec } from "../engine/ports/steps.ts";
import type { StepBody } from "./step-bundles.ts";

/** By name; each is asked for with the arguments of the call. */
export const PLATFORM_STEPS: ReadonlyMap<string, PlatformCall> = new Map<string, PlatformCall>([
  [BUILTIN_STEPS.start, "start"],
  [BUILTIN_STEPS.runField, "runField"],
  [BUILTIN_STEPS.runCancel, "runCancel"],
  [BUILTIN_STEPS.runWakeUp, "runWakeUp"],
  [BUILTIN_STEPS.abort, "abort"],
  [BUILTIN_STEPS.followSignal, "followSignal"],
  [BUILTIN_STEPS.respondWith, "respondWith"],
]);

/** A run may wait for another's end for as long as that takes; each look is an attempt. */
const LOOKS_MAX = Number.MAX_SAFE_INTEGER - 1;
/** What a platform could not carry out just now is not the tenant's failure. */
const RETRIES_MAX = 30;

/** Null: it is no step of the platform's. */
export function platformRetries(stepName: string): number | null {
  if (!PLATFORM_STEPS.has(stepName)) return null;
  return stepName === BUILTIN_STEPS.runField ? LOOKS_MAX : RETRIES_MAX;
}

/** Asked again, the platform would say the same: whatever the caller did, or who it asked about. */
export function isDefinite(thrown: unknown, answers: HostCodec["errors"]): boolean {
  if (isBatonError(thrown)) return ERROR_TABLE[thrown.code].status < 429;
  if (!(thrown instanceof Error) || thrown.name === "RetryableError") return false;
  return Object.hasOwn(answers, thrown.name);
}

type Body = Pick<Response, "json" | "text" | "arrayBuffer">;

export const TRUSTED_STEPS: ReadonlyMap<string, StepBody> = new Map<string, StepBody>([
  [BUILTIN_STEPS.fetch, (...args: Parameters<typeof fetch>) => fetch(...args)],
  [BUILTIN_STEPS.responseJson, reading((body) => body.json())],
  [BUILTIN_STEPS.responseText, reading((body) => body.text())],
  [BUILTIN_STEPS.responseArrayBuffer, reading((body) => body.arrayBuffer())],
]);

/** The body to read is the argument, or what the step was called on. */
function reading(read: (body: Body) => Promise<unknown>): StepBody {
  return function (this: unknown, given?: unknown) {
    return read((given ?? this) as Body);
  };
}
