import { describe, expect, it } from "vitest";
import type { OrchestratorMessage } from "../../engine/ports/queue.ts";
import { textOf } from "./log-of.ts";
import { createRig, done } from "./rig.ts";
import type { Rig } from "./rig.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const timers = (rig: Rig) =>
  rig.sends.filter(
    (send) => send.message.kind === "orchestrator" && send.message.waitContinuation !== undefined,
  );
const keys = (rig: Rig) => timers(rig).map((send) => send.options?.idempotencyKey ?? "");

describe("sleeps", () => {
  it.each([
    ["1 ms", 1],
    ["a minute", 60_000],
    ["23 hours", 23 * HOUR],
    ["23 hours and 1 ms", 23 * HOUR + 1],
    ["60 days", 60 * DAY],
    ["400 days", 400 * DAY],
  ])("of %s ends at its very millisecond", async (_name, ms) => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const from = guest.now();
          await guest.sleep(ms);
          return String(guest.now() - from);
        },
      },
    });
    const run = await rig.start();
    const startedAt = rig.clock.now();
    await rig.runOut(run);
    expect(rig.clock.now() - startedAt).toBe(ms);
    expect(await rig.output(run)).toBe(String(ms));
    expect(timers(rig).length).toBe(Math.max(1, Math.ceil(ms / (23 * HOUR))));
  });

  it.each([
    ["0", 0],
    ["a past date", -5_000],
  ])("of %s resumes at once, as a durable event, without a timer", async (_name, ms) => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.sleep(ms);
          return "now";
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.output(run)).toBe("now");
    expect((await rig.types(run)).slice(2, 4)).toEqual(["wait_created", "wait_completed"]);
    expect(timers(rig)).toEqual([]);
  });

  it("until a time that is computed anew on every replay is one wait, with the first deadline", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const until = Number(guest.input);
          await guest.sleepUntil(until);
          await guest.sleep(until - guest.now() + 5_000);
          return "end";
        },
      },
      settings: { isCold: true },
    });
    const run = await rig.start("main", String(rig.clock.now() + 30_000));
    await rig.settle();
    rig.restart();
    await rig.advance(30_000);
    rig.restart();
    await rig.runOut(run);
    const waits = (await rig.log(run)).filter((event) => event.eventType === "wait_created");
    expect(waits).toHaveLength(2);
    expect(await rig.output(run)).toBe("end");
  });

  it("two at once are one chain with one timer at a time", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await Promise.all([guest.sleep(2 * HOUR), guest.sleep(HOUR), guest.sleep(3 * HOUR)]);
          return "all";
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    expect(timers(rig)).toHaveLength(1);
    await rig.advance(HOUR);
    expect(timers(rig)).toHaveLength(2);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("all");
    expect(timers(rig)).toHaveLength(3);
    expect(rig.clock.now()).toBe((await rig.log(run))[0]!.createdAt + 3 * HOUR);
  });

  it("a hop on the way reads the run's status and sends the next, and writes nothing", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.sleep(3 * DAY);
          return "end";
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    const calls = rig.calls().length;
    await rig.advance(3 * HOUR);
    expect(rig.calls().slice(calls)).toEqual(["runs.get", "queue.send"]);
    expect((await rig.log(run)).length).toBe(3);
    await rig.engine().getRun(run.tenantId, run.runId).cancel();
    await rig.settle();
    const cancelled = rig.calls().length;
    await rig.advance(23 * HOUR);
    expect(rig.calls().slice(cancelled)).toEqual(["runs.get"]);
    await rig.advance(10 * DAY);
    expect(rig.clock.nextTimerAt).toBeNull();
  });
});

