/** Writes that a World refuses though nobody else drives the run. */
import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import type { DeliveryResult } from "../../engine/ports/queue.ts";
import { createRig, done } from "./rig.ts";
import { withEvents } from "./with-events.ts";

const STAND_DOWN: DeliveryResult = { kind: "redeliver", afterMs: 1_000, counted: true };

describe("a refusal without another orchestrator", () => {
  /** Refuses writes as a World does that sealed the writer's own position. */
  function refusing(times: number) {
    let refused = 0;
    const wrap = withEvents((events) => {
      const refuse = () => {
        if (refused++ < times) throw new BatonError("IN_BAND_SUPERSEDED", "sealed");
      };
      return {
        createBatch: async (runId, batch, params) => {
          refuse();
          return events.createBatch(runId, batch, params);
        },
        create: async (runId, event, params) => {
          // What the cap writes is let through, so that the test can see it.
          if (params?.inBand === true && event.eventType !== "run_failed") refuse();
          return events.create(runId, event, params);
        },
      };
    });
    return wrap;
  }

  it("is redelivered after a second and completes", async () => {
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      wrap: refusing(2),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual(STAND_DOWN);
    await rig.runOut(run);
    expect(rig.deliveries.map((d) => d.meta.attempt)).toEqual([1, 2, 3]);
    expect(await rig.output(run)).toBe("x");
  });

  it("on every write, its failure's too, parks the run past the cap, and unparking goes on", async () => {
    let isMended = false;
    const refuse = () => Promise.reject(new BatonError("IN_BAND_SUPERSEDED", "sealed"));
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      wrap: withEvents((events) => ({
        createBatch: (...args) => (isMended ? events.createBatch(...args) : refuse()),
        create: (runId, event, params) =>
          params?.inBand === true && !isMended ? refuse() : events.create(runId, event, params),
      })),
    });
    const run = await rig.start();
    await rig.runOut(run, 10 * 24 * 3_600_000);
    const row = await rig.world.forTenant(run.tenantId).runs.get(run.runId);
    expect(row).toMatchObject({ status: "pending", parked: { code: "MAX_DELIVERIES_EXCEEDED" } });
    expect(row?.parked?.message).toContain("IN_BAND_SUPERSEDED");
    expect(rig.deliveries).toHaveLength(52);
    expect(rig.deliveries.at(-1)?.answer).toEqual({ kind: "ack" });
    isMended = true;
    expect(await rig.engine().unpark(run)).toBe(true);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });

  it("a World that refuses the failure for another reason parks the run as well", async () => {
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      wrap: withEvents((events) => ({
        create: (runId, event, params) =>
          params?.inBand === true
            ? Promise.reject(new BatonError("ENTITY_CONFLICT", "no"))
            : events.create(runId, event, params),
      })),
    });
    const run = await rig.start();
    await rig.runOut(run, 10 * 24 * 3_600_000);
    const row = await rig.world.forTenant(run.tenantId).runs.get(run.runId);
    expect(row?.parked?.message).toContain("ENTITY_CONFLICT");
    expect(rig.clock.nextTimerAt).toBeNull();
  });

  it("on every pass fails the run at the delivery cap", async () => {
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      wrap: refusing(1e9),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.outcome(run)).toMatchObject({
      kind: "failed",
      errorCode: "MAX_DELIVERIES_EXCEEDED",
    });
    expect(rig.deliveries).toHaveLength(49);
    expect(rig.attempts).toEqual([]);
  });
});
