/**
 * Outcomes of step bodies that a test keeps back, so that it can say when they commit.
 *
 * Owns what is kept between the end of a body and the engine's hearing of it: to the engine the body
 * is only slower. A worker's death takes its outcomes with it.
 */
import type { StepAttempt, StepRunner } from "../ports/steps.ts";
import { neverAnswered } from "./life.ts";
import type { Life } from "./life.ts";

/** An outcome that is kept back. */
export interface HeldOutcome {
  readonly runId: string;
  readonly stepId: string;
  readonly stepName: string;
  readonly attempt: number;
  readonly letGo: () => void;
}

/** Whether a step's id is meant by a name: the id itself, or the function's bare name. */
export function isNamed(stepName: string, name: string): boolean {
  return stepName === name || stepName.endsWith(`/${name}`);
}

export class HeldSteps {
  readonly #names = new Set<string>();
  /** In the order in which the bodies ended. */
  readonly #held = new Set<HeldOutcome>();

  hold(name: string): void {
    this.#names.add(name);
  }

  /** Lets go what is kept of the step, and keeps no more of it. */
  letGo(name: string): void {
    this.#names.delete(name);
    for (const held of this.#held) if (isNamed(held.stepName, name)) held.letGo();
  }

  letAllGo(): void {
    this.#names.clear();
    for (const held of this.#held) held.letGo();
  }

  holds(stepName: string): boolean {
    return [...this.#names].some((name) => isNamed(stepName, name));
  }

  /** The outcomes that are kept of a run. */
  of(runId: string): readonly HeldOutcome[] {
    return [...this.#held].filter((held) => held.runId === runId);
  }

  /** Goes around what runs the steps of one worker. */
  around(life: Life): (runner: StepRunner) => StepRunner {
    return (runner) => ({
      traitsOf: (run, deploymentId, stepName) => runner.traitsOf(run, deploymentId, stepName),
      run: async (attempt) => {
        const outcome = await runner.run(attempt);
        if (life.isOver) return neverAnswered();
        if (this.holds(attempt.stepName)) await this.#keep(attempt, life);
        return outcome;
      },
    });
  }

  async #keep({ run, stepId, stepName, attempt, signal }: StepAttempt, life: Life): Promise<void> {
    // The run is over: nobody waits for the outcome any more.
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const forget = () => {
        takeBack();
        signal.removeEventListener("abort", letGo);
        this.#held.delete(held);
      };
      const letGo = () => {
        forget();
        resolve();
      };
      const held = { runId: run.runId, stepId, stepName, attempt, letGo };
      const takeBack = life.onEnd(forget);
      signal.addEventListener("abort", letGo);
      this.#held.add(held);
    });
  }
}
