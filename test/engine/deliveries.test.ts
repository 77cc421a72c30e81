import { describe, expect, it } from "vitest";
import type { OrchestratorMessage } from "../../engine/ports/queue.ts";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import type { Program } from "./fake-sandbox.ts";
import { createRig, done, TENANT } from "./rig.ts";
import type { Rig } from "./rig.ts";
import { withEvents } from "./with-events.ts";

const HOUR = 3_600_000;
const waitsForDoor: Program = (guest) => guest.hook("door").next();
const sequence: Program = async (guest) => {
  for (let n = 0; n < 60; n++) await guest.step("work", String(n));
  const first = await guest.hook("door").next();
  return first + (await guest.step("work", "last"));
};
const work = { work: () => done("x") };

const wakeOf = (run: { tenantId: unknown; runId: unknown }) =>
  ({ kind: "orchestrator", ...run, specVersion: 9, reason: "wake" }) as OrchestratorMessage;
const outcomes = (rig: Rig) =>
  rig.lines.filter((line) => line.message === "delivery").map((line) => line.fields["outcome"]);

describe("a wake with nothing new", () => {
  it("is acknowledged after one tail read, without a pass", async () => {
    const rig = createRig({ programs: { main: waitsForDoor } });
    const run = await rig.start();
    await rig.settle();
    const calls = rig.calls().length;
    await rig.world.queue.send(wakeOf(run));
    await rig.settle();
    expect(rig.calls().slice(calls)).toEqual(["events.list"]);
    expect(outcomes(rig)).toEqual(["suspended", "nothing new"]);
  });

  it("that came before its event was read is not taken for one", async () => {
    const rig = createRig({ programs: { main: waitsForDoor } });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "payload");
    await rig.settle();
    expect(await rig.output(run)).toBe("payload");
  });

  it("is taken for one while a wait is ahead, unless a timer was coalesced into it", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.sleep(HOUR);
          return "woke";
        },
      },
    });
    const run = await rig.start();
    await rig.advance(HOUR - 4_000);
    await rig.world.queue.send(wakeOf(run));
    await rig.settle();
    expect(outcomes(rig)).toEqual(["suspended", "nothing new"]);
    const wait = (await rig.log(run)).find((event) => event.eventType === "wait_created");
    await rig.engine().handlers.orchestrator(wakeOf(run), {
      messageId: "m" as never,
      deliveryCount: 1,
      attempt: 1,
      invocationStartedAt: rig.clock.now(),
      recovery: false,
      timers: [{ correlationId: wait?.correlationId as never, attempt: 1 }],
    });
    expect(outcomes(rig)).toEqual(["suspended", "nothing new", "suspended"]);
  });

  it("on a run that is over writes nothing and is acknowledged", async () => {
    const rig = createRig({ programs: { main: async () => "end" } });
    const run = await rig.start();
    await rig.settle();
    const events = (await rig.log(run)).length;
    await rig.world.queue.send(wakeOf(run));
    await rig.settle();
    expect((await rig.log(run)).length).toBe(events);
    expect(rig.deliveries.at(-1)?.answer).toEqual({ kind: "ack" });
  });

  it("for a run or a tenant that does not exist is acknowledged", async () => {
    const rig = createRig({ programs: {} });
    const run = { tenantId: TENANT, runId: `wrun_${"0".repeat(26)}` };
    await rig.world.queue.send(wakeOf(run));
    await rig.world.queue.send(wakeOf({ ...run, tenantId: "nobody" }));
    await rig.settle();
    expect(new Set(outcomes(rig))).toEqual(new Set(["no such run", "no such tenant"]));
  });
});

