/** Worlds that differ on purpose below a run that runs ahead, and one that says what was written. */
import type { NewEvent } from "../../engine/events.ts";
import type { RunId } from "../../engine/ids.ts";
import { newEvent } from "../../engine/plan.ts";
import type { CreateParams } from "../../engine/ports/world.ts";
import { changed, eventsWith } from "../sim/changed-world.ts";
import type { Mutant } from "../sim/simulator.ts";

export interface WatchedWrite {
  readonly runId: RunId;
  readonly events: readonly NewEvent[];
  readonly committedAtMs: number;
}

export interface Watching {
  /** How long an in-band write takes to reach the World. */
  readonly delayMs?: number;
  /** How much later than asked the World stores in-band events, and says so. */
  readonly shiftMs?: number;
}

/** A World and the in-band writes that it took, in order. */
export function watched({ delayMs = 0, shiftMs = 0 }: Watching): {
  readonly mutant: Mutant;
  readonly writes: WatchedWrite[];
} {
  const writes: WatchedWrite[] = [];
  const shifted = (event: NewEvent): NewEvent =>
    event.occurredAt === undefined ? event : { ...event, occurredAt: event.occurredAt + shiftMs };
  const mutant: Mutant = {
    name: "watched",
    world: (world, clock) =>
      changed(world, {
        store: ({ events }) => {
          const taken = async <T>(
            runId: RunId,
            batch: readonly NewEvent[],
            write: (batch: readonly NewEvent[]) => Promise<T>,
          ): Promise<T> => {
            if (delayMs > 0) await clock.sleep(delayMs);
            const result = await write(batch.map(shifted));
            writes.push({ runId, events: batch, committedAtMs: clock.now() });
            return result;
          };
          return {
            events: eventsWith(events, {
              create: (runId, event, params: CreateParams = {}) =>
                params.inBand === true
                  ? taken(runId, [event], ([one]) => events.create(runId, one ?? event, params))
                  : events.create(runId, event, params),
              createBatch: (runId, batch, params) =>
                taken(runId, batch, (all) => events.createBatch(runId, all, params)),
            }),
          };
        },
      }),
  };
  return { mutant, writes };
}

/** Each run is cancelled just before its `run_started` reaches the World. */
export const cancelledBeforeStart: Mutant = {
  name: "cancelled before its start",
  world: (world) =>
    changed(world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          create: async (runId, event, params) => {
            if (event.eventType === "run_started") {
              await events.create(runId, newEvent("run_cancelled", null, {}));
            }
            return events.create(runId, event, params);
          },
        }),
      }),
    }),
};

/** The start message of each run is sent, and its creation is not taken, nor answered. */
export function creationLost(): Mutant {
  return {
    name: "creation lost",
    world: (world) =>
      changed(world, {
        store: ({ events }) => ({
          events: eventsWith(events, {
            create: async (runId, event, params = {}) => {
              const { send } = params;
              if (event.eventType !== "run_created" || send === undefined) {
                return events.create(runId, event, params);
              }
              await world.queue.send(send.message, send.options ?? {});
              return new Promise(() => undefined);
            },
          }),
        }),
      }),
  };
}
