import { describe, expect, it } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import { OUTCOME_POLL_MS, OUTCOME_POLL_MS_MAX } from "../../engine/limits.ts";
import type { World } from "../../engine/ports/world.ts";
import type { Guest } from "./fake-sandbox.ts";
import { bytes, textOf } from "./log-of.ts";
import { createRig, done, TENANT } from "./rig.ts";

const BUNDLE = "b".repeat(64);
const request = {
  tenantId: TENANT,
  workflowName: "main",
  deploymentId: BUNDLE,
  input: bytes("in"),
};
const echo = { main: async (guest: { input: string }) => guest.input };

describe("start", () => {
  it("repeated under one idempotency key is one run, with one start message", async () => {
    const rig = createRig({ programs: echo });
    const keyed = { ...request, idempotencyKey: "order-7" };
    const [a, b] = await Promise.all([rig.engine().start(keyed), rig.engine().start(keyed)]);
    expect(a?.run).toEqual(b?.run);
    expect([a, b].filter((started) => started?.isNew)).toHaveLength(1);
    await rig.settle();
    expect(rig.deliveries).toHaveLength(1);
    const other = await rig.engine().start({ ...request, idempotencyKey: "order-8" });
    expect(other.run.runId).not.toBe(a?.run.runId);
  });

  it("refuses one key for two workflows", async () => {
    const rig = createRig({ programs: echo });
    await rig.engine().start({ ...request, idempotencyKey: "k" });
    const again = rig.engine().start({ ...request, workflowName: "other", idempotencyKey: "k" });
    await expect(again).rejects.toMatchObject({ code: "ENTITY_CONFLICT" });
  });

  it("without a key makes a run each time, each with a seed of its own", async () => {
    const rig = createRig({ programs: echo });
    const runs = [await rig.engine().start(request), await rig.engine().start(request)];
    expect(new Set(runs.map(({ run }) => run.runId)).size).toBe(2);
    const seeds = await Promise.all(
      runs.map(async ({ run }) => {
        const [created] = await rig.log(run);
        return created?.eventType === "run_created" ? created.eventData.seed.join() : "";
      }),
    );
    expect(new Set(seeds).size).toBe(2);
    expect(seeds[0]?.split(",")).toHaveLength(32);
  });

  it("keeps attributes, and carries no large input on its message", async () => {
    const rig = createRig({ programs: echo });
    const { run } = await rig.engine().start({
      ...request,
      input: bytes("z".repeat(200_000)),
      attributes: { customer: "7" },
    });
    await rig.settle();
    expect((await rig.world.forTenant(TENANT).runs.get(run.runId))?.attributes).toEqual({
      customer: "7",
    });
    expect(rig.deliveries[0]?.message).not.toHaveProperty("runInput");
    expect((await rig.output(run)).length).toBe(200_000);
  });

  it.each([
    ["an unknown tenant", { tenantId: "nobody" as never }, "TENANT_NOT_FOUND"],
    ["a bundle that is no hash", { deploymentId: "latest" }, "INVALID_ARGUMENT"],
  ])("of %s is refused and leaves nothing", async (_name, change, code) => {
    const rig = createRig({ programs: echo });
    await expect(rig.engine().start({ ...request, ...change })).rejects.toMatchObject({ code });
    await rig.settle();
    expect(rig.deliveries).toEqual([]);
  });

  it("on a World without the fence is refused", async () => {
    const rig = createRig({ programs: echo, wrap: (world) => ({ ...world, specVersion: 8 }) });
    await expect(rig.engine().start(request)).rejects.toMatchObject({ code: "RUN_NOT_SUPPORTED" });
  });

  it("a start message whose run never landed makes the run", async () => {
    const rig = createRig({ programs: echo });
    const runId = `wrun_${"0".repeat(26)}`;
    await rig.world.queue.send({
      kind: "orchestrator",
      tenantId: TENANT,
      runId: runId as never,
      specVersion: 9,
      reason: "start",
      runInput: {
        workflowName: "main",
        deploymentId: BUNDLE,
        input: bytes("late"),
        seed: new Uint8Array(32),
        attributes: { a: "b" },
        createdAt: rig.clock.now(),
      },
    });
    await rig.settle();
    const row = await rig.world.forTenant(TENANT).runs.get(runId as never);
    expect(row).toMatchObject({ status: "completed", attributes: { a: "b" } });
  });
});

