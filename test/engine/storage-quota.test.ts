import { describe, expect, it } from "vitest";
import type { TenantStorage } from "../../engine/ports/tenants.ts";
import { storageRefusal } from "../../engine/storage-quota.ts";
import type { Program } from "./fake-sandbox.ts";
import { createRig, done } from "./rig.ts";

const stored = (usedBytes: number): TenantStorage => ({ usedBytes, allowedBytes: 1000 });
const two: Program = async (guest) => {
  await guest.step("first", "");
  await guest.hook("door").next();
  return guest.step("second", "");
};

describe("the quota of stored bytes (E100)", () => {
  it.each([
    [999, null, null],
    [1000, 1000, null],
    [1999, 1000, null],
    [2000, 1000, 2000],
  ])("with %i of 1000 bytes stored: start stops at %j, a running run at %j", (used, start, run) => {
    const standing = { storage: stored(used) } as Parameters<typeof storageRefusal>[0];
    const allowed = (what: "start" | "running run") =>
      storageRefusal(standing, what)?.details.allowed ?? null;
    expect([allowed("start"), allowed("running run")]).toEqual([start, run]);
  });

  it("refuses a start with what is used and allowed; running runs go on up to twice as much", async () => {
    let storage = stored(0);
    const steps = { first: () => done("a"), second: () => done("b") };
    const rig = createRig({ programs: { main: two }, steps, storage: () => storage });
    const run = await rig.start();
    await rig.settle();
    storage = stored(1000);
    await expect(rig.start()).rejects.toMatchObject({
      code: "STORED_BYTES_EXCEEDED",
      status: 507,
      details: { field: "storedBytesMax", used: 1000, allowed: 1000 },
    });
    storage = stored(1999);
    await rig.resume("door", "open");
    await rig.settle();
    expect(await rig.output(run)).toBe("b");
  });

  it("fails a running run at twice as much, and says so; once there is room, others start again", async () => {
    let storage = stored(0);
    const steps = { first: () => done("a"), second: () => done("b") };
    const rig = createRig({ programs: { main: two }, steps, storage: () => storage });
    const run = await rig.start();
    await rig.settle();
    storage = stored(2000);
    await rig.resume("door", "open");
    await rig.settle();
    expect(await rig.outcome(run)).toMatchObject({
      kind: "failed",
      errorCode: "STORED_BYTES_EXCEEDED",
    });
    expect(rig.attempts.map((attempt) => attempt.stepName)).toEqual(["first"]);
    storage = stored(0);
    const next = await rig.start();
    await rig.settle();
    await rig.resume("door", "open");
    await rig.settle();
    expect(await rig.output(next)).toBe("b");
  });

  it("fails a run that only waits for a step in the background, whose body does not begin", async () => {
    let storage = stored(0);
    const rig = createRig({
      programs: { main: (guest) => guest.step("first", "") },
      steps: { first: () => done("a") },
      settings: { inlineStepsMax: 0 },
      storage: () => storage,
      wrap: (world) => ({
        ...world,
        queue: {
          ...world.queue,
          // The tenant runs out of room just as its step is sent off.
          sendBatch: (sends) => {
            storage = stored(2000);
            return world.queue.sendBatch(sends);
          },
          send: (message, options) => {
            if (message.kind === "step") storage = stored(2000);
            return world.queue.send(message, options);
          },
        },
      }),
    });
    const run = await rig.start();
    await rig.settle();
    expect(rig.attempts).toEqual([]);
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "STORED_BYTES_EXCEEDED" });
    await rig.advance(120_000);
    expect(rig.deliveries.at(-1)?.answer).toEqual({ kind: "ack" });
  });
});
