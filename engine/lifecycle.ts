/**
 * Lifecycle hooks: functions of the platform that hear of runs that completed or failed.
 *
 * Best effort and after the fact: a hook is called by the delivery that wrote the run's end, once
 * the World confirms that this end is the run's, and not again after a crash. It delays and fails
 * nothing.
 *
 * E97  A hook hears of an outcome only if the run's row has it: an end that came second is inert.
 */
import type { RunOutcome } from "./client.ts";
import type { RunRef } from "./ids.ts";
import type { Log } from "./ports/host.ts";

export interface EndedRun {
  readonly run: RunRef;
  readonly workflowName: string;
  readonly outcome: RunOutcome;
}

export interface LifecycleHooks {
  readonly onRunCompleted?: (ended: EndedRun) => unknown;
  readonly onRunFailed?: (ended: EndedRun) => unknown;
}

export class Lifecycle {
  readonly #hooks = new Set<LifecycleHooks>();
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  get isHeard(): boolean {
    return this.#hooks.size > 0;
  }

  /** Returns what ends it. */
  register(hooks: LifecycleHooks): () => void {
    // An object of its own, so that the same hooks may be registered twice.
    const registered = { ...hooks };
    this.#hooks.add(registered);
    return () => void this.#hooks.delete(registered);
  }

  dispatch(ended: EndedRun): void {
    for (const { onRunCompleted, onRunFailed } of this.#hooks) {
      if (ended.outcome.kind === "completed") this.#call(onRunCompleted, ended);
      if (ended.outcome.kind === "failed") this.#call(onRunFailed, ended);
    }
  }

  #call(hook: ((ended: EndedRun) => unknown) | undefined, ended: EndedRun): void {
    const { runId } = ended.run;
    void Promise.resolve(ended)
      .then(hook)
      .catch((error: unknown) => {
        this.#log.warn({ runId, error: String(error) }, "a lifecycle hook failed");
      });
  }
}
