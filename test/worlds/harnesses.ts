/** The Worlds that this package's own tests put through the suite. */
import type { Harness } from "../../worlds/conformance/index.ts";
import { HeldClock, SeededRandom } from "../../worlds/conformance/index.ts";
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
