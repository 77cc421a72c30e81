import { describe, expect, it } from "vitest";
import { createRig, done } from "./rig.ts";

describe("a run from start to end", () => {
  it("goes from inline steps over a sleep and a hook to its output", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => {
          const a = await guest.step("a", guest.input);
          await guest.sleep(60_000);
          const hook = guest.hook("door");
          const said = await hook.next();
          return `${a} ${said} ${await guest.step("b", said)}`;
        },
      },
      steps: { a: () => done("A"), b: () => done("B") },
    });
    const run = await rig.start("main", "in");
    await rig.settle();
    expect(await rig.types(run)).toEqual([
      "run_created",
      "run_started",
      "step_started",
      "step_completed",
      "wait_created",
    ]);
    await rig.advance(60_000);
    expect((await rig.types(run)).slice(5)).toEqual(["wait_completed", "hook_created"]);
    await rig.engine().resumeHook({
      tenantId: run.tenantId,
      token: "door",
      payload: new TextEncoder().encode("open"),
    });
    await rig.settle();
    expect(await rig.output(run)).toBe("A open B");
    expect((await rig.types(run)).slice(7)).toEqual([
      "hook_received",
      "step_started",
      "step_completed",
      "run_completed",
    ]);
    expect(rig.sandbox.openHeapCount()).toBe(0);
    expect(rig.deliveries.every((one) => one.answer !== "rejected")).toBe(true);
  });
});
