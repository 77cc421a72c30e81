/**
 * Stage 7, owe: messages that committed writes imply go out.
 *
 * Owns the record of what this delivery still owes, and the re-send pass.
 *
 * E25  What is owed stays owed until its send is confirmed; a refused delivery sends it too.
 * E26  The re-send pass runs once per invocation, by any delivery that is not its message's first.
 */
import { invocationKey } from "./arrival.ts";
import type { DeliveryState, OwedStep } from "./delivery-state.ts";
import { nowMs } from "./delivery-state.ts";
import { STEP_SENDS_PER_REQUEST_MAX } from "./limits.ts";
import { resendsOf, stepSendOf } from "./owed.ts";
import type { Send } from "./ports/queue.ts";

/** Sends the step messages that committed writes of this delivery owe. */
export async function sendOwed(state: DeliveryState): Promise<void> {
  const owed = [...state.owedSteps];
  await sendSteps(
    state,
    owed.map(([, one]) => one),
  );
  for (const [stepId] of owed) state.owedSteps.delete(stepId);
}

/** Sends again what a delivery before this one may have committed and never sent. */
export async function resend(state: DeliveryState): Promise<void> {
  const { meta, engine } = state;
  const key = invocationKey(state);
  const isRecovery = meta.recovery;
  if (!isRecovery && (meta.deliveryCount === 1 || engine.memory.resendPasses.has(key))) return;
  const { due, tooOld } = resendsOf(state.log.steps.values(), { nowMs: nowMs(state), isRecovery });
  await sendSteps(
    state,
    due.map((step) => ({ step, isResend: true })),
  );
  if (due.length > 0) state.logger.info({ resent: due.length, isRecovery }, "sent steps again");
  if (tooOld.length > 0) {
    state.logger.warn({ steps: tooOld.length }, "steps may be without a message, too old to send");
  }
  engine.memory.resendPasses.add(key);
}

async function sendSteps(state: DeliveryState, steps: readonly OwedStep[]): Promise<void> {
  if (steps.length === 0) return;
  const { deploymentId } = state.birth;
  const sends = steps.map((owed) =>
    stepSendOf(state.run, { ...owed, deploymentId, nowMs: nowMs(state) }),
  );
  const requests: Send[][] = [];
  for (let from = 0; from < sends.length; from += STEP_SENDS_PER_REQUEST_MAX) {
    requests.push(sends.slice(from, from + STEP_SENDS_PER_REQUEST_MAX));
  }
  const { queue } = state.engine.parts.world;
  const answers = await Promise.allSettled(requests.map((request) => queue.sendBatch(request)));
  for (const answer of answers) if (answer.status === "rejected") throw answer.reason;
  state.counts.messagesSent += sends.length;
}
