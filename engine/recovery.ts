/**
 * Recovery of runs whose messages may be late or lost: each is looked at as if it had none.
 *
 * Owns which runs of a tenant are asked for. Writes no event; a run that needs nothing answers so.
 */
import type { RunRef, TenantId } from "./ids.ts";
import { RECOVERIES_PER_SEND } from "./limits.ts";
import { orchestratorMessage } from "./owed.ts";
import type { Send } from "./ports/queue.ts";
import type { Page, RunRow, World } from "./ports/world.ts";

export function recoveryOf(run: RunRef): Send {
  return { message: { ...orchestratorMessage(run, "recovery"), recovery: true } };
}

/** Sends a recovery for each open run of the tenant that is not parked. How many it sent. */
export async function recoverOpenRuns(world: World, tenantId: TenantId): Promise<number> {
  let sent = 0;
  for (const status of ["running", "pending"] as const) {
    let cursor: string | null = null;
    do {
      const filter = { status, parked: false, limit: RECOVERIES_PER_SEND };
      const page: Page<RunRow> = await world
        .forTenant(tenantId)
        .runs.list(cursor === null ? filter : { ...filter, cursor });
      await world.queue.sendBatch(page.data.map(({ runId }) => recoveryOf({ tenantId, runId })));
      sent += page.data.length;
      cursor = page.cursor;
    } while (cursor !== null);
  }
  return sent;
}
