/**
 * Who drives a run: one orchestrator is registered for each version of runs that this build knows.
 *
 * A run keeps the version it was created with. A message or run of a version without an orchestrator
 * is refused with nothing written, and its message kept for a build that has one.
 */
import { deliver } from "./delivery.ts";
import { BatonError, isBatonError } from "./errors.ts";
import { SPEC_VERSION } from "./events.ts";
import { SET_ASIDE_REDELIVERY_MS } from "./limits.ts";
import type { Engine } from "./parts.ts";
import type { DeliveryMeta, DeliveryResult, OrchestratorMessage } from "./ports/queue.ts";

export type Orchestrator = (
  engine: Engine,
  message: OrchestratorMessage,
  meta: DeliveryMeta,
) => Promise<DeliveryResult>;

const ORCHESTRATORS: ReadonlyMap<number, Orchestrator> = new Map([[SPEC_VERSION, deliver]]);

/** The orchestrator of a version; `RUN_NOT_SUPPORTED` if this build has none. */
function orchestratorFor(specVersion: number): Orchestrator {
  const orchestrator = ORCHESTRATORS.get(specVersion);
  if (orchestrator !== undefined) return orchestrator;
  throw new BatonError("RUN_NOT_SUPPORTED", "no orchestrator drives runs of this version", {
    field: "specVersion",
    used: specVersion,
    allowed: [...ORCHESTRATORS.keys()].join(", "),
  });
}

/** Routes a message by its version stamp. */
export async function route(
  engine: Engine,
  message: OrchestratorMessage,
  meta: DeliveryMeta,
): Promise<DeliveryResult> {
  try {
    return await orchestratorFor(message.specVersion)(engine, message, meta);
  } catch (error) {
    if (!isBatonError(error, "RUN_NOT_SUPPORTED")) throw error;
    const { tenantId, runId } = message;
    engine.parts.log.error(
      { code: error.code, tenantId, runId, ...error.details },
      "a run of a version that this build does not know; nothing is written",
    );
    return { kind: "redeliver", afterMs: SET_ASIDE_REDELIVERY_MS, counted: false };
  }
}
