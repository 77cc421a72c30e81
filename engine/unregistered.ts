/**
 * Steps whose code no process here has: deferred, and told to the operator.
 *
 * Another process may have it, or a deployment may bring it, so such a step is never failed and its
 * run never parked: the run may be racing it against something that does happen. What an operator
 * sees instead is a counter for each such delivery, a warning, and once the step has waited long,
 * an error line that names it.
 */
import { SET_ASIDE_REDELIVERY_MS, STEP_DEFERRAL_MS, STEP_UNREGISTERED_ALARM_MS } from "./limits.ts";
import type { EngineParts } from "./parts.ts";
import type { TenantId } from "./ids.ts";
import type { Log } from "./ports/host.ts";

export interface Unregistered {
  readonly tenantId: TenantId;
  readonly stepName: string;
  /** Epoch ms. */
  readonly createdAt: number;
  /** Of the message that found it so. */
  readonly deliveryCount: number;
  readonly logger: Log;
}

/** How long its message is to wait, ms. */
export function deferUnregistered(
  { clock, tenants }: Pick<EngineParts, "clock" | "tenants">,
  step: Unregistered,
): number {
  const { tenantId, stepName, logger } = step;
  tenants.count(tenantId, { unregisteredSteps: 1 });
  const waitedMs = clock.now() - step.createdAt;
  const fields = { code: "STEP_NOT_REGISTERED", stepName, waitedMs };
  if (waitedMs < STEP_UNREGISTERED_ALARM_MS) logger.warn(fields, "nothing here can run the step");
  else logger.error(fields, "a step waits for code that nothing here has");
  const afterMs = STEP_DEFERRAL_MS * 2 ** Math.min(step.deliveryCount - 1, 10);
  return Math.min(afterMs, SET_ASIDE_REDELIVERY_MS);
}