describe("a run's handle", () => {
  it("tells status and outcome, and waits for the end", async () => {
    const rig = createRig({ programs: { main: (guest) => guest.hook("door").next() } });
    const run = await rig.start();
    const handle = rig.engine().getRun(TENANT, run.runId);
    expect(await handle.exists()).toBe(true);
    expect(await handle.status()).toBe("pending");
    await rig.settle();
    expect(await handle.status()).toBe("running");
    expect(await handle.outcome()).toBeNull();
    const value = handle.returnValue();
    await rig.resume("door", "payload");
    await rig.advance(60_000);
    expect(textOf(await value)).toBe("payload");
    expect(await handle.status()).toBe("completed");
  });

  it("of a run that failed or was cancelled gives the error of its code", async () => {
    const rig = createRig({
      programs: {
        bad: async () => {
          throw new Error("no good");
        },
        main: (guest) => guest.hook("door").next(),
      },
    });
    const bad = await rig.start("bad");
    const main = await rig.start("main");
    await rig.settle();
    const failed = rig.engine().getRun(TENANT, bad.runId).returnValue();
    await expect(failed).rejects.toMatchObject({
      name: "WorkflowRunFailedError",
      details: { errorCode: "USER_ERROR" },
    });
    const handle = rig.engine().getRun(TENANT, main.runId);
    expect(await handle.cancel("not needed")).toBe(true);
    expect(await handle.cancel()).toBe(false);
    await expect(handle.returnValue()).rejects.toMatchObject({
      code: "RUN_CANCELLED",
      details: { cancelReason: "not needed" },
    });
  });

  it("of no run says so, and needs no read to be made", async () => {
    const rig = createRig({ programs: {} });
    const handle = rig.engine().getRun(TENANT, `wrun_${"0".repeat(26)}`);
    expect(await handle.exists()).toBe(false);
    await expect(handle.status()).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    await expect(handle.cancel()).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    expect(() => rig.engine().getRun(TENANT, "nonsense")).toThrow(BatonError);
  });

  it("gives up waiting when it is told to", async () => {
    const rig = createRig({ programs: { main: (guest) => guest.hook("door").next() } });
    const run = await rig.start();
    const stop = new AbortController();
    const value = rig.engine().getRun(TENANT, run.runId).returnValue(stop.signal);
    await rig.settle();
    stop.abort(new Error("enough"));
    await expect(value).rejects.toThrow("enough");
  });

  describe("that is awaited", () => {
    const door = { main: async (guest: Guest) => guest.hook("door").next() };
    const waiting = async (wrap?: (world: World) => World) => {
      const rig = createRig({ programs: door, ...(wrap === undefined ? {} : { wrap }) });
      const run = await rig.start();
      await rig.settle();
      const engine = rig.engine();
      let ended: string | null = null;
      const outcome = engine.getRun(TENANT, run.runId).awaitOutcome();
      void outcome.then(({ kind }) => (ended = kind));
      return { rig, run, ended: () => ended };
    };

    it("tells of an end that this process sees without another look", async () => {
      const { rig, ended } = await waiting();
      await rig.resume("door", "x");
      await rig.settle();
      expect(ended()).toBe("completed");
    });

    it("tells of a cancellation that this process writes without another look", async () => {
      const { rig, run, ended } = await waiting();
      await rig.engine().getRun(TENANT, run.runId).cancel();
      await rig.settle();
      expect(ended()).toBe("cancelled");
    });

    it("tells of an end in another process when the World pushes it", async () => {
      const { rig, ended } = await waiting();
      await rig.advance(OUTCOME_POLL_MS);
      await rig.advance(2 * OUTCOME_POLL_MS);
      rig.restart();
      await rig.resume("door", "x");
      await rig.settle();
      expect(ended()).toBe("completed");
    });

    it("finds the end by looking where the World refuses another feed", async () => {
      const refused = async () => {
        throw new BatonError("RUN_FEED_LIMIT", "too many feeds");
      };
      const { rig, ended } = await waiting((world) => ({
        ...world,
        forTenant: (tenantId) => {
          const store = world.forTenant(tenantId);
          return { ...store, events: { ...store.events, subscribe: refused } };
        },
      }));
      await rig.advance(3 * OUTCOME_POLL_MS);
      rig.restart();
      await rig.resume("door", "x");
      await rig.settle();
      expect(ended()).toBe(null);
      await rig.advance(OUTCOME_POLL_MS_MAX);
      expect(ended()).toBe("completed");
    });
  });

  it("finds the first terminal event below later, inert ones", async () => {
    const rig = createRig({
      programs: { main: async (guest) => guest.step("work") },
      steps: {
        work: ({ signal }) =>
          new Promise((resolve) => signal.addEventListener("abort", () => resolve(done("late")))),
      },
    });
    const run = await rig.start();
    await rig.settle();
    const handle = rig.engine().getRun(TENANT, run.runId);
    await handle.cancel("first");
    await rig.settle();
    expect((await rig.types(run)).at(-1)).toBe("step_completed");
    expect(await handle.outcome()).toEqual({ kind: "cancelled", cancelReason: "first" });
  });
});

