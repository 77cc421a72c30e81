/** A World whose fence refuses writes that were right: it sealed their position, or says so. */
import { BatonError } from "../../engine/errors.ts";
import type { Mutant } from "../sim/simulator.ts";

/** Answers 412 to the `nths` in-band writes (from 1), or to all of them. */
export function refusingWorld(nths: readonly number[] | "all"): Mutant {
  return {
    name: "refuses in-band writes",
    world: (world) => {
      let count = 0;
      const refusesNow = (isInBand: boolean) => {
        if (!isInBand) return false;
        count++;
        return nths === "all" || nths.includes(count);
      };
      const superseded = () =>
        Promise.reject(new BatonError("IN_BAND_SUPERSEDED", "the World sealed the position"));
      return {
        ...world,
        forTenant: (tenantId) => {
          const store = world.forTenant(tenantId);
          const { events } = store;
          return {
            ...store,
            events: {
              create: (runId, event, params) =>
                refusesNow(params?.inBand === true)
                  ? superseded()
                  : events.create(runId, event, params),
              createBatch: (runId, batch, params) =>
                refusesNow(true) ? superseded() : events.createBatch(runId, batch, params),
              list: (runId, params) => events.list(runId, params),
              get: (runId, slot) => events.get(runId, slot),
              subscribe: (...args) => events.subscribe(...args),
            },
          };
        },
      };
    },
  };
}
