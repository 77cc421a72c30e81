/**
 * The faulty World: wraps any other and lets happen, from a seed, what happens in production.
 *
 * Owns the faults and their count. Keeps the contract: every fault is one that the contract allows
 * (an unknown outcome, a redelivery, a short report, a feed that ended), so whatever breaks over it
 * would have broken in production.
 */
import { BatonError } from "../../engine/errors.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type { Events, SubscribeOptions, TenantStore, World } from "../../engine/ports/world.ts";
import type { SeededRandom } from "../seeded-random.ts";
import type { CrashPoint } from "./caller.ts";
import { Caller } from "./caller.ts";
import { consumeFaulty } from "./deliveries.ts";
import type { FaultProfile } from "./dice.ts";
import { Dice } from "./dice.ts";

export { CallerCrashed } from "./caller.ts";
export type { CrashPoint } from "./caller.ts";
export type { Fault, FaultProfile } from "./dice.ts";
export { NO_FAULTS } from "./dice.ts";

export interface FaultyOptions {
  readonly random: SeededRandom;
  readonly profile: FaultProfile;
  readonly clock: Clock;
}

/** A World as one caller sees it. */
export interface CallerWorld extends World {
  readonly calls: number;
  readonly isDead: boolean;
}

export interface FaultyWorld {
  /** A World for one worker or client; with `crashAt` it dies there, whatever the profile says. */
  caller(name: string, crashAt?: CrashPoint): CallerWorld;
  /** No more faults: what is left must come to its end. */
  calm(): void;
  /** `fault @ site` → how often. */
  readonly happened: ReadonlyMap<string, number>;
  close(): Promise<void>;
}

export function createFaultyWorld(inner: World, options: FaultyOptions): FaultyWorld {
  const dice = new Dice(options.random, options.profile);
  const heldBack = new Set<() => void>();
  return {
    caller: (name, crashAt) => {
      const caller = new Caller(name, dice, crashAt ?? null);
      return callerWorld(inner, { dice, caller, clock: options.clock, heldBack });
    },
    calm: () => {
      dice.calm();
    },
    get happened() {
      return dice.happened;
    },
    close: async () => inner.close(),
  };
}

interface Parts {
  readonly dice: Dice;
  readonly caller: Caller;
  readonly clock: Clock;
  readonly heldBack: Set<() => void>;
}

function callerWorld(inner: World, parts: Parts): CallerWorld {
  const { caller } = parts;
  return {
    name: `faulty(${inner.name})`,
    specVersion: inner.specVersion,
    capabilities: inner.capabilities,
    durability: inner.durability,
    forTenant: (tenantId) => faultyStore(inner.forTenant(tenantId), parts),
    queue: {
      ...faultyCalls(inner.queue, "queue", parts),
      consume: (handlers, options) => {
        caller.requireAlive();
        return consumeFaulty({ ...parts, queue: inner.queue }, handlers, options);
      },
    },
    tenants: faultyCalls(inner.tenants, "tenants", parts),
    close: async () => inner.close(),
    get calls() {
      return caller.calls;
    },
    get isDead() {
      return caller.isDead;
    },
  };
}

function faultyStore(inner: TenantStore, parts: Parts): TenantStore {
  const { dice } = parts;
  const snapshots = faultyCalls(inner.snapshots, "snapshots", parts);
  return {
    tenantId: inner.tenantId,
    events: faultyEvents(inner.events, parts),
    runs: faultyCalls(inner.runs, "runs", parts),
    steps: faultyCalls(inner.steps, "steps", parts),
    waits: faultyCalls(inner.waits, "waits", parts),
    hooks: faultyCalls(inner.hooks, "hooks", parts),
    snapshots: {
      ...snapshots,
      put: async (runId, snapshot) => {
        if (!dice.strikes("loseSnapshot", "snapshots.put")) await snapshots.put(runId, snapshot);
      },
      get: async (runId) => {
        if (dice.strikes("loseSnapshot", "snapshots.get")) return null;
        return snapshots.get(runId);
      },
    },
    bundles: faultyCalls(inner.bundles, "bundles", parts),
    blobs: faultyCalls(inner.blobs, "blobs", parts),
    streams: faultyCalls(inner.streams, "streams", parts),
    openEntities: async (runId) =>
      called(parts, "openEntities", async () => inner.openEntities(runId)),
  };
}

function faultyEvents(inner: Events, parts: Parts): Events {
  const { dice, caller } = parts;
  const calls = faultyCalls(inner, "events", parts);
  return {
    ...calls,
    create: async (runId, event, params) =>
      shortened(dice, "events.create", await calls.create(runId, event, params)),
    createBatch: async (runId, events, params) =>
      shortened(dice, "events.createBatch", await calls.createBatch(runId, events, params)),
    subscribe: async (runId, afterSlot, onEvent, options) => {
      const site = "events.subscribe";
      const isSilent = dice.strikes("silenceFeed", site);
      const fails = dice.strikes("failFeed", site);
      // A feed that goes bad does so at once or after its first few events.
      let left = isSilent || fails ? dice.upTo(3) : Number.POSITIVE_INFINITY;
      const give = (event: Parameters<typeof onEvent>[0]) => {
        if (caller.isDead) return;
        if (left-- > 0) onEvent(event);
        else if (fails && left === -1) {
          options.onError(new BatonError("WORLD_UNAVAILABLE", "the feed was cut"));
        }
      };
      return calls.subscribe(
        runId,
        afterSlot,
        give,
        heard(options, () => left > 0 && !caller.isDead),
      );
    },
  };
}

/** A silent feed sends no heartbeat either. */
function heard(options: SubscribeOptions, isHeard: () => boolean): SubscribeOptions {
  const { onHeartbeat, onError, ...rest } = options;
  return {
    ...rest,
    onError: (error) => {
      if (isHeard()) onError(error);
    },
    ...(onHeartbeat === undefined
      ? {}
      : {
          onHeartbeat: (topSlot) => {
            if (isHeard()) onHeartbeat(topSlot);
          },
        }),
  };
}

function shortened<T extends { readonly events: readonly unknown[] }>(
  dice: Dice,
  site: string,
  result: T,
): T {
  if (result.events.length === 0 || !dice.strikes("shortenReport", site)) return result;
  const kept = dice.upTo(result.events.length - 1);
  return { ...result, events: result.events.slice(0, kept), hasMore: true };
}

/** Every method of an object, each call with the chance of its faults. */
function faultyCalls<T extends object>(inner: T, name: string, parts: Parts): T {
  const wrapped: Record<string, unknown> = {};
  for (const [method, run] of Object.entries(inner)) {
    if (typeof run !== "function") continue;
    wrapped[method] = async (...args: unknown[]) =>
      called(parts, `${name}.${method}`, async () => Reflect.apply(run, inner, args));
  }
  return wrapped as T;
}

async function called<T>(
  { dice, caller }: Parts,
  site: string,
  call: () => Promise<T>,
): Promise<T> {
  return caller.through(site, async () => {
    if (dice.strikes("loseCall", site)) throw unanswered(site);
    const value = await call();
    if (dice.strikes("loseAnswer", site)) throw unanswered(site);
    return value;
  });
}

/** The caller cannot tell whether the call was carried out. */
function unanswered(site: string): BatonError {
  return new BatonError("WORLD_UNAVAILABLE", `${site} was not answered`, { field: site });
}
