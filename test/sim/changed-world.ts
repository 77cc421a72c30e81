/** A World some of whose parts a mutant replaces; all else is passed on. */
import type { TenantId } from "../../engine/ids.ts";
import type { Queue } from "../../engine/ports/queue.ts";
import type { Events, TenantStore, World } from "../../engine/ports/world.ts";

/** The same World with some parts of each tenant's store, or its queue, replaced. */
export function changed(
  world: World,
  change: {
    readonly store?: (store: TenantStore) => Partial<TenantStore>;
    readonly queue?: (queue: Queue) => Partial<Queue>;
  },
): World {
  const queue = world.queue;
  return {
    ...world,
    forTenant: (tenantId: TenantId) => {
      const store = world.forTenant(tenantId);
      return { ...store, ...change.store?.(store) };
    },
    queue: {
      send: (...args) => queue.send(...args),
      sendBatch: (sends) => queue.sendBatch(sends),
      consume: (...args) => queue.consume(...args),
      ...change.queue?.(queue),
    },
  };
}

export function eventsWith(events: Events, change: Partial<Events>): Events {
  return {
    create: (...args) => events.create(...args),
    createBatch: (...args) => events.createBatch(...args),
    list: (...args) => events.list(...args),
    get: (...args) => events.get(...args),
    subscribe: (...args) => events.subscribe(...args),
    ...change,
  };
}
