/**
 * A World that counts its calls, and whose caller dies at one of them: before the call took effect,
 * or after. Once dead, the caller reaches the World no more.
 */

import type { World } from "../../engine/ports/world.ts";

export class Crash extends Error {}

export interface CrashPoint {
  readonly call: number;
  readonly when: "before" | "after";
}

export class Caller {
  readonly #point: CrashPoint | null;
  readonly #onCrash: () => void;
  readonly calls: string[] = [];
  isDead = false;

  constructor(point: CrashPoint | null, onCrash: () => void) {
    this.#point = point;
    this.#onCrash = onCrash;
  }

  async make<T>(name: string, call: () => Promise<T>): Promise<T> {
    if (this.isDead) throw new Crash("dead");
    this.calls.push(name);
    const isHere = this.#point?.call === this.calls.length;
    if (isHere && this.#point.when === "before") this.#die();
    const result = await call();
    if (this.isDead) throw new Crash("dead");
    if (isHere) this.#die();
    return result;
  }

  #die(): never {
    this.isDead = true;
    this.#onCrash();
    throw new Crash("died");
  }
}

/** The World as `caller` reaches it. Deliveries themselves come from the World underneath. */
export function reachedBy(caller: Caller, world: World): World {
  return {
    ...world,
    name: world.name,
    specVersion: world.specVersion,
    capabilities: world.capabilities,
    durability: world.durability,
    tenants: world.tenants,
    queue: guarded("queue", caller, world.queue, ["send", "sendBatch"]),
    forTenant: (tenantId) => {
      const store = world.forTenant(tenantId);
      const part = <T extends object>(name: string, of: T) =>
        guarded(name, caller, of, Object.keys(methodsOf(of)));
      return {
        tenantId,
        events: part("events", store.events),
        runs: part("runs", store.runs),
        steps: store.steps,
        waits: store.waits,
        hooks: part("hooks", store.hooks),
        snapshots: part("snapshots", store.snapshots),
        bundles: store.bundles,
        blobs: store.blobs,
        streams: store.streams,
        openEntities: (runId) => caller.make("openEntities", () => store.openEntities(runId)),
      };
    },
    close: () => world.close(),
  };
}

function methodsOf(of: object): Record<string, unknown> {
  const methods: Record<string, unknown> = {};
  for (let at: object | null = of; at !== null && at !== Object.prototype;) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name !== "constructor") methods[name] = Reflect.get(of, name);
    }
    at = Object.getPrototypeOf(at) as object | null;
  }
  return methods;
}

function guarded<T extends object>(name: string, caller: Caller, of: T, only: string[]): T {
  const guard: Record<string, unknown> = {};
  for (const [method, value] of Object.entries(methodsOf(of))) {
    if (typeof value !== "function") continue;
    guard[method] = (...args: unknown[]) => {
      const call = () => Promise.resolve(Reflect.apply(value, of, args) as unknown);
      return only.includes(method)
        ? caller.make(`${name}.${method}`, call)
        : Reflect.apply(value, of, args);
    };
  }
  return guard as T;
}
