/**
 * Mutants: one guarantee taken out each, by changing the parts that an engine is composed of.
 *
 * The engine's own code is as it ships; what is wrong is what it stands on. A simulation that does
 * not find each of them would not find the same mistake in the engine either.
 */
import type { EngineParts } from "../../engine/parts.ts";
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import { eventIdOf, nextSlot } from "../../engine/slots.ts";
import type { Slot } from "../../engine/slots.ts";
import type { RunId } from "../../engine/ids.ts";
import type { Message, Queue, Send, SendResult } from "../../engine/ports/queue.ts";
import type { CreateParams } from "../../engine/ports/world.ts";
import { aheadPastHook, belowUnseen, speculativeKept, untoldTime } from "./ahead-mutants.ts";
import { changed, eventsWith } from "./changed-world.ts";
import { echoAsNews, gapPassedOn } from "./feed-mutants.ts";
import type { Mutant } from "./simulator.ts";

/** Every in-band write is taken, whatever it was decided from. */
const noFence: Mutant = {
  name: "no fence",
  world: (world) =>
    changed(world, {
      store: ({ events }) => {
        const unfenced = async (runId: RunId, params: CreateParams): Promise<CreateParams> => {
          if (params.inBand !== true) return params;
          const { snapshot } = await events.list(runId, { limit: 1 });
          return { ...params, expectedSeqInBand: snapshot.seqInBand };
        };
        return {
          events: eventsWith(events, {
            create: async (runId, event, params = {}) =>
              events.create(runId, event, await unfenced(runId, params)),
            createBatch: async (runId, batch, params) =>
              events.createBatch(runId, batch, await unfenced(runId, params)),
          }),
        };
      },
    }),
};

/** The outcome of an inline step is answered as committed before it is. */
const consumeBeforeCommit: Mutant = {
  name: "consume before commit",
  parts: (parts) => ({
    ...parts,
    world: changed(parts.world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          create: (runId, event, params = {}) => {
            const isOutcome = ["step_completed", "step_failed"].includes(event.eventType);
            if (params.inBand !== true || !isOutcome) return events.create(runId, event, params);
            // Whether it is ever taken, nobody waits to hear.
            events.create(runId, event, params).catch(() => undefined);
            const predicted = predictedEvent(runId, event, params, parts);
            return Promise.resolve({ event: predicted, allocated: 1, events: [], hasMore: false });
          },
        }),
      }),
    }),
  }),
};

function predictedEvent(
  runId: RunId,
  event: NewEvent,
  { eventCount = 0 }: CreateParams,
  parts: EngineParts,
): RunEvent {
  const slot = nextSlot(eventCount as Slot);
  const createdAt = event.occurredAt ?? parts.clock.now();
  const digest = "0".repeat(64);
  return { ...event, runId, slot, eventId: eventIdOf(slot), createdAt, digest };
}

/** After a refusal by the fence, that process's next messages of steps go nowhere. */
const noOwedSends: Mutant = {
  name: "no owed sends on refusal",
  parts: (parts) => {
    const refused = new Set<string>();
    const watched = async <T>(runId: RunId, write: Promise<T>): Promise<T> => {
      try {
        return await write;
      } catch (error) {
        if ((error as { code?: string }).code === "IN_BAND_SUPERSEDED") refused.add(runId);
        throw error;
      }
    };
    return {
      ...parts,
      world: changed(parts.world, {
        store: ({ events }) => ({
          events: eventsWith(events, {
            create: (runId, event, params) => watched(runId, events.create(runId, event, params)),
            createBatch: (runId, batch, params) =>
              watched(runId, events.createBatch(runId, batch, params)),
            list: (runId, params) => {
              // The next delivery of the run begins with a load.
              refused.delete(runId);
              return events.list(runId, params);
            },
          }),
        }),
        queue: (queue) =>
          dropping(queue, ({ message }) => message.kind === "step" && refused.has(message.runId)),
      }),
    };
  },
};

/** What the re-send rule sends goes nowhere. */
const noResendRule: Mutant = {
  name: "no re-send rule",
  parts: (parts) => ({
    ...parts,
    world: changed(parts.world, {
      queue: (queue) => dropping(queue, ({ message }) => isResent(message)),
    }),
  }),
};

function isResent(message: Message): boolean {
  return message.kind === "step" && message.stepResent === true;
}

/** Timers go out only after the next write of their run, not before it. */
const timerAfterCompletion: Mutant = {
  name: "timer after completion",
  parts: (parts) => {
    const held = new Map<string, Send[]>();
    const { queue } = parts.world;
    const release = (runId: RunId) => {
      const sends = held.get(runId) ?? [];
      held.delete(runId);
      if (sends.length > 0) queue.sendBatch(sends).catch(() => undefined);
    };
    const hold = (send: Send): boolean => {
      const { message } = send;
      if (message.kind !== "orchestrator" || message.waitContinuation === undefined) return false;
      held.set(message.runId, [...(held.get(message.runId) ?? []), send]);
      return true;
    };
    return {
      ...parts,
      world: changed(parts.world, {
        store: ({ events }) => ({
          events: eventsWith(events, {
            createBatch: async (runId, batch, params) => {
              const result = await events.createBatch(runId, batch, params);
              release(runId);
              return result;
            },
            create: async (runId, event, params) => {
              const result = await events.create(runId, event, params);
              release(runId);
              return result;
            },
          }),
        }),
        queue: (of) => dropping(of, hold),
      }),
    };
  },
};

