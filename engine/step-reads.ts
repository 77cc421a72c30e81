/**
 * Reads of one step's events, however long its run's log is.
 *
 * Owns the paging; what the events fold to is steps.ts's.
 */
import { SLOT_NONE } from "./slots.ts";
import type { Slot } from "./slots.ts";
import type { StepArrival } from "./step-delivery.ts";
import { isStepEvent, stepAfter } from "./steps.ts";
import type { StepState } from "./steps.ts";

/** The step as its events up to and including `upTo` left it, or as all of them did. */
export async function readStep(
  { store, run, message }: Pick<StepArrival, "store" | "run" | "message">,
  upTo: Slot | null = null,
): Promise<StepState | null> {
  const correlationId = message.stepId;
  let step: StepState | null = null;
  let afterSlot: Slot = SLOT_NONE;
  for (;;) {
    const page = await store.events.list(run.runId, { correlationId, afterSlot });
    for (const event of page.events) {
      if (upTo !== null && event.slot > upTo) return step;
      if (isStepEvent(event)) step = stepAfter(step, event) ?? step;
    }
    const last = page.events.at(-1);
    if (!page.hasMore || last === undefined) return step;
    afterSlot = last.slot;
  }
}
