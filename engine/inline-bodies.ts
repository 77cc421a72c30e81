/**
 * Bodies that run in the orchestrator's own delivery.
 *
 * Owns the running bodies and what those that ended have to say, until it is committed. Writes
 * nothing. A body's outcome waits here for the pass that writes it, so it is queued behind every
 * creation that was planned before it.
 */
import { assert } from "./assert.ts";
import type { EntityId } from "./ids.ts";
import type { StepAccess } from "./ports/access.ts";
import type { StepAttempt, StepOutcome, StepRunner } from "./ports/steps.ts";
import { STOPPING, outcomeOfCut } from "./retry.ts";
import type { StepState } from "./steps.ts";

export interface BodyStart {
  readonly step: StepState;
  readonly attempt: Omit<StepAttempt, "signal" | "access">;
  readonly maxRetries: number;
  /** The body begins ahead of its run's start: settles with it. */
  readonly runStart?: Promise<void>;
}

export interface SettledBody extends BodyStart {
  readonly outcome: StepOutcome;
}

export interface InlineBodiesParts {
  readonly runner: StepRunner;
  /** What a body may do besides computing. */
  readonly accessOf: (
    attempt: Omit<StepAttempt, "access">,
    runStart: Promise<void> | null,
  ) => StepAccess;
  readonly onSettled: () => void;
}

export class InlineBodies {
  readonly #runner: StepRunner;
  readonly #accessOf: InlineBodiesParts["accessOf"];
  readonly #onSettled: () => void;
  readonly #running = new Map<EntityId, Promise<void>>();
  /** Ended, and not committed yet. */
  readonly #settled = new Map<EntityId, SettledBody>();
  /** Of the running bodies: a signal of its own each, since each listens to its own. */
  readonly #aborts = new Map<EntityId, AbortController>();
  readonly #retriable = new Set<EntityId>();
  #isCut = false;

  constructor({ runner, accessOf, onSettled }: InlineBodiesParts) {
    this.#runner = runner;
    this.#accessOf = accessOf;
    this.#onSettled = onSettled;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  /** Running, or ended and not committed. */
  get count(): number {
    return this.#running.size + this.#settled.size;
  }

  get settled(): readonly SettledBody[] {
    return [...this.#settled.values()];
  }

  /** Running, or ended and not committed. */
  has(stepId: EntityId): boolean {
    return this.#running.has(stepId) || this.#settled.has(stepId);
  }

  start(body: BodyStart): void {
    const { stepId } = body.step;
    assert(!this.has(stepId), "a delivery runs one body of a step at a time");
    const abort = new AbortController();
    this.#aborts.set(stepId, abort);
    const isRetriable = body.maxRetries > 0;
    if (isRetriable) this.#retriable.add(stepId);
    const attempt = { ...body.attempt, signal: abort.signal };
    const run = this.#runner
      .run({ ...attempt, access: this.#accessOf(attempt, body.runStart ?? null) })
      .catch((error: unknown): StepOutcome => ({ kind: "interrupted", reason: String(error) }))
      .then((outcome) => {
        this.#running.delete(stepId);
        this.#aborts.delete(stepId);
        this.#retriable.delete(stepId);
        const counted = this.#isCut && isRetriable ? outcomeOfCut(outcome) : outcome;
        this.#settled.set(stepId, { ...body, outcome: counted });
        this.#onSettled();
      });
    this.#running.set(stepId, run);
    if (this.#isCut) this.cut();
  }

  /** It has ended, and what it writes to streams goes on. */
  isFlushing(stepId: EntityId): boolean {
    const outcome = this.#settled.get(stepId)?.outcome;
    return outcome?.kind === "completed" && outcome.isFlushing === true;
  }

  /** The outcome is in the log, or never will be. */
  forget(stepId: EntityId): void {
    this.#settled.delete(stepId);
  }

  /** Waits for the bodies of these steps, and drops what they say. */
  async discard(stepIds: Iterable<EntityId>): Promise<void> {
    for (const stepId of stepIds) {
      await this.#running.get(stepId);
      this.#settled.delete(stepId);
    }
  }

  /** The process stops: bodies that may run again are cut short, the others are waited for (E17). */
  cut(): void {
    this.#isCut = true;
    for (const stepId of this.#retriable) this.#aborts.get(stepId)?.abort(new Error(STOPPING));
  }

  /** Tells the bodies that their run is over. */
  abort(): void {
    for (const abort of this.#aborts.values()) abort.abort();
  }

  async settleAll(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }
}
