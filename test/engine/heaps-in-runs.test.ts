/** Heaps over the deliveries of a run: kept, put away, lost, broken, and compared with the log. */
import { describe, expect, it } from "vitest";
import type { PassResult } from "../../engine/ports/sandbox.ts";
import { slotOf } from "../../engine/slots.ts";
import type { Program } from "./fake-sandbox.ts";
import type { Settings } from "../../engine/settings.ts";
import { textOf } from "./log-of.ts";
import { createRig, done, TENANT } from "./rig.ts";
import type { Rig } from "./rig.ts";

const HOUR = 3_600_000;
const waitsForDoor: Program = (guest) => guest.hook("door").next();
const sequence: Program = async (guest) => {
  for (let n = 0; n < 60; n++) await guest.step("work", String(n));
  const first = await guest.hook("door").next();
  return first + (await guest.step("work", "last"));
};
const work = { work: () => done("x") };
/** Whatever the environment says. */
const KEPT = { isCold: false };

describe("heaps between deliveries", () => {
  it("a live heap is fed only what is new", async () => {
    const rig = createRig({ programs: { main: sequence }, steps: work, settings: KEPT });
    const run = await rig.start();
    await rig.settle();
    const fed = rig.sandbox.fedCount();
    await rig.resume("door", "a");
    await rig.settle();
    expect(await rig.output(run)).toBe("ax");
    expect(rig.sandbox.fedCount() - fed).toBe(3);
    expect(rig.sandbox.opened).toEqual({ cold: 1, restored: 0 });
  });

  it("after a restart the snapshot is opened and the log read above it", async () => {
    const rig = createRig({ programs: { main: sequence }, steps: work, settings: KEPT });
    const run = await rig.start();
    await rig.settle();
    rig.restart();
    const fed = rig.sandbox.fedCount();
    await rig.resume("door", "a");
    await rig.settle();
    expect(await rig.output(run)).toBe("ax");
    expect(rig.sandbox.fedCount() - fed).toBe(3);
    expect(rig.sandbox.opened).toEqual({ cold: 1, restored: 1 });
    expect(await rig.world.forTenant(TENANT).snapshots.get(run.runId)).toBeNull();
  });

  it.each([
    ["is of another log", { digest: "f".repeat(64) }],
    ["claims another slot", { slot: slotOf(5) }],
    ["is damaged", { bytes: new Uint8Array([0, 0]) }],
    ["is empty", { bytes: new Uint8Array([0, 0, 0, 0]) }],
    ["has a head past its end", { bytes: new Uint8Array([255, 0, 0, 0]) }],
  ])("a snapshot that %s is left alone: the log decides", async (_name, change) => {
    const rig = createRig({ programs: { main: sequence }, steps: work, settings: KEPT });
    const run = await rig.start();
    await rig.settle();
    const { snapshots } = rig.world.forTenant(TENANT);
    const stored = await snapshots.get(run.runId);
    await snapshots.put(run.runId, { ...stored!, ...change });
    rig.restart();
    await rig.resume("door", "a");
    await rig.settle();
    expect(await rig.output(run)).toBe("ax");
    expect(rig.sandbox.opened).toEqual({ cold: 2, restored: 0 });
  });

  it("without any heap or snapshot the outcome is the same", async () => {
    const rig = createRig({
      programs: { main: sequence },
      steps: work,
      settings: { isCold: true },
    });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.world.forTenant(TENANT).snapshots.get(run.runId)).toBeNull();
    await rig.resume("door", "a");
    await rig.settle();
    expect(await rig.output(run)).toBe("ax");
    expect(rig.sandbox.opened).toEqual({ cold: 2, restored: 0 });
  });
});

