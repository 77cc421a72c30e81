/**
 * Mutants of what run-ahead stands on: who may move the run, when a write was stored, what landed
 * below it, and that a heap which was told too much is gone.
 */
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import type { RunId } from "../../engine/ids.ts";
import type { Heap, OpenResult } from "../../engine/ports/sandbox.ts";
import { eventIdOf, nextSlot } from "../../engine/slots.ts";
import type { Slot } from "../../engine/slots.ts";
import { changed, eventsWith } from "./changed-world.ts";
import type { Mutant } from "./simulator.ts";

/** Nobody knows which hooks the code waits on, so their payloads look harmless. */
export const aheadPastHook: Mutant = {
  name: "run-ahead past an awaited hook",
  parts: (parts) => ({
    ...parts,
    sandbox: {
      inspect: (...args) => parts.sandbox.inspect(...args),
      close: () => parts.sandbox.close(),
      open: async (request) => {
        const opened = await parts.sandbox.open(request);
        return opened.kind === "opened" ? { ...opened, heap: unaware(opened.heap) } : opened;
      },
    },
  }),
};

function unaware(heap: Heap): Heap {
  return {
    get consumedSlot() {
      return heap.consumedSlot;
    },
    pass: async (events) => {
      const result = await heap.pass(events);
      return result.kind === "quiet" ? { ...result, awaitedHooks: [] } : result;
    },
    snapshot: (position) => heap.snapshot(position),
    close: () => heap.close(),
  };
}

/**
 * What a roll-back goes to is the heap that it rolls back: as if an image had been taken of a heap
 * that was told what is not committed.
 */
export const speculativeKept: Mutant = {
  name: "a speculative heap snapshotted",
  parts: (parts) => {
    const kept = new Map<RunId, Heap>();
    return {
      ...parts,
      sandbox: {
        inspect: (...args) => parts.sandbox.inspect(...args),
        close: () => parts.sandbox.close(),
        open: async (request) => {
          const { runId } = request.run;
          const heap = kept.get(runId);
          kept.delete(runId);
          const opened: OpenResult =
            heap === undefined ? await parts.sandbox.open(request) : { kind: "opened", heap };
          if (opened.kind !== "opened") return opened;
          const keep = (ended: Heap) => void kept.set(runId, ended);
          return { kind: "opened", heap: keptBeyondItsEnd(opened.heap, keep) };
        },
      },
    };
  },
};

/** A heap that goes on where it stood when it was closed, whatever slots it was told until then. */
function keptBeyondItsEnd(heap: Heap, keep: (heap: Heap) => void): Heap {
  let isQuiet = true;
  return {
    get consumedSlot() {
      return heap.consumedSlot;
    },
    pass: async (events) => {
      const result = await heap.pass(events.filter(({ slot }) => slot > heap.consumedSlot));
      isQuiet = result.kind === "quiet";
      return result;
    },
    snapshot: (position) => heap.snapshot(position),
    close: () => {
      if (isQuiet) keep(heap);
      else heap.close();
    },
  };
}

/** Steps' events stand under another time than the one that their writer is told. */
export const untoldTime: Mutant = {
  name: "stored time not checked",
  parts: (parts) => ({
    ...parts,
    world: changed(parts.world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          createBatch: async (runId, batch, params) => {
            const late = batch.map((event) => shiftedBy(event, 1_000));
            const answer = await events.createBatch(runId, late, params);
            const results = answer.results.map((item, i) => {
              const { occurredAt } = batch[i] as NewEvent;
              return item.kind === "committed" && occurredAt !== undefined
                ? { ...item, event: { ...item.event, createdAt: occurredAt } }
                : item;
            });
            return { ...answer, results };
          },
        }),
      }),
    }),
  }),
};

function shiftedBy(event: NewEvent, ms: number): NewEvent {
  return event.occurredAt === undefined ? event : { ...event, occurredAt: event.occurredAt + ms };
}

/** An in-band write is answered as if what landed below it had landed above. */
export const belowUnseen: Mutant = {
  name: "what landed below not looked at",
  parts: (parts) => ({
    ...parts,
    world: changed(parts.world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          createBatch: async (runId, batch, params) => {
            const answer = await events.createBatch(runId, batch, params);
            const from = params.eventCount ?? 0;
            const results = answer.results.map((item, i) =>
              item.kind === "committed" ? { ...item, event: movedTo(item.event, from + i) } : item,
            );
            const above = from + results.length;
            return {
              ...answer,
              results,
              events: answer.events.map((event, i) => movedTo(event, above + i)),
            };
          },
        }),
      }),
    }),
  }),
};

function movedTo<T extends RunEvent>(event: T, below: number): T {
  const slot = nextSlot(below as Slot);
  return { ...event, slot, eventId: eventIdOf(slot) };
}
