/**
 * Taking the answer to a write: may the next one follow?
 *
 * E33  Nothing is written behind a refused item: it is planned again from what the log then holds,
 *      and what stays refused ends the delivery.
 */
import { assertNever } from "./assert.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { isBatonError } from "./errors.ts";
import { REFUSED_PASSES_MAX } from "./limits.ts";
import { deferredBy } from "./run-ending.ts";
import type { WriteResult } from "./writer.ts";

/** Whether the next write may follow: not behind a stop, and not behind what was refused. */
export function take(state: DeliveryState, result: WriteResult): Ending | null | "go on" {
  switch (result.kind) {
    case "superseded":
    case "unknown":
      return result;
    case "refused":
      return planAgain(state, [result.error]);
    case "committed":
      if (result.refused.length > 0) return planAgain(state, result.refused);
      state.counts.refusedPasses = 0;
      return "go on";
    default:
      return assertNever(result);
  }
}

/** The log knows why: it is read before the next plan. What stays refused is no plan's doing. */
function planAgain(state: DeliveryState, refused: readonly Error[]): Ending | null {
  state.writer.noteBehind();
  state.counts.refusedPasses += 1;
  const throttled = refused.find((error) => isBatonError(error, "THROTTLED"));
  if (throttled !== undefined && isBatonError(throttled)) return deferredBy(throttled);
  if (state.counts.refusedPasses <= REFUSED_PASSES_MAX) return null;
  const [first] = refused;
  state.logger.warn({ error: String(first) }, "the World refuses what is planned, again and again");
  return { kind: "deferred", reason: "refused again and again", afterMs: 1_000, counted: true };
}
