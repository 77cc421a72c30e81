/**
 * One caller of a faulty World: a worker or a client, which can die between any two of its calls.
 *
 * Owns whether the caller is alive and how many calls it has made.
 */
import type { Dice } from "./dice.ts";

/** The caller is dead: thrown by the call at which it died, and by every call after that. */
export class CallerCrashed extends Error {
  override readonly name = "CallerCrashed";
}

export interface CrashPoint {
  /** The nth call of this caller, from 1. */
  readonly call: number;
  readonly when: "before" | "after";
}

export class Caller {
  readonly name: string;
  readonly #dice: Dice;
  readonly #crashAt: CrashPoint | null;
  readonly #onCrash = new Set<() => void>();
  #calls = 0;
  #isDead = false;

  constructor(name: string, dice: Dice, crashAt: CrashPoint | null) {
    this.name = name;
    this.#dice = dice;
    this.#crashAt = crashAt;
  }

  get calls(): number {
    return this.#calls;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Calls back once when the caller dies, at once if it is dead; returns what takes it back. */
  onCrash(callback: () => void): () => void {
    if (this.#isDead) {
      callback();
      return () => undefined;
    }
    this.#onCrash.add(callback);
    return () => {
      this.#onCrash.delete(callback);
    };
  }

  requireAlive(): void {
    if (this.#isDead) throw new CallerCrashed(`${this.name} is dead`);
  }

  /** Carries out one call, unless the caller dies first; or the caller never sees the answer. */
  async through<T>(site: string, call: () => Promise<T>): Promise<T> {
    this.requireAlive();
    this.#calls++;
    const nth = this.#calls;
    if (this.#dies("before", site, nth)) this.crash(site);
    const outcome = await call().then(
      (value) => ({ ok: true as const, value }),
      (error: unknown) => ({ ok: false as const, error }),
    );
    this.requireAlive();
    if (this.#dies("after", site, nth)) this.crash(site);
    if (outcome.ok) return outcome.value;
    throw outcome.error;
  }

  crash(site: string): never {
    this.#isDead = true;
    for (const callback of this.#onCrash) callback();
    this.#onCrash.clear();
    throw new CallerCrashed(`${this.name} died at call ${this.#calls}, ${site}`);
  }

  #dies(when: CrashPoint["when"], site: string, nth: number): boolean {
    const fault = when === "before" ? "crashBefore" : "crashAfter";
    if (this.#crashAt?.call === nth && this.#crashAt.when === when) {
      this.#dice.count(fault, site);
      return true;
    }
    return this.#dice.strikes(fault, site);
  }
}
