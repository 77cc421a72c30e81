/**
 * How many open runs a tenant has, as far as a start needs to know.
 *
 * Owns an upper bound for each tenant: the World's own count, and every start since it was read. Only
 * at the limit the World is asked again, now and then; so a start costs no count, and a tenant at
 * its limit costs few.
 *
 * T62  A start that this process admits is within the limit, other processes' newest starts apart.
 */
import type { TenantId } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { World } from "../engine/ports/world.ts";
import { Lru } from "./lru.ts";

const TENANTS_MAX = 10_000;
/** Between two counts of one tenant at its limit. */
const RECOUNT_MS_MIN = 250;
/** Others may have started runs meanwhile. */
const COUNT_AGE_MS_MAX = 60_000;

interface Count {
  readonly counted: number;
  /** How far it was counted: at this limit there may be more. */
  readonly countedTo: number;
  readonly atMs: number;
  /** Starts of this process that the count may not hold. */
  since: number;
}

export class OpenRuns {
  readonly #world: Pick<World, "forTenant">;
  readonly #clock: Clock;
  readonly #counts = new Lru<TenantId, Count>(TENANTS_MAX);
  readonly #recounts = new Map<TenantId, Promise<Count>>();
  /** Starts that were admitted and are not written yet. */
  readonly #pending = new Map<TenantId, number>();

  constructor(world: Pick<World, "forTenant">, clock: Clock) {
    this.#world = world;
    this.#clock = clock;
  }

  /** Null: one more fits, and counts until `end` is called. Otherwise how many there are. */
  async take(tenantId: TenantId, max: number): Promise<number | null> {
    for (;;) {
      const count = this.#counts.get(tenantId);
      const isKnown =
        count !== undefined && (count.counted < count.countedTo || max <= count.countedTo);
      const ageMs = isKnown ? this.#clock.now() - count.atMs : Infinity;
      const used = (count?.counted ?? 0) + (count?.since ?? 0) + this.#pendingOf(tenantId);
      const isFull = used >= max;
      if (ageMs < (isFull ? RECOUNT_MS_MIN : COUNT_AGE_MS_MAX)) {
        if (isFull) return used;
        this.#pending.set(tenantId, this.#pendingOf(tenantId) + 1);
        return null;
      }
      await this.#recount(tenantId, max);
    }
  }

  /** The start was written, or never will be. */
  end(tenantId: TenantId): void {
    const left = this.#pendingOf(tenantId) - 1;
    if (left > 0) this.#pending.set(tenantId, left);
    else this.#pending.delete(tenantId);
    const count = this.#counts.get(tenantId);
    if (count !== undefined) count.since += 1;
  }

  #pendingOf(tenantId: TenantId): number {
    return this.#pending.get(tenantId) ?? 0;
  }

  /** One at a time for each tenant, whoever asks. */
  #recount(tenantId: TenantId, max: number): Promise<Count> {
    const running = this.#recounts.get(tenantId);
    if (running !== undefined) return running;
    const recount = this.#count(tenantId, max).finally(() => this.#recounts.delete(tenantId));
    this.#recounts.set(tenantId, recount);
    return recount;
  }

  async #count(tenantId: TenantId, max: number): Promise<Count> {
    const before = this.#counts.get(tenantId)?.since ?? 0;
    const counted = await this.#world.forTenant(tenantId).runs.countOpen(max);
    // What was written while it was counted may be in it or not: it counts as not.
    const during = (this.#counts.get(tenantId)?.since ?? 0) - before;
    const count = { counted, countedTo: max, atMs: this.#clock.now(), since: Math.max(0, during) };
    this.#counts.set(tenantId, count);
    return count;
  }
}
