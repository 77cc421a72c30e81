/**
 * For each scenario: the process dies before, and after, the Nth World call, for every N; then the
 * messages come again. Where only timing differs, the outcome and the creations are the same.
 */
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../engine/events.ts";
import type { EntityId, RunRef } from "../../engine/ids.ts";
import type { Settings } from "../../engine/settings.ts";
import type { CrashPoint } from "./crashing-world.ts";
import { Crash } from "./crashing-world.ts";
import type { Program } from "./fake-sandbox.ts";
import { idOf } from "./log-of.ts";
import { createRig, done, fails } from "./rig.ts";
import type { Rig, RigOptions } from "./rig.ts";

interface Scenario {
  readonly options: Omit<RigOptions, "programs" | "crash">;
  readonly program: Program;
  /** A step whose outcome nobody waits for, so that it may come before or after the run's end. */
  readonly leftOpen?: EntityId;
  /** What clients do once the run rests. */
  readonly clients?: (rig: Rig, run: RunRef) => Promise<void>;
}

const square: Record<string, (attempt: { input: Uint8Array }) => ReturnType<typeof done>> = {
  work: ({ input }) => done(`<${new TextDecoder().decode(input)}>`),
};

const SCENARIOS: Record<string, Scenario> = {
  "inline steps in sequence": {
    options: { steps: square },
    program: async (guest) => (await guest.step("work", "1")) + (await guest.step("work", "2")),
  },
  "a fan-out over inline and background steps": {
    options: { steps: square },
    program: async (guest) =>
      (await Promise.all(["1", "2", "3", "4", "5"].map((n) => guest.step("work", n)))).join(""),
  },
  "background steps alone": {
    options: { steps: square, settings: { inlineStepsMax: 0 } },
    program: async (guest) =>
      (await guest.step("work", "1")) +
      (await Promise.all(["2", "3"].map((n) => guest.step("work", n)))).join(""),
  },
  "two sleeps at once, then one": {
    options: {},
    program: async (guest) => {
      await Promise.all([guest.sleep(3_600_000), guest.sleep(7_200_000)]);
      await guest.sleep(1);
      return "woke";
    },
  },
  "a sleep over several hops": {
    options: {},
    program: async (guest) => {
      await guest.sleep(3 * 86_400_000);
      return "woke";
    },
  },
  "a retry that leaves the orchestrator": {
    options: {
      steps: {
        flaky: {
          maxRetries: 9,
          body: ({ attempt }) => (attempt < 3 ? fails("not yet") : done("at last")),
        },
      },
    },
    program: async (guest) => guest.step("flaky"),
  },
  "a race of a step, a hook and a sleep": {
    options: { steps: square },
    program: async (guest) => {
      const hook = guest.hook("door");
      const first = await Promise.race([
        hook.next(),
        guest.sleep(86_400_000).then(() => "timeout"),
      ]);
      hook.dispose();
      return first + (await guest.step("work", "after"));
    },
    clients: async (rig) => {
      await rig.resume("door", "payload", "resume-1").catch((error: unknown) => {
        if (error instanceof Crash) throw error;
      });
    },
  },
  "attributes, bad arguments, hooks and steps left open": {
    options: { steps: square },
    program: async (guest) => {
      await guest.setAttributes({ phase: "one" });
      const bad = await guest.badStep("work").catch((error: Error) => error.message);
      const hook = guest.hook("t", { retentionMs: 1_000 });
      hook.dispose();
      void guest.step("work", "left open");
      return bad;
    },
    leftOpen: idOf("step", 4),
  },
  "a sleep that is woken": {
    options: { steps: square },
    program: async (guest) => {
      await guest.sleep(300 * 86_400_000);
      return guest.step("work", "woken");
    },
    clients: async (rig, run) => {
      await rig.engine().getRun(run.tenantId, run.runId).wakeUp();
    },
  },
};

/** Everything awaited, and everything ahead of its commit that may be. */
const FORMS: Readonly<Record<string, Partial<Settings>>> = {
  awaited: {},
  "running ahead": { runAheadDepth: 10, turbo: true },
};

async function play(
  scenario: Scenario,
  form: Partial<Settings>,
  crash?: CrashPoint,
): Promise<{ rig: Rig; run: RunRef }> {
  const rig = createRig({
    ...scenario.options,
    settings: { ...scenario.options.settings, ...form },
    programs: { main: scenario.program },
    ...(crash === undefined ? {} : { crash }),
  });
  const run = await again(() => rig.start("main", "", "key"));
  await rig.settle();
  // Rejected deliveries come again within seconds; no sleep of a scenario is as short.
  await rig.advance(30_000);
  const { clients } = scenario;
  if (clients !== undefined) await again(() => clients(rig, run));
  await rig.runOut(run);
  await rig.settle();
  return { rig, run };
}

/** A client whose process died asks once more. */
async function again<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Crash)) throw error;
    return ask();
  }
}

/** What must not depend on timing: which entities were created, as what, and how the run ended. */
function shape(log: readonly RunEvent[], leftOpen?: EntityId): string[] {
  const creations = log
    .filter(
      (event) =>
        ["step_created", "wait_created", "hook_created", "attr_set", "run_created"].includes(
          event.eventType,
        ) ||
        (event.eventType === "step_started" && event.eventData.inline === true),
    )
    .map((event) => `${event.correlationId ?? "run"} created`);
  const outcomes = log
    .filter((event) => /_(completed|failed)$/.test(event.eventType))
    .filter((event) => leftOpen === undefined || event.correlationId !== leftOpen)
    .map((event) => `${event.correlationId ?? "run"} ${event.eventType}`);
  return [...new Set([...creations, ...outcomes])].sort();
}

/** Rules that hold in every log, crash or not. */
function check(log: readonly RunEvent[]): void {
  expect(log.map((event) => Number(event.slot))).toEqual(log.map((_, index) => index + 1));
  const created = log.filter(
    (event) =>
      ["step_created", "wait_created", "hook_created", "attr_set"].includes(event.eventType) ||
      (event.eventType === "step_started" && event.eventData.inline === true),
  );
  const ids = created.map((event) => event.correlationId);
  expect(new Set(ids).size).toBe(ids.length);
  expect(log.filter((event) => event.eventType === "run_started")).toHaveLength(1);
  expect(log.filter((event) => /^run_(completed|failed)$/.test(event.eventType))).toHaveLength(1);
}

describe.each(Object.entries(SCENARIOS))("%s", (_name, scenario) => {
  it.each(
    (["before", "after"] as const).flatMap((when) =>
      Object.entries(FORMS).map(([name, form]) => [when, name, form] as const),
    ),
  )("ends the same when its process dies %s any World call, %s", async (when, _form, form) => {
    const baseline = await play(scenario, form);
    const expected = {
      output: await baseline.rig.output(baseline.run),
      shape: shape(await baseline.rig.log(baseline.run), scenario.leftOpen),
    };
    expect(expected.output).not.toMatch(/running|failed/);
    const callCount = baseline.rig.calls().length;
    expect(callCount).toBeGreaterThan(5);
    for (let call = 1; call <= callCount; call++) {
      const { rig, run } = await play(scenario, form, { call, when });
      const log = await rig.log(run);
      const told = `dies ${when} call ${call}: ${baseline.rig.calls()[call - 1]}`;
      expect({
        told,
        output: await rig.output(run),
        shape: shape(log, scenario.leftOpen),
      }).toEqual({
        told,
        ...expected,
      });
      check(log);
      expect(rig.sandbox.openHeapCount(), told).toBeLessThanOrEqual(1);
    }
  });
});
