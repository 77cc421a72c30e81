/** A World of which a test has taken over some calls on events. */
import type { Events, World } from "../../engine/ports/world.ts";

export function withEvents(change: (events: Events) => Partial<Events>): (world: World) => World {
  return (world) => ({
    ...world,
    forTenant: (tenantId) => {
      const store = world.forTenant(tenantId);
      return { ...store, events: { ...store.events, ...change(store.events) } };
    },
  });
}
