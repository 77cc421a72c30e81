/** The Worlds that this package's own tests put through the suite. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Harness } from "../../worlds/conformance/index.ts";
import { HeldClock, SeededRandom } from "../../worlds/conformance/index.ts";
import { NO_FAULTS, createFaultyWorld } from "../../worlds/faulty/index.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";

export const memoryHarness: Harness = {
  name: "memory",
  isDurable: false,
  open: async () => {
    const clock = new HeldClock();
    const world = createMemoryWorld({ clock, random: new SeededRandom(1) });
    return {
      world,
      now: () => clock.now(),
      advance: async (ms) => clock.advance(ms),
      close: async () => world.close(),
    };
  },
};

/** Without faults the faulty World must not be told from the one that it wraps. */
export const faultyHarness: Harness = {
  name: "faulty(memory)",
  isDurable: false,
  open: async () => {
    const clock = new HeldClock();
    const inner = createMemoryWorld({ clock, random: new SeededRandom(1) });
    const faulty = createFaultyWorld(inner, {
      clock,
      random: new SeededRandom(2),
      profile: NO_FAULTS,
    });
    return {
      world: faulty.caller("the suite"),
      now: () => clock.now(),
      advance: async (ms) => clock.advance(ms),
      close: async () => faulty.close(),
    };
  },
};

export const localHarness: Harness = {
  name: "local",
  isDurable: true,
  open: async () => {
    const folder = mkdtempSync(join(tmpdir(), "baton-world-"));
    const clock = new HeldClock();
    let seed = 1;
    const open = async () =>
      openLocalWorld({
        path: join(folder, "world.db"),
        clock,
        random: new SeededRandom(seed++),
      });
    const first = await open();
    let world = first;
    // A call that goes to the thread and back: what was set off before it has come back too.
    const roundTrip = async () => {
      await world.setting("journal_mode").catch(() => undefined);
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
    };
    return {
      world: first,
      now: () => clock.now(),
      advance: async (ms) =>
        clock.advance(ms, async () => {
          for (let i = 0; i < 4; i++) await roundTrip();
        }),
      // Handlers that never answer are what is left of a process that died.
      crash: async () => {
        await world.close();
        world = await open();
        return world;
      },
      close: async () => {
        await world.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};
