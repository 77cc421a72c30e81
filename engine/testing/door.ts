/**
 * The door between the orchestrators of a test's workers and the World, one for each run.
 *
 * Owns when an orchestrator may act: while a run's door is shut its deliveries do not begin, its
 * in-band writes neither take effect nor are answered, and its feed tells nothing. To the engine that
 * is a World that takes its time, so no rule of it is set aside. Clients and step bodies pass freely.
 */
import type { RunEvent } from "../events.ts";

/** Waits for one event of a run; `landed` is set in the turn in which it commits. */
export interface Watch {
  readonly landed: RunEvent | null;
  end(): void;
}

interface Watcher {
  readonly runId: string;
  readonly isWanted: (event: RunEvent) => boolean;
  landed: RunEvent | null;
}

export class Door {
  /** What waits at each door that is shut, in the order in which it came. */
  readonly #shut = new Map<string, (() => void)[]>();
  readonly #watchers = new Set<Watcher>();

  shut(runId: string): void {
    if (!this.#shut.has(runId)) this.#shut.set(runId, []);
  }

  open(runId: string): void {
    const waiting = this.#shut.get(runId) ?? [];
    this.#shut.delete(runId);
    for (const goOn of waiting) goOn();
  }

  openAll(): void {
    for (const runId of this.#shut.keys()) this.open(runId);
  }

  /** Resolves once the door is open. */
  async pass(runId: string): Promise<void> {
    for (;;) {
      const waiting = this.#shut.get(runId);
      if (waiting === undefined) return;
      await new Promise<void>((resolve) => void waiting.push(resolve));
    }
  }

  /** Tells something now, or once the door is open; in order. */
  tell(runId: string, telling: () => void): void {
    const waiting = this.#shut.get(runId);
    if (waiting === undefined) telling();
    else waiting.push(telling);
  }

  /** Shuts the door behind the first event that is wanted. */
  watch(runId: string, isWanted: (event: RunEvent) => boolean): Watch {
    const watcher: Watcher = { runId, isWanted, landed: null };
    this.#watchers.add(watcher);
    return {
      get landed() {
        return watcher.landed;
      },
      end: () => void this.#watchers.delete(watcher),
    };
  }

  /** Events that have just committed. */
  committed(runId: string, events: readonly RunEvent[]): void {
    for (const watcher of this.#watchers) {
      if (watcher.runId !== runId || watcher.landed !== null) continue;
      const wanted = events.find((event) => watcher.isWanted(event));
      if (wanted === undefined) continue;
      watcher.landed = wanted;
      this.shut(runId);
    }
  }
}
