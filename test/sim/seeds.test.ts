/**
 * Schedules that run with every test run. What once failed is a scenario of its own
 * (`test/scenarios/`): a seed means another schedule as soon as anything drawn before it changes.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildSources } from "./bundle.ts";
import { MUTANTS } from "./mutants.ts";
import { judged, openParts } from "./schedules.ts";
import type { OpenParts } from "./schedules.ts";

const BATCHES = 20;
const BATCH_SEEDS = 50;
/** Apart from those of `npm run sim`, so that both together see more. */
const FIRST_SEED = 1_000_000;

let parts: OpenParts;

beforeAll(async () => {
  parts = openParts(await buildSources(), null);
});

afterAll(async () => {
  await parts.close();
});

async function violationsOf(seeds: readonly (string | number)[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const seed of seeds) {
    const { violations } = await judged(String(seed), parts);
    found.push(...violations.map((violation) => `npm run sim -- --seed ${seed}: ${violation}`));
  }
  return found;
}

describe("a thousand schedules keep every rule of the oracle", () => {
  it.each(Array.from({ length: BATCHES }, (_, i) => FIRST_SEED + i * BATCH_SEEDS))(
    `${BATCH_SEEDS} from %i`,
    async (first) => {
      const seeds = Array.from({ length: BATCH_SEEDS }, (_, i) => first + i);
      expect(await violationsOf(seeds)).toEqual([]);
    },
  );
});

describe("schedules that once broke a rule", () => {
  // An outcome that ran ahead for a step which another delivery had ended.
  it.each([3372])("seed %i keeps every rule now", async (seed) => {
    expect(await violationsOf([seed])).toEqual([]);
  });
});

describe("a schedule is a function of its seed", () => {
  it("two runs of one seed print the same timeline", async () => {
    const lines: string[][] = [[], []];
    for (const timeline of lines) await judged("4711", parts, (line) => timeline.push(line));
    expect(lines[0]?.length).toBeGreaterThan(20);
    expect(lines[0]).toEqual(lines[1]);
  });
});

describe("the oracle sees what it is there for", () => {
  it.each(["no fence", "timer after completion", "no at-most-once check"])(
    "%s is found within 200 schedules",
    async (name) => {
      const mutant = MUTANTS.find((each) => each.name === name) ?? null;
      let isFound = false;
      for (let seed = 1; seed <= 200 && !isFound; seed++) {
        const { violations } = await judged(String(seed), { ...parts, mutant });
        isFound = violations.length > 0;
      }
      expect(isFound).toBe(true);
    },
  );
});