describe("a resume that is compared with a cold replay", () => {
  const doors: Program = async (guest) => {
    const door = guest.hook("door");
    const first = await guest.step("work", "first");
    for (let n = 0; n < 12; n++) await guest.step("work", `${first}${n}`);
    const payload = await door.next();
    return guest.step("work", `${first}+${payload}`);
  };
  const echo = { work: ({ input }: { input: Uint8Array }) => done(textOf(input)) };
  const checking = { replayCheckEvery: 1, isCold: false };
  const mismatches = (rig: Rig) =>
    rig.lines.filter((l) => l.fields["code"] === "SNAPSHOT_MISMATCH");

  /** The stored image says that the first step returned something else: as if memory had rotted. */
  async function doctored(settings: Partial<Settings>) {
    const rig = createRig({ programs: { main: doors }, steps: echo, settings });
    const run = await rig.start();
    await rig.settle();
    const { snapshots } = rig.world.forTenant(TENANT);
    const stored = await snapshots.get(run.runId);
    // As long, since the head tells how long it is.
    const text = Buffer.from(stored!.bytes).toString("latin1").replace(':"first"', ':"rotte"');
    await snapshots.put(run.runId, { ...stored!, bytes: Buffer.from(text, "latin1") });
    rig.restart();
    await rig.resume("door", "open");
    await rig.settle();
    return { rig, run };
  }

  it("a doctored snapshot is caught and reported, and the log wins", async () => {
    const { rig, run } = await doctored(checking);
    expect(await rig.output(run)).toBe("first+open");
    expect(mismatches(rig)).toHaveLength(1);
    expect(mismatches(rig)[0]?.fields["difference"]).toMatch(/^the heap has step step_/);
    expect(rig.counted("replayMismatches")).toBe(1);
    // The one that the process before the restart kept.
    expect(rig.sandbox.openHeapCount()).toBe(1);
  });

  it("without a check the same snapshot is followed: only the check can see it", async () => {
    const { rig, run } = await doctored({ ...checking, replayCheckEvery: 0 });
    expect(await rig.output(run)).toBe("rotte+open");
    expect(rig.counted("replayChecks")).toBe(0);
  });

  it("what a tenant's payloads hold is not in the report", async () => {
    const { rig } = await doctored(checking);
    expect(JSON.stringify(mismatches(rig))).not.toMatch(/first|rotte/);
  });

  it.each(["a live heap", "a snapshot"])("%s that is right goes on as it is", async (source) => {
    const rig = createRig({ programs: { main: doors }, steps: echo, settings: checking });
    const run = await rig.start();
    await rig.settle();
    if (source === "a snapshot") rig.restart();
    await rig.resume("door", "open");
    await rig.settle();
    expect(await rig.output(run)).toBe("first+open");
    expect(rig.counted("replayChecks")).toBe(1);
    expect(rig.counted("replayMismatches")).toBe(0);
    expect(rig.sandbox.openHeapCount()).toBe(source === "a snapshot" ? 1 : 0);
  });

  it("code that no longer goes along with its log is found, and met as a divergence", async () => {
    let isChanged = false;
    const rig = createRig({
      programs: {
        main: async (guest) => {
          if (isChanged) await guest.sleep(1_000);
          return doors(guest);
        },
      },
      steps: echo,
      settings: checking,
    });
    const run = await rig.start();
    await rig.settle();
    isChanged = true;
    await rig.resume("door", "open");
    await rig.settle();
    expect(mismatches(rig)).toHaveLength(1);
    const row = await rig.world.forTenant(TENANT).runs.get(run.runId);
    expect(row?.parked?.code).toBe("REPLAY_DIVERGENCE");
  });

  it("one resume in so many is drawn, and not every one", async () => {
    const many: Program = async (guest) => {
      const door = guest.hook("door");
      for (let n = 0; n < 200; n++) await door.next();
      return "through";
    };
    const settings = { replayCheckEvery: 10, isCold: false };
    const rig = createRig({ programs: { main: many }, settings });
    const run = await rig.start();
    await rig.settle();
    for (let n = 0; n < 200; n++) {
      await rig.resume("door", String(n));
      await rig.settle();
    }
    expect(await rig.output(run)).toBe("through");
    expect(rig.counted("replayChecks")).toBeGreaterThan(5);
    expect(rig.counted("replayChecks")).toBeLessThan(50);
  });

  it("a run that never rested is not replayed", async () => {
    const rig = createRig({
      programs: { main: (guest) => guest.step("work", "in") },
      steps: echo,
      settings: checking,
    });
    const run = await rig.start();
    await rig.runOut(run);
    expect(rig.counted("replayChecks")).toBe(0);
    expect(rig.sandbox.opened.cold).toBe(1);
  });
});

