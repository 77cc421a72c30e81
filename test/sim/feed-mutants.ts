/**
 * Mutants of the live feed: it numbers what it pushes by its own count instead of by slot, so that
 * the engine can tell neither a gap nor an echo of its own writes.
 */
import type { RunEvent } from "../../engine/events.ts";
import { SLOT_NONE, eventIdOf, nextSlot } from "../../engine/slots.ts";
import type { Slot } from "../../engine/slots.ts";
import type { Events } from "../../engine/ports/world.ts";
import { changed, eventsWith } from "./changed-world.ts";
import type { Mutant } from "./simulator.ts";

const at = (event: RunEvent, slot: Slot): RunEvent => ({
  ...event,
  slot,
  eventId: eventIdOf(slot),
});

/** What follows a push that got lost comes in its place. */
export const gapPassedOn: Mutant = {
  name: "a feed gap passed on",
  parts: (parts) => ({
    ...parts,
    world: changed(parts.world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          subscribe: (runId, afterSlot, onEvent, options) => {
            let last = afterSlot;
            const count = (event: RunEvent) => {
              if (event.slot <= last) return;
              last = nextSlot(last);
              onEvent(at(event, last));
            };
            return events.subscribe(runId, afterSlot, count, options);
          },
        }),
      }),
    }),
  }),
};

/** What the process itself wrote comes back as if somebody else had written it once more. */
export const echoAsNews: Mutant = {
  name: "an echo counted as a new pass",
  parts: (parts) => {
    const tops = new Map<string, Slot>();
    const note = (runId: string, events: readonly RunEvent[]) => {
      const slots = [tops.get(runId) ?? SLOT_NONE, ...events.map(({ slot }) => slot)];
      tops.set(runId, Math.max(...slots) as Slot);
    };
    return {
      ...parts,
      world: changed(parts.world, {
        store: ({ events }) => ({ events: eventsWith(events, echoing(events, tops, note)) }),
      }),
    };
  },
};

function echoing(
  events: Events,
  tops: ReadonlyMap<string, Slot>,
  note: (runId: string, events: readonly RunEvent[]) => void,
): Partial<Events> {
  return {
    create: async (runId, event, params) => {
      const result = await events.create(runId, event, params);
      note(runId, [result.event]);
      return result;
    },
    createBatch: async (runId, batch, params) => {
      const result = await events.createBatch(runId, batch, params);
      note(
        runId,
        result.results.flatMap((item) => (item.kind === "committed" ? [item.event] : [])),
      );
      return result;
    },
    subscribe: (runId, afterSlot, onEvent, options) => {
      const echo = (event: RunEvent) => {
        const top = tops.get(runId) ?? SLOT_NONE;
        onEvent(event.slot <= top ? at(event, nextSlot(top)) : event);
      };
      return events.subscribe(runId, afterSlot, echo, options);
    },
  };
}
