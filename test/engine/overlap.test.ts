import { describe, expect, it } from "vitest";
import type { DeliveryResult, OrchestratorMessage } from "../../engine/ports/queue.ts";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import { BatonError } from "../../engine/errors.ts";
import type { World } from "../../engine/ports/world.ts";
import type { Guest } from "./fake-sandbox.ts";
import { createRig, done } from "./rig.ts";
import type { Rig } from "./rig.ts";
import { withEvents } from "./with-events.ts";

const STAND_DOWN: DeliveryResult = { kind: "redeliver", afterMs: 1_000, counted: true };

/** Delivers a message once more while its first delivery is still at work, as after a lapsed lease. */
function overlap(rig: Rig, deliveryCount = 2): Promise<DeliveryResult> {
  const { message, meta } = rig.deliveries[0]!;
  return rig.engine().handlers.orchestrator(message as OrchestratorMessage, {
    ...meta,
    deliveryCount,
    attempt: deliveryCount,
  });
}

/** A World whose writes of a type wait until the test lets them through, or drops their answer. */
function gatedWrites(type: string) {
  const waiting: (() => void)[] = [];
  let isOpen = false;
  const gate = async (types: readonly string[]) => {
    if (isOpen || !types.includes(type)) return;
    await new Promise<void>((resolve) => waiting.push(resolve));
  };
  const wrap = withEvents((events) => ({
    create: async (runId, event, params) => {
      await gate([event.eventType]);
      return events.create(runId, event, params);
    },
    createBatch: async (runId, batch, params) => {
      await gate(batch.map((event) => event.eventType));
      return events.createBatch(runId, batch, params);
    },
  }));
  const open = () => {
    isOpen = true;
    for (const go of waiting.splice(0)) go();
  };
  return { wrap, open, waiting };
}

describe("two deliveries of one run", () => {
  it("the second writes first: the stalled one is refused, starts nothing and stands down", async () => {
    const ends: ((outcome: StepOutcome) => void)[] = [];
    const rig = createRig({
      programs: {
        main: async (guest) => (await guest.step("slow")) + (await guest.step("next")),
      },
      steps: {
        slow: () => new Promise((resolve) => ends.push(resolve)),
        next: () => done(" next"),
      },
    });
    const run = await rig.start();
    await rig.settle();
    const second = overlap(rig);
    await rig.settle();
    ends[1]?.(done("second"));
    expect(await second).toEqual({ kind: "ack" });
    ends[0]?.(done("first"));
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual(STAND_DOWN);
    expect(rig.attempts.map((a) => a.stepName)).toEqual(["slow", "slow", "next"]);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("second next");
    expect((await rig.types(run)).filter((type) => type === "step_completed")).toHaveLength(2);
  });

  it("the stalled one writes first: the second is refused, and the run goes on", async () => {
    const gate = gatedWrites("step_started");
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      wrap: gate.wrap,
    });
    const run = await rig.start();
    await rig.settle();
    const second = overlap(rig);
    await rig.settle();
    expect(gate.waiting).toHaveLength(2);
    gate.open();
    expect(await second).toEqual(STAND_DOWN);
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "ack" });
    expect(rig.attempts).toHaveLength(1);
    expect(await rig.output(run)).toBe("x");
  });

  it("one commits a step and dies owing its message: the other's redelivery sends it", async () => {
    const gate = gatedWrites("step_created");
    const dead: World["queue"]["sendBatch"] = () => {
      throw new BatonError("WORLD_UNAVAILABLE", "died before the send");
    };
    let isDying = true;
    const rig = createRig({
      programs: { main: (guest) => guest.step("work") },
      steps: { work: () => done("x") },
      settings: { inlineStepsMax: 0 },
      wrap: (world) => {
        const gated = gate.wrap(world);
        return {
          ...gated,
          queue: {
            ...world.queue,
            sendBatch: (sends) => (isDying ? dead(sends) : world.queue.sendBatch(sends)),
          },
        };
      },
    });
    const run = await rig.start();
    await rig.settle();
    const second = overlap(rig);
    await rig.settle();
    gate.open();
    expect(await second).toEqual(STAND_DOWN);
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toBe("rejected");
    expect(rig.attempts).toEqual([]);
    isDying = false;
    expect(await overlap(rig, 3)).toEqual({ kind: "ack" });
    await rig.runOut(run);
    expect(rig.attempts).toHaveLength(1);
    expect(await rig.output(run)).toBe("x");
  });
});

