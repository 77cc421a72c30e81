/**
 * Deliveries of each tenant that this process handles, and how many there may be.
 *
 * Owns that the queue is told when a tenant's limits change. The queue keeps them (W27): what is over
 * waits there, where it costs nothing.
 */
import type { TenantId } from "./ids.ts";
import type { Consumer, TenantDeliveries } from "./ports/queue.ts";

/** Tenants whose limits are remembered. */
const REMEMBERED_MAX = 10_000;

export class TenantDeliveryCounts {
  readonly #running = new Map<TenantId, number>();
  readonly #limits = new Map<TenantId, TenantDeliveries>();
  /** The queue may know limits of tenants that are not among those remembered. */
  #hasForgotten = false;
  #consumer: Consumer | null = null;

  attach(consumer: Consumer): void {
    this.#consumer = consumer;
  }

  /** Orchestrator deliveries of the tenant that are in flight here. */
  runningOf(tenantId: TenantId): number {
    return this.#running.get(tenantId) ?? 0;
  }

  begin(tenantId: TenantId): void {
    this.#running.set(tenantId, this.runningOf(tenantId) + 1);
  }

  end(tenantId: TenantId): void {
    const left = this.runningOf(tenantId) - 1;
    if (left > 0) this.#running.set(tenantId, left);
    else this.#running.delete(tenantId);
  }

  /** The tenant's limits as they are now; every delivery tells them. */
  heed(tenantId: TenantId, limits: TenantDeliveries): void {
    const known = this.#limits.get(tenantId) ?? (this.#hasForgotten ? null : UNLIMITED);
    if (this.#limits.size >= REMEMBERED_MAX && !this.#limits.has(tenantId)) {
      this.#limits.clear();
      this.#hasForgotten = true;
    }
    this.#limits.set(tenantId, limits);
    if (known === null || !isSame(known, limits)) this.#consumer?.limitTenant(tenantId, limits);
  }

  /** What its last delivery said; who had none has no limit here. */
  limitsOf(tenantId: TenantId): TenantDeliveries {
    return this.#limits.get(tenantId) ?? UNLIMITED;
  }
}

const UNLIMITED: TenantDeliveries = { orchestratorsMax: null, stepsMax: null };

function isSame(one: TenantDeliveries, other: TenantDeliveries): boolean {
  return one.orchestratorsMax === other.orchestratorsMax && one.stepsMax === other.stepsMax;
}
