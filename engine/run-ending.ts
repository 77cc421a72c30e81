/**
 * The run's end by decision of the host: a limit, a cap, a bundle at fault.
 *
 * Owns the one write of such a `run_failed`, in-band like any decision.
 */
import { assertNever } from "./assert.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import type { BatonError, RunErrorCode } from "./errors.ts";
import { FENCE_REDELIVERY_MS } from "./limits.ts";
import type { Payload } from "./payload.ts";
import { newEvent } from "./plan.ts";

export async function failRun(
  state: DeliveryState,
  failure: { readonly errorCode: RunErrorCode; readonly error: Payload },
): Promise<Ending> {
  const { error, errorCode } = failure;
  const result = await state.writer.create(newEvent("run_failed", null, { error, errorCode }));
  switch (result.kind) {
    case "committed":
      state.wroteEnding = true;
      return { kind: "over" };
    case "refused":
      return deferredBy(result.error);
    case "superseded":
    case "unknown":
      return result;
    default:
      return assertNever(result);
  }
}

/** A refusal that only time can mend. */
export function deferredBy(error: BatonError): Ending {
  const afterMs = error.details.retryAfterMs ?? FENCE_REDELIVERY_MS;
  return { kind: "deferred", reason: error.code, afterMs, counted: error.code !== "THROTTLED" };
}
