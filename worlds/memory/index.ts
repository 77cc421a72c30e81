/**
 * The memory World: the reference. Deterministic: time and randomness are arguments, and every call
 * takes effect at once, in the order of the calls.
 *
 * Owns nothing that outlives the process; says so with durability `none`.
 */
import { BatonError } from "../../engine/errors.ts";
import type { Clock, Log, Random } from "../../engine/ports/host.ts";
import type { World } from "../../engine/ports/world.ts";
import type { Core } from "../core.ts";
import { worldOver } from "../face.ts";
import { messageIdsFrom } from "../message-ids.ts";
import type { Effects } from "../ledger.ts";
import { carryOut, ledgerOver } from "../ledger.ts";
import { silentLog, systemClock, systemRandom } from "../platform.ts";
import { memoryTables } from "./memory-tables.ts";

/** Time and chance of a memory World; the system's by default. */
export interface MemoryWorldOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  readonly log?: Log;
}

/** An empty World that is gone with the process. */
export function createMemoryWorld(options: MemoryWorldOptions = {}): World {
  const clock = options.clock ?? systemClock;
  const random = options.random ?? systemRandom;
  return worldOver({
    name: "memory",
    core: memoryCore(clock, random),
    clock,
    random,
    log: options.log ?? silentLog,
    durability: "none",
    isReadOnly: false,
  });
}

function memoryCore(clock: Clock, random: Random): Core {
  const handle = ledgerOver(memoryTables(), messageIdsFrom(random));
  let onEffects: (effects: Effects) => void = () => undefined;
  let isClosed = false;
  const settle = () => {
    const { deliveries, nextDueAt } = handle.flush(clock.now());
    handle.committed();
    // Handlers own what they get: a changed message must not change the queue's.
    onEffects({
      deliveries: structuredClone(deliveries),
      nextDueAt,
      appended: handle.takeAppended(),
    });
  };
  return {
    call: async (part, method, ...args) => {
      if (isClosed) throw new BatonError("CLOSED", "the World was closed");
      const result = carryOut(handle.ledger, { part, method: String(method), args });
      settle();
      return result as never;
    },
    listen: (listener) => {
      onEffects = listener;
    },
    poke: () => {
      if (!isClosed) settle();
    },
    scrub: async () => undefined,
    close: async () => {
      isClosed = true;
    },
  };
}
