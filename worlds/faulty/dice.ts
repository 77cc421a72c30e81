/**
 * Which faults happen, and how often each happened where. All chance comes from one seed.
 */
import type { SeededRandom } from "../seeded-random.ts";

/** Chances from 0 to 1, each per opportunity; times in ms. */
export interface FaultProfile {
  /** A delivery never reaches its handler; its lease runs out. */
  readonly dropDelivery: number;
  /** The handler's answer is lost, so the message comes again. */
  readonly duplicateDelivery: number;
  readonly delayDelivery: number;
  /** A delivery waits until a later one has begun. */
  readonly reorderDelivery: number;
  /** The lease runs out while the handler lives: a second delivery beside the first. */
  readonly lapseLease: number;
  /** The call was carried out, and its answer is lost. */
  readonly loseAnswer: number;
  /** The call never arrives. */
  readonly loseCall: number;
  readonly crashBefore: number;
  readonly crashAfter: number;
  /** A skipped-slot report leaves out its end, with `hasMore`. */
  readonly shortenReport: number;
  /** A feed goes on living without giving anything. */
  readonly silenceFeed: number;
  readonly failFeed: number;
  readonly loseSnapshot: number;
  /** How long a dead or lost delivery keeps its message. */
  readonly leaseMs: number;
  /** The longest that a delivery is delayed. */
  readonly delayMsMax: number;
}

export type Fault = Exclude<keyof FaultProfile, "leaseMs" | "delayMsMax">;

export const NO_FAULTS: FaultProfile = {
  dropDelivery: 0,
  duplicateDelivery: 0,
  delayDelivery: 0,
  reorderDelivery: 0,
  lapseLease: 0,
  loseAnswer: 0,
  loseCall: 0,
  crashBefore: 0,
  crashAfter: 0,
  shortenReport: 0,
  silenceFeed: 0,
  failFeed: 0,
  loseSnapshot: 0,
  leaseMs: 10_000,
  delayMsMax: 5_000,
};

export class Dice {
  readonly #random: SeededRandom;
  #profile: FaultProfile;
  readonly #happened = new Map<string, number>();

  constructor(random: SeededRandom, profile: FaultProfile) {
    this.#random = random;
    this.#profile = profile;
  }

  get profile(): FaultProfile {
    return this.#profile;
  }

  /** From now on nothing fails any more: what is left must come to its end. */
  calm(): void {
    this.#profile = { ...NO_FAULTS, leaseMs: this.#profile.leaseMs };
  }

  /** Whether the fault happens here and now; counted if it does. */
  strikes(fault: Fault, site: string): boolean {
    const chance = this.#profile[fault];
    if (chance <= 0 || this.#random.fraction() >= chance) return false;
    this.count(fault, site);
    return true;
  }

  count(fault: Fault, site: string): void {
    const key = `${fault} @ ${site}`;
    this.#happened.set(key, (this.#happened.get(key) ?? 0) + 1);
  }

  /** A whole number from 0 up to `max`, both included. */
  upTo(max: number): number {
    return Math.floor(this.#random.fraction() * (max + 1));
  }

  /** Each fault × call site that happened, and how often. */
  get happened(): ReadonlyMap<string, number> {
    return this.#happened;
  }
}
