/** "Edge cases and failure handling": what needs a recovery, or an operator. */
import { describe, expect, it } from "vitest";
import { bundleHashOf } from "../../engine/ids.ts";
import type { Mutant } from "../sim/simulator.ts";
import { losingQueue } from "./lost-queue.ts";
import {
  all,
  HOUR_MS,
  library,
  played,
  program,
  scenario,
  sequence,
  sleep,
  step,
} from "./stage.ts";
import { useStage } from "./stage.ts";

useStage();

scenario(
  "a restart that loses the queue: the recovery arms every chain and re-sends every open step",
  {
    runs: [
      program(
        all(
          sequence(sleep(HOUR_MS), step("after-sleep")),
          sleep(2 * HOUR_MS),
          step("later", { failures: 1, how: "retryable", retryMs: HOUR_MS }),
        ),
      ),
    ],
    settings: { inlineStepsMax: 0 },
    world: losingQueue(30_000),
  },
  ({ count, bodies }) => {
    expect(count("wait_completed")).toBe(2);
    expect(bodies("after-sleep")).toBe(1);
    expect(bodies("later")).toBe(2);
    expect(count("run_completed")).toBe(1);
  },
);

/** Another code under the run from `afterMs` on: each `act` has become a `brittle`. */
function changingBundle(afterMs: number): Mutant {
  return {
    name: "changes its code",
    parts: (parts) => {
      const changesAtMs = Date.UTC(2026, 0, 1) + afterMs;
      return {
        ...parts,
        tenants: {
          ...parts.tenants,
          bundleOf: async (tenantId, deploymentId) => {
            const code = await parts.tenants.bundleOf(tenantId, deploymentId);
            if (code === null || parts.clock.now() < changesAtMs) return code;
            const hash = bundleHashOf(`${"f".repeat(60)}${code.hash.slice(60)}`);
            const workflowCode = code.workflowCode.replaceAll("/steps//act", "/steps//brittle");
            return { ...code, hash, workflowCode };
          },
        },
      };
    },
  };
}

describe("a replay that diverges from the log", () => {
  it("is tried again in place, then the run is parked with what was expected, found, and where", async () => {
    const play = {
      runs: [library("stepsAndSleeps", { width: 3, ms: 60_000 })],
      world: changingBundle(90_000),
      // Its messages are kept, and looked at now and then for as long as it is parked.
      horizonMs: HOUR_MS,
    };
    const { run, count, violations } = await played(play, "one", true);
    expect(run.parked?.code).toBe("REPLAY_DIVERGENCE");
    expect(run.parked?.message).toMatch(/slot \d+/);
    expect(run.parked?.message).toContain("/steps//act");
    expect(run.parked?.message).toContain("/steps//brittle");
    // It is set aside, not failed: nothing was appended, and its messages are kept.
    expect(count("run_failed", "run_completed")).toBe(0);
    expect(violations.filter((violation) => violation.startsWith("[log]"))).toEqual([]);
  });
});
