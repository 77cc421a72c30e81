/** A World whose queue is lost once, as with a restart of a process that held it in memory. */
import { SPEC_VERSION } from "../../engine/events.ts";
import { ulid } from "../../engine/ids.ts";
import type { RunRef } from "../../engine/ids.ts";
import type {
  DeliveryMeta,
  DeliveryResult,
  Message,
  SendOptions,
} from "../../engine/ports/queue.ts";
import type { Mutant } from "../sim/simulator.ts";

const RECOVERY_MS = 1_000;

/** Every message sent within `afterMs` is gone then; a second later each run gets a recovery. */
export function losingQueue(afterMs: number): Mutant {
  return {
    name: "loses its queue",
    world: (world, clock) => {
      const lostAtMs = clock.now() + afterMs;
      const cutoff = `msg_${ulid(lostAtMs, new Uint8Array(10))}`;
      const runs = new Map<string, RunRef>();
      clock.setTimer(afterMs + RECOVERY_MS, () => {
        for (const run of runs.values()) {
          const recovery = { kind: "orchestrator", reason: "recovery", recovery: true } as const;
          void world.queue.send({ ...recovery, ...run, specVersion: SPEC_VERSION });
        }
      });
      const unlessLost =
        <M extends Message>(handle: (message: M, meta: DeliveryMeta) => Promise<DeliveryResult>) =>
        (message: M, meta: DeliveryMeta): Promise<DeliveryResult> => {
          const { tenantId, runId } = message;
          runs.set(runId, { tenantId, runId });
          const isLost = clock.now() >= lostAtMs && meta.messageId < cutoff;
          return isLost ? Promise.resolve({ kind: "ack" }) : handle(message, meta);
        };
      const { queue } = world;
      // Keys were lost with their messages, which here only wait to be dropped.
      const renamed = (options: SendOptions): SendOptions => {
        if (options.idempotencyKey === undefined || clock.now() < lostAtMs) return options;
        return { ...options, idempotencyKey: `${options.idempotencyKey}/again` };
      };
      return {
        ...world,
        queue: {
          send: (message, options = {}) => queue.send(message, renamed(options)),
          sendBatch: (sends) =>
            queue.sendBatch(
              sends.map(({ message, options = {} }) => ({ message, options: renamed(options) })),
            ),
          consume: (handlers, options) =>
            queue.consume(
              {
                orchestrator: unlessLost((message, meta) => handlers.orchestrator(message, meta)),
                step: unlessLost((message, meta) => handlers.step(message, meta)),
              },
              options,
            ),
        },
      };
    },
  };
}
