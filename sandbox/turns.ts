/**
 * Whose work comes next where tenants share something that does one thing at a time: deficit round
 * robin, weighted, counted in CPU milliseconds. Pure: it holds what waits, and is told what each
 * thing cost once that is known.
 *
 * Costs are not known before the work is done. So a tenant is served while it has any credit, what
 * its work usually costs is taken at once, and the difference when it is done: one expensive piece
 * leaves a debt, which the rounds that follow pay off.
 *
 * S30  While several tenants wait, each gets CPU in proportion to its weight, to within one round's
 *      credit and one piece of work.
 * S31  Whoever waits is served after a bounded amount of others' work.
 * S32  Credit is for one round: a tenant that was idle has no more of it than one that was not, and
 *      being idle pays no debt faster.
 */
import { assert } from "../engine/assert.ts";
import type { TenantId } from "../engine/ids.ts";

/** What a tenant of weight 1 may use in one round, CPU ms: some passes of a plain workflow. */
export const QUANTUM_MS = 1;
/** How much the newest cost moves the expectation of the next. */
const NEWEST_COST_SHARE = 0.2;
/** Assumed of a tenant whose work is not known, CPU ms. */
const COST_ASSUMED_MS = 0.5;
/** Past so many tenants, those that wait for nothing and owe nothing are forgotten. */
const ACCOUNTS_KEPT_MAX = 1_000;

interface Account<T> {
  readonly tenantId: TenantId;
  weight: number;
  /** CPU ms that it may still use in its round; negative: what it owes. */
  creditMs: number;
  /** The last round whose credit it got. */
  round: number;
  expectedMs: number;
  readonly waiting: T[];
}

/** Work that has begun; `settle` it when its cost is known. */
export interface Turn<T> {
  readonly tenantId: TenantId;
  readonly item: T;
  /** What was taken for it, CPU ms. */
  readonly expectedMs: number;
}

export class Turns<T> {
  readonly #accounts = new Map<TenantId, Account<T>>();
  /** Who waits, in the order of turns; those that come with fresh credit go before the others. */
  readonly #fresh = new Set<Account<T>>();
  readonly #others = new Set<Account<T>>();
  #round = 1;
  #size = 0;

  /** How much waits. */
  get size(): number {
    return this.#size;
  }

  add(tenantId: TenantId, weight: number, item: T): void {
    const account = this.#accountOf(tenantId);
    account.weight = weight;
    account.waiting.push(item);
    this.#size += 1;
    if (account.waiting.length > 1) return;
    const isFresh = account.round < this.#round;
    this.#refresh(account);
    // Little work that comes now and then need not wait behind queues; once a round at most.
    (isFresh && account.creditMs > 0 ? this.#fresh : this.#others).add(account);
  }

  /**
   * The next piece of work that can begin, and begins now; null: none can. Of one tenant's the first
   * that can; those that cannot yet keep their turn.
   */
  next(canBegin: (item: T) => boolean = () => true): Turn<T> | null {
    for (;;) {
      let roundsToCredit = Number.POSITIVE_INFINITY;
      for (const line of [this.#fresh, this.#others]) {
        for (const account of line) {
          const place = account.waiting.findIndex(canBegin);
          if (place < 0) continue;
          this.#refresh(account);
          if (account.creditMs > 0) return this.#serve(account, place);
          roundsToCredit = Math.min(roundsToCredit, roundsOf(account));
        }
      }
      if (roundsToCredit === Number.POSITIVE_INFINITY) return null;
      this.#round += roundsToCredit;
    }
  }

  /** What the work really cost, CPU ms; null if nobody knows, and what was expected stands. */
  settle({ tenantId, expectedMs }: Turn<T>, costMs: number | null): void {
    const account = this.#accounts.get(tenantId);
    if (account === undefined || costMs === null) return;
    account.creditMs += expectedMs - costMs;
    account.expectedMs += (costMs - account.expectedMs) * NEWEST_COST_SHARE;
  }

  #serve(account: Account<T>, place: number): Turn<T> {
    const [item] = account.waiting.splice(place, 1);
    assert(item !== undefined, "who is in line waits for something");
    const { tenantId, expectedMs } = account;
    this.#size -= 1;
    account.creditMs -= expectedMs;
    if (account.waiting.length === 0 || account.creditMs <= 0) {
      this.#fresh.delete(account);
      this.#others.delete(account);
      if (account.waiting.length > 0) this.#others.add(account);
    }
    return { tenantId, item, expectedMs };
  }

  /** Credit of the present round; of all rounds since its last one as far as they pay its debt. */
  #refresh(account: Account<T>): void {
    const rounds = this.#round - account.round;
    if (rounds === 0) return;
    account.round = this.#round;
    const perRoundMs = QUANTUM_MS * account.weight;
    account.creditMs = Math.min(account.creditMs + rounds * perRoundMs, perRoundMs);
  }

  #accountOf(tenantId: TenantId): Account<T> {
    const known = this.#accounts.get(tenantId);
    if (known !== undefined) return known;
    if (this.#accounts.size >= ACCOUNTS_KEPT_MAX) this.#forgetIdle();
    const account: Account<T> = {
      tenantId,
      weight: 1,
      creditMs: 0,
      round: 0,
      expectedMs: COST_ASSUMED_MS,
      waiting: [],
    };
    this.#accounts.set(tenantId, account);
    return account;
  }

  #forgetIdle(): void {
    for (const [tenantId, account] of this.#accounts) {
      if (account.waiting.length > 0) continue;
      this.#refresh(account);
      if (account.creditMs >= 0) this.#accounts.delete(tenantId);
    }
  }
}

/** After how many rounds the tenant has credit again. */
function roundsOf({ creditMs, weight }: Account<unknown>): number {
  return Math.floor(-creditMs / (QUANTUM_MS * weight)) + 1;
}
