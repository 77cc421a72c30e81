/** Whole runs over real heaps: kept live, restored after every delivery, or replayed from cold. */
import { afterAll, describe, expect, it } from "vitest";
import type { RunRef } from "../../engine/ids.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { guestLibrary } from "../sandbox/equivalence/lead.ts";
import { PROGRAMS } from "../sandbox/equivalence/programs.ts";
import { WORKFLOW_NAME, tenantSource } from "../sandbox/tenant-source.ts";
import type { CrashPoint } from "./crashing-world.ts";
import { Crash } from "./crashing-world.ts";
import { createRig, done } from "./rig.ts";
import type { Rig } from "./rig.ts";

const sandboxes: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const sandbox of sandboxes) await sandbox.close();
});

const HEAP = {
  heapBytesMax: 32 << 20,
  cpuSoftMs: 20_000,
  cpuHardMs: 40_000,
  stackBytesMax: 256 << 10,
  jobsPerEventMax: 1_000_000,
  openOperationsMax: 5_000,
  payloadBytesMax: 128 << 10,
  consoleBytesPerPassMax: 64 << 10,
};

/** Steps answer with the number of bytes they were given, so outcomes follow from inputs. */
const answer = { body: ({ input }: { input: Uint8Array }) => done(`devl[${input.length}]`) };
const STEPS = new Proxy<Record<string, typeof answer>>({}, { get: () => answer });

type Keep = "live" | "restored" | "cold";

function rigOf(source: string, keep: Keep, crash?: CrashPoint): Rig {
  const sandbox = createSandbox({ form: "calling-thread" });
  sandboxes.push(sandbox);
  const rig: Rig = createRig({
    programs: {},
    steps: STEPS,
    settings: { isCold: keep === "cold" },
    real: { sandbox, code: { workflowCode: source, guestLibrary }, heap: HEAP },
    ...(crash === undefined ? {} : { crash }),
  });
  return rig;
}

/** Plays it to the end; `restored`: the process is another one for every delivery. */
async function play(source: string, keep: Keep, crash?: CrashPoint) {
  const rig = rigOf(source, keep, crash);
  const start = () => rig.start(WORKFLOW_NAME, "devl[[]]", "key");
  const run: RunRef = await start().catch((error: unknown) => {
    if (error instanceof Crash) return start();
    throw error;
  });
  for (let turns = 0; turns < 200 && (await rig.outcome(run)) === null; turns++) {
    await rig.settle();
    if (keep === "restored") rig.restart();
    const next = rig.clock.nextTimerAt;
    if (next !== null) await rig.advance(next - rig.clock.now());
    await rig.resume("door", "devl[1]", `resume ${turns}`).catch(() => undefined);
  }
  const log = await rig.log(run);
  const shape = log
    .filter((event) => event.eventType !== "hook_received")
    .map((event) => `${event.eventType} ${event.correlationId ?? ""}`);
  return { rig, run, output: await rig.output(run), shape };
}

const MIXED = tenantSource(`
  const seen = [];
  const first = await step("a")(1);
  seen.push(first, await Promise.all([1, 2, 3, 4, 5].map((n) => step("b")("x".repeat(n)))));
  const door = hook({ token: "door" });
  const timeout = sleep(86400000 * 40).then(() => "timeout");
  seen.push(await Promise.race([door, timeout]));
  door.dispose();
  for (let i = 0; i < 8; i++) seen.push(await step("c")(i));
  await Promise.all([sleep(3600000), sleep(1800000)]);
  seen.push(new Date().getTime() > 0, Math.random() < 1);
  return seen;`);

describe("a run over real heaps", () => {
  it.each([
    ["steps, hooks and sleeps", MIXED] as const,
    ...["a loop of steps", "races", "allSettled", "private fields", "async generators"].map(
      (name) => [name, PROGRAMS[name] ?? ""] as const,
    ),
  ])("%s: ends the same live, restored in new processes, and from cold", async (_name, source) => {
    const live = await play(source, "live");
    expect(live.output).toMatch(/^devl/);
    const restored = await play(source, "restored");
    const cold = await play(source, "cold");
    for (const other of [restored, cold]) {
      expect(other.output).toBe(live.output);
      expect(new Set(other.shape)).toEqual(new Set(live.shape));
    }
  });

  it("restores snapshots rather than replaying", async () => {
    const { rig } = await play(MIXED, "restored");
    const lines = rig.lines.filter((line) => line.message === "delivery");
    const sum = (field: string) =>
      lines.reduce((n, line) => n + Number(line.fields[field] ?? 0), 0);
    expect(sum("restores")).toBeGreaterThan(0);
  });

  it.each(["before", "after"] as const)(
    "ends the same when its process dies %s a World call",
    async (when) => {
      const baseline = await play(MIXED, "live");
      const count = baseline.rig.calls().length;
      for (let call = 2; call <= count; call += 5) {
        const told = `dies ${when} call ${call}: ${baseline.rig.calls()[call - 1]}`;
        const { output } = await play(MIXED, "live", { call, when });
        expect({ told, output }).toEqual({ told, output: baseline.output });
      }
    },
    120_000,
  );
});
