/**
 * The World as clients' feeds see it: each subscription of a client carries its tenant's caps. The
 * World counts and refuses (`RUN_FEED_LIMIT`); the engine's own feeds have no caps.
 */
import type { TenantId } from "../engine/ids.ts";
import type { FeedCaps, World } from "../engine/ports/world.ts";

export function limitFeeds(world: World, capsOf: (tenantId: TenantId) => Promise<FeedCaps>): World {
  return {
    ...world,
    forTenant: (tenantId) => {
      const store = world.forTenant(tenantId);
      const { events } = store;
      return {
        ...store,
        events: {
          ...events,
          subscribe: async (runId, afterSlot, onEvent, options) => {
            const isClient = options.isClient === true;
            const capped = isClient ? { ...options, caps: await capsOf(tenantId) } : options;
            return events.subscribe(runId, afterSlot, onEvent, capped);
          },
        },
      };
    },
  };
}
