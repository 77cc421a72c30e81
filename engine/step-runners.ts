/**
 * Several runners as one: for each step, the first that knows it. Owns only that order, which is
 * how a function of the platform wins over a bundle's body of the same id.
 */
import type { RunRef } from "./ids.ts";
import type { StepAttempt, StepOutcome, StepRunner, StepTraits } from "./ports/steps.ts";

export class FirstThatKnows implements StepRunner {
  readonly #runners: readonly StepRunner[];

  constructor(runners: readonly StepRunner[]) {
    this.#runners = runners;
  }

  async traitsOf(run: RunRef, deploymentId: string, stepName: string): Promise<StepTraits | null> {
    return (await this.#find(run, deploymentId, stepName))?.traits ?? null;
  }

  async run(attempt: StepAttempt): Promise<StepOutcome> {
    const found = await this.#find(attempt.run, attempt.deploymentId, attempt.stepName);
    if (found === null) return { kind: "interrupted", reason: "the step is not registered here" };
    return found.runner.run(attempt);
  }

  async #find(run: RunRef, deploymentId: string, stepName: string) {
    for (const runner of this.#runners) {
      const traits = await runner.traitsOf(run, deploymentId, stepName);
      if (traits !== null) return { runner, traits };
    }
    return null;
  }
}
