/** The Worlds that this package's own tests put through the suite. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Harness } from "../../worlds/conformance/index.ts";
import { HeldClock, SeededRandom } from "../../worlds/conformance/index.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";

export const memoryHarness: Harness = {
  name: "memory",
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

export const localHarness: Harness = {
  name: "local",
  open: async () => {
    const folder = mkdtempSync(join(tmpdir(), "baton-world-"));
    const clock = new HeldClock();
    const world = await openLocalWorld({
      path: join(folder, "world.db"),
      clock,
      random: new SeededRandom(1),
    });
    // A call that goes to the thread and back: what was set off before it has come back too.
    const roundTrip = async () => {
      await world.setting("journal_mode");
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
    };
    return {
      world,
      now: () => clock.now(),
      advance: async (ms) =>
        clock.advance(ms, async () => {
          for (let i = 0; i < 4; i++) await roundTrip();
        }),
      close: async () => {
        await world.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};
