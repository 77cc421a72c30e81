/**
 * Stalls and lost heaps alone, many of them: two deliveries of one run are alive at once, and one
 * of them loads the log anew, so that the fence takes its writes again.
 */
import { expect, it } from "vitest";
import { drawsOf } from "../sim/draws.ts";
import type { Faults } from "../sim/faults.ts";
import { all, played, program, sequence, step, useStage } from "./stage.ts";

useStage();

const SEEDS = 30;

/** A stall at some writes, a lost heap at some passes, nothing else. */
function stallsAndLostHeaps(seed: string): Faults {
  const draws = drawsOf(seed);
  const met = new Map<string, number>();
  let count = 0;
  return {
    met,
    get count() {
      return count;
    },
    draw: ({ site }) => {
      const kind = site === "sandbox.pass" ? "heap lost" : "stall";
      const isMet =
        site === "sandbox.pass" || site.startsWith("runs.") || site.startsWith("queue.");
      if (!isMet || count >= 12 || !draws.chance(0.3)) return null;
      count++;
      met.set(`${kind} at ${site}`, count);
      return kind;
    },
  };
}

it("only one of two living deliveries writes the outcome of an inline step", async () => {
  const branches = [1, 2, 3].map((i) =>
    sequence(step(`a${i}`, { ms: 10_000 * i }), step(`b${i}`, { failures: 1 }), step(`c${i}`)),
  );
  const found: string[] = [];
  for (let i = 0; i < SEEDS; i++) {
    const seed = `stalls ${i}`;
    const faults = stallsAndLostHeaps(seed);
    const play = { runs: [program(all(...branches)), program(step("other"))], workers: 2, faults };
    const { violations } = await played(play, seed, false);
    found.push(...violations.map((violation) => `${seed}: ${violation}`));
  }
  expect(found).toEqual([]);
});
