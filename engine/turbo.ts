/**
 * Turbo: which deliveries may begin without a load, and what is known of their runs.
 *
 * The log of a fresh run is known unread: it holds `run_created`, which the start message carries,
 * and nobody else drives the run (spec: "Turbo"). Pure; fresh-pass.ts leads such a delivery.
 *
 * E117 Only the first delivery of a run's own first message is fresh.
 */
import { SPEC_VERSION } from "./events.ts";
import type { NewEventOf } from "./events.ts";
import type { DeliveryMeta, OrchestratorMessage, RunInput } from "./ports/queue.ts";
import { WEBHOOK_BASE_URL } from "./run.ts";
import type { RunBirth } from "./run.ts";

/** What a fresh run's log holds, from its message; null: the log is to be read (E117). */
export function freshInput(message: OrchestratorMessage, meta: DeliveryMeta): RunInput | null {
  const { runInput, waitContinuation } = message;
  if (runInput === undefined || waitContinuation !== undefined || message.reason !== "start") {
    return null;
  }
  if (meta.attempt !== 1 || meta.deliveryCount !== 1 || meta.recovery) return null;
  return runInput;
}

export function birthOfInput(input: RunInput): RunBirth {
  const { workflowName, deploymentId, seed, createdAt, executionContext } = input;
  const webhookBaseUrl = executionContext?.[WEBHOOK_BASE_URL] ?? null;
  const specVersion = SPEC_VERSION;
  return { workflowName, deploymentId, seed, createdAt, specVersion, webhookBaseUrl };
}

/** The event that a start made its run by. */
export function createdByInput(input: RunInput): NewEventOf<"run_created"> {
  const { workflowName, deploymentId, seed, createdAt, attributes, executionContext } = input;
  return {
    eventType: "run_created",
    correlationId: null,
    eventData: {
      deploymentId,
      workflowName,
      input: input.input,
      seed,
      ...(attributes === undefined ? {} : { attributes: { ...attributes } }),
      ...(executionContext === undefined ? {} : { executionContext: { ...executionContext } }),
    },
    occurredAt: createdAt,
    specVersion: SPEC_VERSION,
  };
}