describe("what the sandbox answers", () => {
  const usage = { cpuMs: 1, heapBytes: 1 };
  const lost: PassResult = { kind: "lost", reason: "its thread was replaced" };
  const diverged: PassResult = {
    kind: "diverged",
    divergence: { slot: slotOf(3), expected: "step b", found: "step a" },
  };

  it("a lost heap is opened again and the run goes on", async () => {
    const rig = createRig({
      programs: { main: async (guest) => guest.step("work") },
      steps: work,
      interfere: ({ pass }) => (pass === 2 ? lost : null),
    });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.output(run)).toBe("x");
    expect(rig.attempts).toHaveLength(1);
    expect(rig.sandbox.opened.cold).toBe(2);
  });

  it("heaps that are lost again and again end in a counted redelivery, not in a loop", async () => {
    const rig = createRig({ programs: { main: waitsForDoor }, interfere: () => lost });
    await rig.start();
    await rig.settle();
    expect(rig.deliveries[0]?.answer).toEqual({ kind: "redeliver", afterMs: 1_000, counted: true });
    expect(rig.sandbox.opened.cold).toBe(4);
  });

  it("a heap that broke at the run's code is tried once more from the log alone", async () => {
    const trap: PassResult = { kind: "lost", reason: "unreachable", isTrap: true };
    let isDoctored = false;
    const rig = createRig({
      programs: { main: sequence },
      steps: work,
      interfere: ({ cold }) => (isDoctored && !cold ? trap : null),
      settings: { isCold: false },
    });
    const run = await rig.start();
    await rig.settle();
    rig.restart();
    isDoctored = true;
    await rig.resume("door", "a");
    await rig.settle();
    expect(await rig.output(run)).toBe("ax");
    expect(rig.sandbox.opened).toEqual({ cold: 2, restored: 1 });
    expect(rig.deliveries.every(({ answer }) => answer !== "rejected")).toBe(true);
  });

  it("a heap that breaks in a fresh one as well fails the run, typed, in one delivery", async () => {
    const trap: PassResult = { kind: "lost", reason: "unreachable", isTrap: true };
    const rig = createRig({ programs: { main: waitsForDoor }, interfere: () => trap });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "HEAP_BROKEN" });
    expect(rig.sandbox.opened.cold).toBe(2);
    expect(rig.deliveries).toHaveLength(1);
    expect(rig.sandbox.openHeapCount()).toBe(0);
    // What broke is ours to know: the tenant learns no address and no path.
    expect(await rig.output(run)).not.toContain("unreachable");
  });

  it("a divergence is met by cold replays in place, and the run goes on if one gets past it", async () => {
    const rig = createRig({
      programs: { main: async (guest) => guest.step("work") },
      steps: work,
      interfere: ({ pass }) => (pass >= 2 && pass <= 4 ? diverged : null),
    });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.output(run)).toBe("x");
    expect(rig.sandbox.opened.cold).toBe(4);
    expect(rig.deliveries).toHaveLength(1);
  });

  it("past the cap the run is parked with what was expected and found, not failed", async () => {
    let isMended = false;
    const rig = createRig({
      programs: { main: async (guest) => guest.step("work") },
      steps: work,
      interfere: ({ pass }) => (pass >= 2 && !isMended ? diverged : null),
    });
    const run = await rig.start();
    await rig.settle();
    const row = await rig.world.forTenant(TENANT).runs.get(run.runId);
    expect(row).toMatchObject({ status: "running", parked: { code: "REPLAY_DIVERGENCE" } });
    expect(row?.parked?.message).toBe("at slot 3 the log holds step a, the code asks for step b");
    expect(rig.deliveries[0]?.answer).toMatchObject({ kind: "redeliver", counted: false });
    await rig.advance(10 * HOUR);
    expect(rig.deliveries.at(-1)?.meta.attempt).toBe(1);
    isMended = true;
    expect(await rig.engine().unpark(run)).toBe(true);
    await rig.runOut(run);
    expect(await rig.output(run)).toBe("x");
  });

  it("a limit that was exceeded fails the run with its code, and the heap is gone", async () => {
    const rig = createRig({
      programs: { main: waitsForDoor },
      interfere: () => ({
        kind: "limit",
        exceeded: { code: "HEAP_LIMIT_EXCEEDED", limit: "heapBytesMax", used: 9, allowed: 8 },
        usage,
      }),
    });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.outcome(run)).toMatchObject({ errorCode: "HEAP_LIMIT_EXCEEDED" });
    expect(await rig.output(run)).toContain("heapBytesMax: used 9, allowed 8");
    expect(rig.sandbox.openHeapCount()).toBe(0);
  });
});
