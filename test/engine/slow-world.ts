/** A World whose in-band writes take their time, or wait until a test lets them through. */
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import type { RunId } from "../../engine/ids.ts";
import type { CreateParams, Events, World } from "../../engine/ports/world.ts";
import type { HeldClock } from "../../worlds/conformance/index.ts";
import { withEvents } from "./with-events.ts";

export interface SlowWorld {
  readonly wrap: (world: World) => World;
  /** The in-band writes, in the order they were sent: the types of their events. */
  readonly writes: string[][];
  /** Writes that wait; each is let through by its own call. */
  readonly held: (() => void)[];
  /** From now on writes wait to be let through. */
  hold(): void;
  /** Lets through what waits, and what comes. */
  release(): void;
}

export interface SlowOptions {
  readonly writeMs?: number;
  readonly clock?: () => HeldClock;
  /** Done to the World before a write reaches it. */
  readonly before?: (write: number, events: Events, runId: RunId) => Promise<void>;
  /** What is sent in place of the events, and in place of the params. */
  readonly change?: (
    events: readonly NewEvent[],
    params: CreateParams,
  ) => { readonly events: readonly NewEvent[]; readonly params: CreateParams };
}

export function slowWorld(options: SlowOptions = {}): SlowWorld {
  const writes: string[][] = [];
  const held: (() => void)[] = [];
  let isHolding = false;
  const pause = async (): Promise<void> => {
    const { writeMs = 0, clock } = options;
    if (isHolding) await new Promise<void>((resolve) => held.push(resolve));
    if (clock !== undefined && writeMs > 0) {
      await new Promise<void>((resolve) => void clock().setTimer(writeMs, resolve));
    }
  };
  const sent = async (
    events: readonly NewEvent[],
    params: CreateParams,
    to: { readonly store: Events; readonly runId: RunId },
  ) => {
    writes.push(events.map(({ eventType }) => eventType));
    const write = writes.length;
    await pause();
    await options.before?.(write, to.store, to.runId);
    return options.change?.(events, params) ?? { events, params };
  };
  const wrap = withEvents((store) => ({
    create: async (runId, event, params = {}) => {
      if (params.inBand !== true) return store.create(runId, event, params);
      const changed = await sent([event], params, { store, runId });
      return store.create(runId, changed.events[0] as NewEvent, changed.params);
    },
    createBatch: async (runId, events, params) => {
      const changed = await sent(events, params, { store, runId });
      return store.createBatch(runId, changed.events, changed.params);
    },
  }));
  return {
    wrap,
    writes,
    held,
    hold: () => (isHolding = true),
    release: () => {
      isHolding = false;
      for (const go of held.splice(0)) go();
    },
  };
}

/** What of a log must not depend on what ran ahead: all but times. */
export function pathOf(log: readonly RunEvent[]): readonly string[] {
  return log.map(({ eventType, correlationId }) => `${eventType} ${correlationId ?? ""}`);
}
