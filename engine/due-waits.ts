/**
 * Waits that are due are completed at the top of a pass, in-band, behind the timers of what their
 * chains still hold (spec: "Timers and waits", and `wake_requested` of design §9).
 */
import { armBeforeCompletion } from "./arming.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { nowMs } from "./delivery-state.ts";
import { batchesOf, newEvent } from "./plan.ts";
import { take } from "./taking.ts";
import { dueWaits } from "./waits.ts";

export async function completeDueWaits(state: DeliveryState): Promise<Ending | null> {
  const now = nowMs(state);
  const due = dueWaits(state.log.waits.values(), now);
  if (due.length === 0) return null;
  await armBeforeCompletion(state, due);
  // Under the time that found them due: the guest clock never reads less than a deadline it passed.
  const events = due.map((wait) => ({
    ...newEvent("wait_completed", wait.waitId, {}),
    occurredAt: now,
  }));
  for (const batch of batchesOf(events)) {
    const next = take(state, await state.writer.createBatch(batch));
    if (next !== "go on") return next;
  }
  return null;
}