describe("a delivery that dies and is coalesced away", () => {
  /** Lets the first delivery commit, and die at its next send or write. */
  function dyingAfter(type: string) {
    let isDying = false;
    let hasDied = false;
    const die = () => {
      if (!isDying || hasDied) return;
      hasDied = true;
      throw new BatonError("WORLD_UNAVAILABLE", "died");
    };
    const wrap = (world: World): World => ({
      ...world,
      queue: {
        ...world.queue,
        sendBatch: async (sends) => {
          die();
          return world.queue.sendBatch(sends);
        },
      },
      forTenant: (tenantId) => {
        const store = world.forTenant(tenantId);
        return {
          ...store,
          events: {
            ...store.events,
            createBatch: async (runId, events, params) => {
              die();
              const result = await store.events.createBatch(runId, events, params);
              if (events.some((event) => event.eventType === type)) {
                isDying = true;
                if (type.startsWith("wait")) die();
              }
              return result;
            },
          },
        };
      },
    });
    return wrap;
  }

  it("after step_created: the holder's re-run sends the step's message", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const said = guest.hook("door").next();
          return (await guest.step("work")) + (await said);
        },
      },
      steps: { work: () => done("x ") },
      settings: { inlineStepsMax: 0 },
      wrap: dyingAfter("step_created"),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toBe("rejected");
    // A wake takes the run first; the dead delivery's message comes back into it.
    await rig.resume("door", "payload");
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x payload");
  });

  it("after wait_created: the timer is out already", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.sleep(3_600_000);
          return "woke";
        },
      },
      wrap: dyingAfter("wait_created"),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toBe("rejected");
    const timers = rig.sends.map((send) => send.options?.idempotencyKey);
    expect(timers).toHaveLength(1);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("woke");
  });

  it("after wait_completed: the chain's next timer is out already", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await Promise.all([guest.sleep(3_600_000), guest.sleep(7_200_000)]);
          return "woke";
        },
      },
      wrap: dyingAfter("wait_completed"),
    });
    const run = await rig.start();
    await rig.settle();
    await rig.advance(3_600_000);
    expect(rig.deliveries.at(-1)?.answer).toBe("rejected");
    expect(rig.sends).toHaveLength(2);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("woke");
  });
});

describe("a write whose answer is lost", () => {
  it("stops the writer for good; the redelivery reads the log and goes on", async () => {
    let lost = 0;
    const rig = createRig({
      programs: {
        main: async (guest) => (await guest.step("work")) + (await guest.step("work")),
      },
      steps: { work: () => done("x") },
      wrap: withEvents((events) => ({
        createBatch: async (runId, batch, params) => {
          const result = await events.createBatch(runId, batch, params);
          if (batch[0]?.eventType === "step_completed" && lost++ === 0) {
            throw new Error("socket reset");
          }
          return result;
        },
      })),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toBe("rejected");
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("xx");
    expect(rig.attempts).toHaveLength(2);
    const log = await rig.log(run);
    expect(log.filter((event) => event.eventType === "step_completed")).toHaveLength(2);
  });
});

describe("events that land below a write", () => {
  const race = {
    main: async (guest: Guest) => {
      const hook = guest.hook("door");
      return Promise.race([hook.next(), guest.step("slow")]);
    },
  };

  it("a payload below an inline outcome wins the race, as in every later replay", async () => {
    let end = (_outcome: StepOutcome): void => undefined;
    const rig = createRig({
      programs: race,
      steps: { slow: () => new Promise((resolve) => (end = resolve)) },
      settings: { pollIntervalMs: 0, isCold: true },
      // Neither push nor poll: the answer to the write alone tells of the payload.
      wrap: (world) => ({ ...world, capabilities: { ...world.capabilities, liveFeed: false } }),
    });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "payload");
    await rig.settle();
    expect(await rig.output(run)).toBe("still running");
    end(done("step"));
    await rig.settle();
    expect(await rig.output(run)).toBe("payload");
  });

  it("with a feed the run acts on the payload while the body still runs", async () => {
    const rig = createRig({ programs: race, steps: { slow: () => new Promise(() => undefined) } });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "payload");
    await rig.settle();
    expect(await rig.output(run)).toBe("payload");
  });

  it.each([
    ["an incomplete report", (events: readonly unknown[]) => ({ events, hasMore: true })],
    ["a report with a hole", () => ({ events: [], hasMore: false })],
  ])("%s is read up to its end before anything is consumed", async (_name, change) => {
    let end = (_outcome: StepOutcome): void => undefined;
    const rig = createRig({
      programs: race,
      steps: { slow: () => new Promise((resolve) => (end = resolve)) },
      settings: { pollIntervalMs: 0 },
      wrap: (world) => ({
        ...world,
        capabilities: { ...world.capabilities, liveFeed: false },
        forTenant: (tenantId) => {
          const store = world.forTenant(tenantId);
          return {
            ...store,
            events: {
              ...store.events,
              createBatch: async (runId, events, params) => {
                const result = await store.events.createBatch(runId, events, params);
                return { ...result, ...(change(result.events) as object) };
              },
            },
          };
        },
      }),
    });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "payload");
    await rig.settle();
    end(done("step"));
    await rig.settle();
    expect(await rig.output(run)).toBe("payload");
    expect((await rig.types(run)).slice(-3)).toEqual([
      "hook_received",
      "step_completed",
      "run_completed",
    ]);
  });

  it("a cancellation below a wait's completion stops the run before the sleep's continuation", async () => {
    const gate = gatedWrites("wait_completed");
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.sleep(1_000);
          return guest.step("work");
        },
      },
      steps: { work: () => done("x") },
      wrap: gate.wrap,
    });
    const run = await rig.start();
    await rig.settle();
    await rig.advance(1_000);
    await rig.engine().getRun(run.tenantId, run.runId).cancel();
    gate.open();
    await rig.settle();
    expect(await rig.output(run)).toBe("cancelled");
    expect(rig.attempts).toEqual([]);
  });
});
