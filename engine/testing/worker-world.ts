/**
 * The World as one worker of a test reaches it: counted, through the doors of its runs, and until
 * the worker dies.
 *
 * Owns what a death leaves behind: each delivery in flight goes back to the queue at once, counted,
 * as a queue does that finds a consumer gone.
 */
import type { RunEvent } from "../events.ts";
import type { DeliveryResult, QueueHandlers } from "../ports/queue.ts";
import type { CreateParams, Events, World } from "../ports/world.ts";
import type { Door } from "./door.ts";
import { neverAnswered } from "./life.ts";
import type { Life } from "./life.ts";

/** Calls of the World: while there are none, nothing happens by itself. */
export interface Traffic {
  calls: number;
}

export interface WorkerWorldParts {
  readonly life: Life;
  readonly door: Door;
  readonly traffic: Traffic;
}

const GONE: DeliveryResult = { kind: "redeliver", afterMs: 0, counted: true };

export function worldOfWorker(inner: World, parts: WorkerWorldParts): World {
  const { queue } = inner;
  return overriding(guarded(inner, parts), {
    forTenant: (tenantId) => {
      const store = inner.forTenant(tenantId);
      const events = eventsThrough(guarded(store.events, parts), parts);
      return overriding(guarded(store, parts), { events });
    },
    queue: overriding(guarded(queue, parts), {
      consume: (handlers, options) => {
        const consumer = queue.consume(handlersThrough(handlers, parts), options);
        parts.life.onEnd(() => void consumer.stop());
        return consumer;
      },
    }),
    // The World outlives its workers.
    close: async () => undefined,
  });
}

/** The same object, but for these parts of it. */
export function overriding<T extends object>(of: T, parts: Partial<T>): T {
  return new Proxy(of, {
    get: (target, key) => Reflect.get(Object.hasOwn(parts, key) ? parts : target, key) as unknown,
  });
}

/** The same object, with each call of its methods and of its parts' methods counted. */
function guarded<T extends object>(of: T, parts: WorkerWorldParts): T {
  return new Proxy(of, {
    get: (target, key) => {
      const member: unknown = Reflect.get(target, key);
      if (typeof member === "object" && member !== null) return guarded(member, parts);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        if (parts.life.isOver) return neverAnswered();
        const answer: unknown = Reflect.apply(member, target, args);
        return answer instanceof Promise ? answered(parts, answer) : answer;
      };
    },
  });
}

async function answered({ life, traffic }: WorkerWorldParts, call: Promise<unknown>) {
  traffic.calls += 1;
  try {
    return await call;
  } finally {
    traffic.calls += 1;
    if (life.isOver) await neverAnswered();
  }
}

function handlersThrough(handlers: QueueHandlers, parts: WorkerWorldParts): QueueHandlers {
  const untilDeath = async (handle: () => Promise<DeliveryResult>): Promise<DeliveryResult> => {
    if (parts.life.isOver) return GONE;
    return new Promise((resolve, reject) => {
      const forget = parts.life.onEnd(() => {
        resolve(GONE);
      });
      void handle().finally(forget).then(resolve, reject);
    });
  };
  return {
    orchestrator: (message, meta) =>
      untilDeath(async () => {
        await entered(message.runId, parts);
        return handlers.orchestrator(message, meta);
      }),
    step: (message, meta) => untilDeath(() => handlers.step(message, meta)),
  };
}

async function entered(runId: string, { door, life }: WorkerWorldParts): Promise<void> {
  await door.pass(runId);
  if (life.isOver) await neverAnswered();
}

/** Reads and writes of orchestrators wait at the door; those of others are only noted. */
function eventsThrough(events: Events, parts: WorkerWorldParts): Events {
  const { door, life } = parts;
  const written = async <T>(
    runId: string,
    params: CreateParams | undefined,
    write: { readonly call: () => Promise<T>; readonly eventsOf: (answer: T) => RunEvent[] },
  ): Promise<T> => {
    const isInBand = params?.inBand === true;
    if (isInBand) await entered(runId, parts);
    const answer = await write.call();
    door.committed(runId, write.eventsOf(answer));
    if (isInBand) await entered(runId, parts);
    return answer;
  };
  return overriding(events, {
    create: (runId, event, params) =>
      written(runId, params, {
        call: () => events.create(runId, event, params),
        eventsOf: (answer) => [answer.event],
      }),
    createBatch: (runId, items, params) =>
      written(runId, params, {
        call: () => events.createBatch(runId, items, params),
        eventsOf: ({ results }) =>
          results.flatMap((item) => (item.kind === "committed" ? [item.event] : [])),
      }),
    list: async (runId, params) => {
      // An entity's own events are what a step's delivery reads.
      if (params?.correlationId === undefined) await entered(runId, parts);
      return events.list(runId, params);
    },
    subscribe: (runId, afterSlot, onEvent, options) =>
      events.subscribe(
        runId,
        afterSlot,
        (event) => {
          door.tell(runId, () => {
            if (!life.isOver) onEvent(event);
          });
        },
        options,
      ),
  });
}