describe("hooks", () => {
  const door = { main: (guest: Guest) => guest.hook("door").next() };

  it("a payload for a suspended run wakes it", async () => {
    const rig = createRig({ programs: door });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "hello");
    await rig.settle();
    expect(await rig.output(run)).toBe("hello");
  });

  it("repeats under one resume id are one payload", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const hook = guest.hook("door");
          return (await hook.next()) + (await hook.next());
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "a", "r1");
    await rig.resume("door", "a", "r1");
    await rig.settle();
    expect(await rig.output(run)).toBe("still running");
    await rig.resume("door", "b", "r2");
    await rig.settle();
    expect(await rig.output(run)).toBe("ab");
  });

  it("an unknown token, another tenant's, and one of a run that is over are all not found", async () => {
    const rig = createRig({ programs: door });
    const run = await rig.start();
    await rig.settle();
    const resume = (token: string, tenantId = TENANT) =>
      rig.engine().resumeHook({ tenantId, token, payload: bytes("x") });
    await expect(resume("window")).rejects.toMatchObject({ code: "HOOK_NOT_FOUND" });
    await expect(resume("door", "nobody" as never)).rejects.toMatchObject({
      code: "TENANT_NOT_FOUND",
    });
    await rig.engine().getRun(TENANT, run.runId).cancel();
    await expect(resume("door")).rejects.toMatchObject({ code: "HOOK_NOT_FOUND" });
  });

  it("a token that another run holds is a conflict that the code sees at once", async () => {
    const rig = createRig({
      programs: {
        ...door,
        second: async (guest) => {
          const hook = guest.hook("door", { awaitsConflict: true });
          const holder = await hook.conflict();
          return holder === null ? "mine" : `held by ${holder}`;
        },
      },
    });
    const first = await rig.start("main");
    await rig.settle();
    const second = await rig.start("second");
    await rig.settle();
    expect(await rig.output(second)).toBe(`held by ${first.runId}`);
    expect(rig.deliveries).toHaveLength(2);
  });

  it("no inline step starts beside a new hook whose conflict is awaited", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const work = guest.step("work");
          await guest.hook("door", { awaitsConflict: true }).conflict();
          return work;
        },
      },
      steps: { work: () => done("x") },
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(await rig.types(run)).toContain("step_created");
    expect(await rig.output(run)).toBe("x");
  });

  it("a disposed hook takes no payload, and its token is free", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const hook = guest.hook("door");
          await hook.next();
          hook.dispose();
          const again = guest.hook("door");
          return again.next();
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    await rig.resume("door", "a");
    await rig.settle();
    await rig.resume("door", "b");
    await rig.settle();
    expect(await rig.output(run)).toBe("b");
    expect((await rig.types(run)).filter((type) => type.startsWith("hook"))).toEqual([
      "hook_created",
      "hook_received",
      "hook_disposed",
      "hook_created",
      "hook_received",
    ]);
  });

  it("attributes are written in the order asked", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          await guest.setAttributes({ a: "1", b: "1" });
          await guest.setAttributes({ a: "2", b: null });
          return "end";
        },
      },
    });
    const run = await rig.start();
    await rig.settle();
    const row = await rig.world.forTenant(TENANT).runs.get(run.runId);
    expect(row?.attributes).toEqual({ a: "2" });
  });
});
