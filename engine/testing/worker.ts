/**
 * The worker of a test's Baton: what takes deliveries, holds heaps, and can die.
 *
 * Owns that there is one at a time, and what of it is lost at its death: heaps, timers, deliveries
 * that were not answered, and all that was only in memory.
 */
import { composeBaton } from "../compose.ts";
import type { Baton, BatonOptions, ComposedBaton } from "../compose.ts";
import type { Clock } from "../ports/host.ts";
import type { World } from "../ports/world.ts";
import type { Door } from "./door.ts";
import type { HeldSteps } from "./held-steps.ts";
import { Life } from "./life.ts";
import { worldOfWorker } from "./worker-world.ts";
import type { Traffic } from "./worker-world.ts";

export interface WorkerParts {
  readonly world: World;
  readonly clock: Clock;
  readonly door: Door;
  readonly held: HeldSteps;
  readonly traffic: Traffic;
  readonly options: Omit<BatonOptions, "world" | "clock">;
}

type LifecycleHooks = Parameters<Baton["registerLifecycleHooks"]>[0];

export class Worker {
  readonly #parts: WorkerParts;
  #life: Life;
  #composed: ComposedBaton;
  /** By what they were registered with, with what takes them back from the present worker. */
  readonly #lifecycleHooks = new Map<LifecycleHooks, () => void>();
  /** The closing of sandboxes of the dead. */
  readonly #burials: Promise<void>[] = [];

  private constructor(parts: WorkerParts, first: { life: Life; composed: ComposedBaton }) {
    this.#parts = parts;
    this.#life = first.life;
    this.#composed = first.composed;
  }

  static async open(parts: WorkerParts): Promise<Worker> {
    return new Worker(parts, await composed(parts));
  }

  get composed(): ComposedBaton {
    return this.#composed;
  }

  /** It dies here and now, and another one takes over what it has left in the World. */
  async replace(): Promise<void> {
    this.#life.end();
    this.#burials.push(this.#composed.sandbox.close());
    const { life, composed: next } = await composed(this.#parts);
    this.#life = life;
    this.#composed = next;
    for (const hooks of this.#lifecycleHooks.keys()) this.#register(hooks);
  }

  /** What would be registered anew by the platform's own start-up in the next process. */
  registerLifecycleHooks(hooks: LifecycleHooks): () => void {
    this.#register(hooks);
    return () => {
      this.#lifecycleHooks.get(hooks)?.();
      this.#lifecycleHooks.delete(hooks);
    };
  }

  #register(hooks: LifecycleHooks): void {
    this.#lifecycleHooks.set(hooks, this.#composed.baton.registerLifecycleHooks(hooks));
  }

  async close(): Promise<void> {
    await this.#composed.baton.close();
    await Promise.all(this.#burials);
  }
}

async function composed({ world, clock, door, held, traffic, options }: WorkerParts) {
  const life = new Life();
  const baton = await composeBaton(
    {
      ...options,
      world: worldOfWorker(world, { life, door, traffic }),
      clock: life.clock(clock),
    },
    held.around(life),
  );
  return { life, composed: baton };
}