/** A queue that says yes to some sends and keeps nothing of them. */
function dropping(queue: Queue, isDropped: (send: Send) => boolean): Partial<Queue> {
  const nothing = {
    messageId: "msg_00000000000000000000000000",
    deduplicated: false,
  } as SendResult;
  return {
    send: (message, options) => {
      const send: Send = options === undefined ? { message } : { message, options };
      return isDropped(send) ? Promise.resolve(nothing) : queue.send(message, options);
    },
    sendBatch: async (sends) => {
      const kept = sends.filter((send) => !isDropped(send));
      const results = kept.length === 0 ? [] : await queue.sendBatch(kept);
      return sends.map((send) => results[kept.indexOf(send)] ?? nothing);
    },
  };
}

/** The last outcome of a step counts, not the first: what comes after its end is live. */
const liveAfterTerminal: Mutant = {
  name: "live-after-terminal",
  world: (world) =>
    changed(world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          list: async (runId, params) => {
            const page = await events.list(runId, params);
            const all = await events.list(runId, { limit: 1_000 });
            return { ...page, events: page.events.map((event) => latest(event, all.events)) };
          },
        }),
      }),
    }),
};

function latest(event: RunEvent, all: readonly RunEvent[]): RunEvent {
  if (event.eventType !== "step_completed" && event.eventType !== "step_failed") return event;
  const last = all.findLast(
    ({ correlationId, eventType }) =>
      correlationId === event.correlationId && eventType === event.eventType,
  );
  return last === undefined ? event : ({ ...event, eventData: last.eventData } as RunEvent);
}

/** A body that must run at most once is granted a second attempt. */
const noAtMostOnce: Mutant = {
  name: "no at-most-once check",
  parts: (parts) => ({
    ...parts,
    steps: {
      run: (attempt) => parts.steps.run(attempt),
      traitsOf: async (run, deploymentId, stepName) => {
        const traits = await parts.steps.traitsOf(run, deploymentId, stepName);
        return traits?.maxRetries === 0 ? { maxRetries: 1 } : traits;
      },
    },
  }),
};

/** Any snapshot fits that has the right slot: neither its digest nor its run is compared. */
const snapshotBySlot: Mutant = {
  name: "snapshot matched by slot without digest",
  parts: (parts) => {
    const digests = new Map<string, string>();
    return {
      ...parts,
      tenants: {
        ...parts.tenants,
        sealSnapshot: (_run, plain) => Promise.resolve(plain),
        openSnapshot: (_run, sealed) => Promise.resolve(sealed),
      },
      world: changed(parts.world, {
        store: ({ events, snapshots }) => ({
          snapshots: {
            put: (runId, snapshot) => snapshots.put(runId, snapshot),
            delete: (runId) => snapshots.delete(runId),
            list: (params) => snapshots.list(params),
            get: async (runId) => {
              const snapshot = await snapshots.get(runId);
              if (snapshot !== null) digests.set(runId, snapshot.digest);
              return snapshot;
            },
          },
          events: eventsWith(events, {
            list: async (runId, params) => {
              const page = await events.list(runId, params);
              const digest = digests.get(runId);
              const isAbove = (params?.afterSlot ?? 0) > 0 && page.digestBefore !== null;
              return digest !== undefined && isAbove ? { ...page, digestBefore: digest } : page;
            },
          }),
        }),
      }),
    };
  },
};

/** How long a message is in the queue before the event that it is about is in the log. */
const MESSAGE_LEAD_MS = 400;

/** The message of an out-of-band append goes out first, and its event follows when it may. */
const messageWithoutEvent: Mutant = {
  name: "message without its event",
  world: (world, clock) =>
    changed(world, {
      store: ({ events }) => ({
        events: eventsWith(events, {
          create: async (runId, event, params = {}) => {
            const { send, ...rest } = params;
            if (send === undefined || event.eventType === "run_created") {
              return events.create(runId, event, params);
            }
            await world.queue.send(send.message, send.options);
            await clock.sleep(MESSAGE_LEAD_MS);
            return events.create(runId, event, rest);
          },
        }),
      }),
    }),
};

export const MUTANTS: readonly Mutant[] = [
  noFence,
  consumeBeforeCommit,
  noOwedSends,
  noResendRule,
  timerAfterCompletion,
  liveAfterTerminal,
  noAtMostOnce,
  snapshotBySlot,
  messageWithoutEvent,
  aheadPastHook,
  speculativeKept,
  untoldTime,
  belowUnseen,
  gapPassedOn,
  echoAsNews,
];
