/**
 * Upkeep: what is done about tenants without being asked. Deletions that were cut short go on, and
 * runs that finished longer ago than their tenant's retention are removed.
 *
 * Owns when that happens, by the clock it is given. Rests for good while no tenant needs it, until
 * it is nudged. Any number of processes may do it at once.
 *
 * T49  One round removes at most so many runs of each tenant, and lets others through between them:
 *      no tenant's past holds up another's present.
 */
import type { Clock, Log } from "../engine/ports/host.ts";
import type { TenantId } from "../engine/ids.ts";
import type { World } from "../engine/ports/world.ts";
import type { TenantRegistry } from "./registry.ts";
import type { Tenant } from "./tenant.ts";

/** Runs of one tenant that one round removes. */
export const PURGED_PER_ROUND = 50;
/** Between rounds while there is more to remove. */
const BUSY_MS = 250;
/** Between rounds otherwise: runs are kept a little longer than asked, never shorter. */
export const ROUND_MS = 3_600_000;
const TENANTS_PER_PAGE = 100;

export interface UpkeepParts {
  readonly world: Pick<World, "forTenant">;
  readonly registry: TenantRegistry;
  readonly clock: Clock;
  readonly log: Log;
  /** Goes on with a tenant's deletion. */
  readonly finishDeletion: (tenantId: TenantId) => Promise<unknown>;
}

/** What is left to do, in the order of urgency. */
type Left = "nothing" | "later" | "more";

export class Upkeep {
  readonly #parts: UpkeepParts;
  #round: Promise<void> | null = null;
  #cancelTimer: () => void = () => undefined;
  #isNudged = false;
  #isStopped = false;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  /** Begins a round now, or right after the one that runs. */
  nudge(): void {
    if (this.#isStopped) return;
    if (this.#round !== null) {
      this.#isNudged = true;
      return;
    }
    this.#cancelTimer();
    this.#round = this.#run().then((left) => {
      this.#round = null;
      this.#plan(this.#isNudged ? "more" : left);
      this.#isNudged = false;
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelTimer();
    await this.#round;
  }

  #plan(left: Left): void {
    if (this.#isStopped || left === "nothing") return;
    const delayMs = left === "more" ? BUSY_MS : ROUND_MS;
    this.#cancelTimer = this.#parts.clock.setTimer(delayMs, () => this.nudge());
  }

  async #run(): Promise<Left> {
    let left: Left = "nothing";
    try {
      let cursor: string | null = null;
      do {
        const page: Awaited<ReturnType<TenantRegistry["list"]>> = await this.#parts.registry.list({
          limit: TENANTS_PER_PAGE,
          ...(cursor === null ? {} : { cursor }),
        });
        for (const tenant of page.data) {
          if (this.#isStopped) return left;
          left = moreUrgent(left, await this.#lookAfter(tenant));
        }
        cursor = page.cursor;
      } while (cursor !== null);
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "a round of upkeep was cut short");
      left = moreUrgent(left, "later");
    }
    return left;
  }

  async #lookAfter(tenant: Tenant): Promise<Left> {
    const { world, registry, clock, log, finishDeletion } = this.#parts;
    const { tenantId } = tenant;
    try {
      if (tenant.status === "deleting") {
        await finishDeletion(tenantId);
        log.info({ tenantId }, "the deletion of a tenant is finished");
        return "nothing";
      }
      const { retentionMs } = registry.quotas(tenant);
      if (retentionMs === null) return "nothing";
      const finishedBefore = Math.max(0, clock.now() - retentionMs);
      const { runs } = world.forTenant(tenantId);
      const purged = await runs.purgeFinished(finishedBefore, PURGED_PER_ROUND);
      if (purged > 0) log.info({ tenantId, purged }, "finished runs are removed");
      return purged < PURGED_PER_ROUND ? "later" : "more";
    } catch (error) {
      // Of one tenant: the others are still looked after.
      log.warn({ tenantId, error: String(error) }, "upkeep of a tenant failed");
      return "later";
    }
  }
}

function moreUrgent(a: Left, b: Left): Left {
  const order: readonly Left[] = ["nothing", "later", "more"];
  return order.indexOf(a) >= order.indexOf(b) ? a : b;
}