describe("timers that come early or not at all", () => {
  const sleeper = {
    main: async (guest: { sleep(ms: number): Promise<void> }) => {
      await guest.sleep(HOUR);
      return "woke";
    },
  };

  const timerMessage = (rig: Rig): OrchestratorMessage =>
    timers(rig)[0]!.message as OrchestratorMessage;

  it("a timer that comes before its wait is due is armed again under the next attempt", async () => {
    const rig = createRig({ programs: sleeper });
    const run = await rig.start();
    await rig.settle();
    await rig.world.queue.send(timerMessage(rig));
    await rig.settle();
    expect(keys(rig)).toHaveLength(2);
    expect(keys(rig)[1]).toBe(`${keys(rig)[0]}:a2`);
    await rig.world.queue.send(timers(rig)[1]!.message);
    await rig.settle();
    expect(keys(rig)[2]).toBe(`${keys(rig)[0]}:a3`);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("woke");
    expect((await rig.types(run)).filter((type) => type === "wait_completed")).toHaveLength(1);
  });

  it("a duplicate timer finds its wait completed and arms nothing", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.sleep(HOUR);
          await guest.hook("door").next();
          return "end";
        },
      },
    });
    const run = await rig.start();
    await rig.advance(HOUR);
    const before = timers(rig).length;
    await rig.world.queue.send(timerMessage(rig));
    await rig.advance(HOUR);
    expect(timers(rig).length).toBe(before);
    expect((await rig.types(run)).filter((type) => type === "wait_completed")).toHaveLength(1);
  });

  it("a timer of a wait that never came to be arms nothing", async () => {
    const rig = createRig({ programs: { main: (guest) => guest.hook("door").next() } });
    const run = await rig.start();
    await rig.settle();
    await rig.world.queue.send({
      kind: "orchestrator",
      ...run,
      specVersion: 9,
      reason: "timer",
      waitContinuation: { correlationId: `wait_${"0".repeat(26)}` as never, attempt: 1 },
    });
    await rig.settle();
    expect(timers(rig)).toEqual([]);
  });

  it("a timer that is coalesced early into another delivery is armed again by that one, once", async () => {
    const rig = createRig({ programs: sleeper });
    await rig.start();
    await rig.settle();
    await rig.advance(HOUR - 20_000);
    const { handlers } = rig.engine();
    const [first] = timers(rig);
    const timer = timerMessage(rig).waitContinuation;
    const meta = {
      messageId: "msg_0" as never,
      attempt: 1,
      recovery: false,
      invocationStartedAt: rig.clock.now(),
      timers: [],
    };
    const wake: OrchestratorMessage = { ...timerMessage(rig), reason: "wake" };
    delete (wake as { waitContinuation?: unknown }).waitContinuation;
    await handlers.orchestrator(wake, { ...meta, deliveryCount: 1 });
    await handlers.orchestrator(wake, { ...meta, deliveryCount: 2 });
    expect(timers(rig)).toEqual([first]);
    await handlers.orchestrator(wake, { ...meta, deliveryCount: 3, timers: [timer!] });
    await handlers.orchestrator(wake, { ...meta, deliveryCount: 4 });
    expect(timers(rig).slice(1)).toMatchObject([
      {
        message: { waitContinuation: { attempt: 2 } },
        options: { idempotencyKey: `${first!.options!.idempotencyKey}:a2`, delayMs: 20_000 },
      },
    ]);
  });

  it("of 40 waits whose timers all come early, each is armed again once", async () => {
    const rig: Rig = createRig({
      programs: {
        main: async (guest) => {
          const naps = Array.from({ length: 40 }, async (_, i) => {
            await guest.step("s", String(i));
            await guest.sleep(3_000);
          });
          await Promise.all(naps);
          return "all";
        },
      },
      // Each outcome wakes the run by itself, so that each wait is a chain of its own.
      steps: {
        s: ({ input }) =>
          new Promise((resolve) => {
            rig.clock.setTimer(100 * Number(textOf(input)), () => resolve(done("x")));
          }),
      },
      settings: { inlineStepsMax: 0 },
      // Sent by a process whose clock is two seconds ahead of that of the one that they come to.
      wrap: (world) => ({
        ...world,
        queue: {
          ...world.queue,
          sendBatch: (sends) =>
            world.queue.sendBatch(
              sends.map(({ message, options }) => {
                const isFirst =
                  message.kind === "orchestrator" && message.waitContinuation?.attempt === 1;
                const delayMs = (options?.delayMs ?? 0) - (isFirst ? 2_000 : 0);
                return { message, options: { ...options, delayMs: Math.max(0, delayMs) } };
              }),
            ),
        },
      }),
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("all");
    const stored = new Set(keys(rig));
    expect(stored.size).toBe(2 * 40);
  });

  it("a recovery arms every chain and sends every open background step again", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const slow = guest.step("slow");
          await Promise.race([guest.sleep(HOUR), guest.hook("door").next()]);
          return slow;
        },
      },
      steps: { slow: () => new Promise(() => undefined) },
      settings: { inlineStepsMax: 0 },
    });
    const run = await rig.start();
    await rig.settle();
    const before = rig.sends.length;
    await rig.engine().recover(run);
    await rig.settle();
    const sent = rig.sends.slice(before + 1).map((send) => send.message);
    expect(sent.map((message) => message.kind).sort()).toEqual(["orchestrator", "step"]);
    expect(sent.find((message) => message.kind === "step")).toMatchObject({
      stepResent: true,
      stepAttempt: 2,
    });
  });
});

describe("waits while the delivery is live", () => {
  it("a wait that falls due while a body runs is completed in process", async () => {
    let finish = (): void => undefined;
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const body = guest.step("slow");
          const first = await Promise.race([body, guest.sleep(5_000).then(() => "timer")]);
          return `${first} ${await body}`;
        },
      },
      steps: {
        slow: () =>
          new Promise((resolve) => {
            finish = () => resolve(done("slow"));
          }),
      },
    });
    const run = await rig.start();
    await rig.settle();
    await rig.advance(5_000);
    expect(await rig.types(run)).toContain("wait_completed");
    expect(rig.deliveries.filter((one) => one.answer !== null)).toHaveLength(0);
    finish();
    await rig.settle();
    expect(await rig.output(run)).toBe("timer slow");
  });
});

describe("requests to wake", () => {
  it("while an inline step runs a request completes the sleep, and the count is right", async () => {
    let finish = (): void => undefined;
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const nap = guest.sleep(10 * DAY).then(() => "woken");
          return (await guest.step("slow")) + (await nap);
        },
      },
      steps: {
        slow: () =>
          new Promise((resolve) => {
            finish = () => resolve(done("slow "));
          }),
      },
    });
    const run = await rig.start();
    await rig.settle();
    const woken = await rig.engine().getRun(run.tenantId, run.runId).wakeUp();
    expect(woken).toHaveLength(1);
    await rig.settle();
    expect(await rig.types(run)).toContain("wait_completed");
    finish();
    await rig.settle();
    expect(await rig.output(run)).toBe("slow woken");
  });

  it("a request names waits; others sleep on, and none is named twice", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await Promise.all([guest.sleep(DAY), guest.sleep(2 * DAY)]);
          return "all";
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    const handle = rig.engine().getRun(run.tenantId, run.runId);
    const [first] = (await rig.world.forTenant(run.tenantId).openEntities(run.runId)).waits;
    expect(await handle.wakeUp([first!.waitId, "wait_unknown"])).toEqual([first!.waitId]);
    await rig.settle();
    expect((await rig.types(run)).filter((type) => type === "wait_completed")).toHaveLength(1);
    expect(await handle.wakeUp([first!.waitId])).toEqual([]);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("all");
    expect(rig.clock.now() - (await rig.log(run))[0]!.createdAt).toBe(2 * DAY);
    expect(await handle.wakeUp()).toEqual([]);
  });
});
