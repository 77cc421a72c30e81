/**
 * Rates: how often something may happen in a second, and how much CPU may be used in a minute.
 *
 * Pure but for what it remembers: time is an argument. A process counts what passes through it;
 * what is forgotten errs on the tenant's side.
 *
 * T60  So many at once, then so many a second: never more than twice that in any second.
 * T61  What is refused is not counted, and the answer says after how long one more fits.
 */
import type { TenantId } from "../engine/ids.ts";
import { Lru } from "./lru.ts";

const SECOND_MS = 1_000;
const SECONDS = 60;
/** What adding up fractions may lose. */
const ROUNDING = 1e-6;
/** Tenants or runs that are remembered; who was not seen for longest starts anew. */
const REMEMBERED_MAX = 10_000;

interface Bucket {
  readonly left: number;
  readonly atMs: number;
}

/** Of things that cost one each. */
export class Rates {
  readonly #buckets = new Lru<string, Bucket>(REMEMBERED_MAX);

  /** Null: it fits, and is counted. Otherwise the ms after which one more fits. */
  take(key: string, perSecondMax: number, nowMs: number): number | null {
    const left = this.#left(key, perSecondMax, nowMs);
    if (left >= 1 - ROUNDING) {
      this.#buckets.set(key, { left: left - 1, atMs: nowMs });
      return null;
    }
    if (perSecondMax === 0) return SECOND_MS;
    return Math.ceil(((1 - ROUNDING - left) * SECOND_MS) / perSecondMax);
  }

  /** How many of those that fit at once are used up now. */
  used(key: string, perSecondMax: number, nowMs: number): number {
    return Math.round(perSecondMax - this.#left(key, perSecondMax, nowMs));
  }

  #left(key: string, perSecondMax: number, nowMs: number): number {
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) return perSecondMax;
    const sinceMs = Math.max(0, nowMs - bucket.atMs);
    return Math.min(perSecondMax, bucket.left + (sinceMs * perSecondMax) / SECOND_MS);
  }
}

interface Minute {
  /** CPU ms by second, around and around. */
  readonly bySecond: Float64Array;
  lastSecond: number;
}

/** CPU that tenants used in the last minute, by the second. */
export class CpuMinutes {
  readonly #minutes = new Lru<TenantId, Minute>(REMEMBERED_MAX);

  add(tenantId: TenantId, cpuMs: number, nowMs: number): void {
    const minute = this.#at(tenantId, nowMs);
    const place = minute.lastSecond % SECONDS;
    minute.bySecond[place] = (minute.bySecond[place] ?? 0) + cpuMs;
  }

  usedMs(tenantId: TenantId, nowMs: number): number {
    return this.#at(tenantId, nowMs).bySecond.reduce((sum, ms) => sum + ms, 0);
  }

  /** After how long the tenant has used less than `maxMs` of the minute before; 0: it has now. */
  waitMs(tenantId: TenantId, maxMs: number, nowMs: number): number {
    let usedMs = this.usedMs(tenantId, nowMs);
    if (usedMs < maxMs) return 0;
    const { bySecond, lastSecond } = this.#at(tenantId, nowMs);
    const intoSecondMs = nowMs - lastSecond * SECOND_MS;
    for (let age = SECONDS - 1; age > 0; age--) {
      usedMs -= bySecond[(lastSecond - age) % SECONDS] ?? 0;
      if (usedMs < maxMs) return (SECONDS - age) * SECOND_MS - intoSecondMs;
    }
    return SECONDS * SECOND_MS - intoSecondMs;
  }

  #at(tenantId: TenantId, nowMs: number): Minute {
    const second = Math.max(0, Math.floor(nowMs / SECOND_MS));
    const known = this.#minutes.get(tenantId);
    if (known === undefined) {
      const fresh = { bySecond: new Float64Array(SECONDS), lastSecond: second };
      this.#minutes.set(tenantId, fresh);
      return fresh;
    }
    // A clock that went back writes to the second that it knew last.
    for (let passed = 0; known.lastSecond < second && passed < SECONDS; passed++) {
      known.lastSecond++;
      known.bySecond[known.lastSecond % SECONDS] = 0;
    }
    if (known.lastSecond < second) {
      known.lastSecond = second;
      known.bySecond.fill(0);
    }
    return known;
  }
}
