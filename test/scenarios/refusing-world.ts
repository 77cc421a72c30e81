/** Worlds that refuse what was right, or come in between: as a World may, or somebody else. */
import { BatonError } from "../../engine/errors.ts";
import { SPEC_VERSION } from "../../engine/events.ts";
import type { EventType, NewEvent } from "../../engine/events.ts";
import type { RunId } from "../../engine/ids.ts";
import type { CreateParams } from "../../engine/ports/world.ts";
import { changed, eventsWith } from "../sim/changed-world.ts";
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
      return changed(world, {
        store: ({ events }) => ({
          events: eventsWith(events, {
            create: (runId, event, params) =>
              refusesNow(params?.inBand === true)
                ? superseded()
                : events.create(runId, event, params),
            createBatch: (runId, batch, params) =>
              refusesNow(true) ? superseded() : events.createBatch(runId, batch, params),
          }),
        }),
      });
    },
  };
}

/**
 * Answers 409 to the `nth` in-band write, and has moved the in-band count all the same: whoever
 * counts from before is refused next.
 */
export function allocatingConflict(nth: number): Mutant {
  return {
    name: "allocates, then refuses",
    world: (world) => {
      let count = 0;
      let moved = 0;
      const shifted = <P extends CreateParams>(params: P): P =>
        params.expectedSeqInBand === undefined
          ? params
          : { ...params, expectedSeqInBand: params.expectedSeqInBand - moved };
      const conflicts = (isInBand: boolean): boolean => {
        if (!isInBand) return false;
        count++;
        if (count !== nth) return false;
        moved++;
        return true;
      };
      const conflict = () => Promise.reject(new BatonError("ENTITY_CONFLICT", "after allocation"));
      return changed(world, {
        store: ({ events }) => ({
          events: eventsWith(events, {
            create: (runId, event, params = {}) => {
              const sent = shifted(params);
              const refused = conflicts(params.inBand === true);
              return refused ? conflict() : events.create(runId, event, sent);
            },
            createBatch: (runId, batch, params) => {
              const sent = shifted(params);
              return conflicts(true) ? conflict() : events.createBatch(runId, batch, sent);
            },
            list: async (runId, params) => {
              const page = await events.list(runId, params);
              const { seq, seqInBand } = page.snapshot;
              return { ...page, snapshot: { seq, seqInBand: seqInBand + moved } };
            },
          }),
        }),
      });
    },
  };
}

/** Cancels the run right before the first in-band write of a type, as a client may at any time. */
export function cancellingWorld(before: EventType): Mutant {
  return {
    name: `cancels before ${before}`,
    world: (world) => {
      let isDone = false;
      return changed(world, {
        store: ({ events }) => {
          const cancelBefore = async (runId: RunId, types: readonly EventType[]) => {
            if (isDone || !types.includes(before)) return;
            isDone = true;
            const cancelled = { eventType: "run_cancelled", correlationId: null, eventData: {} };
            await events.create(runId, { ...cancelled, specVersion: SPEC_VERSION } as NewEvent);
          };
          return {
            events: eventsWith(events, {
              create: async (runId, event, params) => {
                await cancelBefore(runId, [event.eventType]);
                return events.create(runId, event, params);
              },
              createBatch: async (runId, batch, params) => {
                const types = batch.map(({ eventType }) => eventType);
                await cancelBefore(runId, types);
                return events.createBatch(runId, batch, params);
              },
            }),
          };
        },
      });
    },
  };
}