describe("what an operator can mend", () => {
  it("a suspended tenant's messages stay, uncounted, and its runs go on afterwards", async () => {
    const rig = createRig({ programs: { main: sequence }, steps: work });
    const run = await rig.start();
    await rig.settle();
    rig.status = "suspended";
    await rig.resume("door", "a");
    await rig.advance(24 * HOUR);
    expect(rig.deliveries.at(-1)).toMatchObject({
      meta: { attempt: 1 },
      answer: { kind: "redeliver", counted: false },
    });
    await expect(rig.start()).rejects.toMatchObject({ code: "TENANT_SUSPENDED" });
    rig.status = "active";
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("ax");
  });

  it("a suspension in the midst of a delivery lets no further step begin; the outcome stands", async () => {
    const rig: Rig = createRig({
      programs: { main: sequence },
      steps: {
        work: (attempt) => {
          if (Buffer.from(attempt.input).includes("4")) rig.status = "suspended";
          return done("x");
        },
      },
      settings: { inlineStepsMax: 1 },
    });
    const run = await rig.start();
    await rig.settle();
    const begun = rig.attempts.length;
    expect(begun).toBe(5);
    await rig.advance(HOUR);
    expect(rig.attempts.length).toBe(begun);
    const types = await rig.types(run);
    expect(types.filter((type) => type === "step_completed").length).toBe(begun);
  });

  it("what a resumed tenant left open is looked at, before its messages come again", async () => {
    const rig = createRig({ programs: { main: sequence }, steps: work });
    const run = await rig.start();
    rig.status = "suspended";
    await rig.settle();
    expect(rig.attempts.length).toBe(0);
    rig.status = "active";
    expect(await rig.engine().recoverTenant(TENANT)).toBe(1);
    await rig.settle();
    expect(rig.attempts.length).toBe(60);
    await rig.resume("door", "a");
    await rig.settle();
    expect(await rig.output(run)).toBe("ax");
    expect(await rig.engine().recoverTenant(TENANT)).toBe(0);
  });

  it("a missing bundle parks the run", async () => {
    const rig = createRig({ programs: { main: waitsForDoor } });
    const { run } = await rig.engine().start({
      tenantId: TENANT,
      workflowName: "main",
      deploymentId: "c".repeat(64),
      input: new Uint8Array(),
    });
    await rig.settle();
    const row = await rig.world.forTenant(TENANT).runs.get(run.runId);
    expect(row?.parked?.code).toBe("BUNDLE_NOT_FOUND");
  });

  it("a log with a gap parks the run and is not written to", async () => {
    const rig = createRig({
      programs: { main: waitsForDoor },
      settings: { isCold: true },
      wrap: withEvents((events) => ({
        list: async (runId, params) => {
          const page = await events.list(runId, params);
          return { ...page, events: page.events.filter((event) => event.slot !== 2) };
        },
      })),
    });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "a");
    await rig.settle();
    const row = await rig.world.forTenant(TENANT).runs.get(run.runId);
    expect(row?.parked?.code).toBe("CORRUPTED_EVENT_LOG");
    expect((await rig.log(run)).length).toBe(4);
  });

  it("a message of an unknown version is kept and nothing is written", async () => {
    const rig = createRig({ programs: { main: waitsForDoor } });
    const run = await rig.start();
    await rig.settle();
    const events = (await rig.log(run)).length;
    await rig.world.queue.send({ ...wakeOf(run), specVersion: 10 }).catch(() => undefined);
    const { handlers } = rig.engine();
    const answer = await handlers.orchestrator(
      { ...wakeOf(run), specVersion: 10 },
      {
        messageId: "m" as never,
        deliveryCount: 1,
        attempt: 1,
        invocationStartedAt: 0,
        recovery: false,
        timers: [],
      },
    );
    expect(answer).toMatchObject({ kind: "redeliver", counted: false });
    expect((await rig.log(run)).length).toBe(events);
  });
});

describe("caps", () => {
  it("a run past its tenant's events fails, with a warning before", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          for (;;) await guest.step("work");
        },
      },
      steps: work,
      limits: { eventsWarn: 50, eventsMax: 100 },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "MAX_EVENTS_EXCEEDED" });
    expect((await rig.log(run)).length).toBe(101);
    expect(rig.lines.filter((line) => line.message.includes("many events"))).toHaveLength(1);
  });

  it("a run that ends exactly at the cap completes", async () => {
    const rig = createRig({
      programs: { main: async (guest) => guest.step("work") },
      steps: work,
      limits: { eventsMax: 5 },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });
});

describe("the end of an invocation", () => {
  const minutes: Program = async (guest) => {
    for (let n = 0; n < 30; n++) await guest.step("minute");
    return "end";
  };

  /** A body that takes a minute of the held clock. */
  const minute = (rig: () => Rig) => ({
    minute: () =>
      new Promise<StepOutcome>((resolve) => {
        rig().clock.setTimer(60_000, () => resolve(done("m")));
      }),
  });

  it("short steps hand off at the margin, as often as needed, and none goes to the queue", async () => {
    const rig: Rig = createRig({ programs: { main: minutes }, steps: minute(() => rig) });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("end");
    expect(rig.deliveries.map((d) => d.answer)).toEqual([
      { kind: "handoff" },
      { kind: "handoff" },
      { kind: "handoff" },
      { kind: "ack" },
    ]);
    expect(rig.deliveries.map((d) => [d.meta.deliveryCount, d.meta.attempt])).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
      [4, 1],
    ]);
    expect(await rig.types(run)).not.toContain("step_created");
    expect(rig.attempts).toHaveLength(30);
  });

  it("a body that runs past the deadline is waited for and recorded, then the run hands off", async () => {
    const rig: Rig = createRig({
      programs: { main: async (guest) => (await guest.step("long")) + (await guest.step("work")) },
      steps: {
        ...work,
        long: () =>
          new Promise<StepOutcome>((resolve) => {
            rig.clock.setTimer(HOUR, () => resolve(done("l")));
          }),
      },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("lx");
    expect(rig.deliveries.map((d) => d.answer)).toEqual([{ kind: "handoff" }, { kind: "ack" }]);
  });
});
