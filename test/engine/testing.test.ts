import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createTestBaton, moves } from "../../engine/testing.ts";
import type { TestBaton, TestBatonOptions } from "../../engine/testing.ts";
import type { BatonError } from "../../engine/errors.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import type { BuiltBundle } from "../../tenants/bundles/build.ts";
import { projectOf } from "../tenants/bundles/project.ts";

const SOURCE = `
import { createHook, getStepMetadata, sleep } from "workflow";

async function charge(order) {
  "use step";
  return "charged " + order + " at attempt " + getStepMetadata().attempt;
}

async function flaky() {
  "use step";
  if (getStepMetadata().attempt === 1) throw new Error("not yet");
  return "at last";
}

export async function approval(order) {
  "use workflow";
  const hook = createHook({ token: "approve " + order });
  const answer = await Promise.race([hook, sleep("1d").then(() => "too late")]);
  return answer === "yes" ? charge(order) : answer;
}

export async function charging(order) {
  "use workflow";
  return Promise.race([charge(order), sleep("5m").then(() => "slept")]);
}

export async function retried() {
  "use workflow";
  return flaky();
}

export async function failing() {
  "use workflow";
  throw new RangeError("no luck");
}
`;
const HOUR_MS = 3_600_000;

let bundle: BuiltBundle;
let kit: TestBaton;

async function reopened(options: TestBatonOptions): Promise<void> {
  await kit.close();
  kit = await createTestBaton({ deploy: bundle, ...options });
}

beforeAll(async () => {
  const projectRoot = projectOf({ "workflows/approval.js": SOURCE });
  bundle = await buildBundle({ projectRoot, entries: ["workflows"] });
});
beforeEach(async () => {
  kit = await createTestBaton({ deploy: bundle });
});
afterEach(async () => {
  await kit.close();
});

describe("a Baton for tests", () => {
  it("runs a bundle's steps in heaps, and a day passes when the test says so", async () => {
    const run = await kit.baton.start("approval", [7]);
    const { resumeAt } = await kit.waitForSleep(run);
    expect(resumeAt - kit.now()).toBe(24 * HOUR_MS);
    await kit.advance(23 * HOUR_MS);
    expect(await kit.outcome(run)).toEqual({ status: "running" });
    await kit.advanceTo(resumeAt);
    expect(await kit.outcome(run)).toEqual({ status: "completed", output: "too late" });
  });

  it("tells the token of the hook that a run waits on", async () => {
    const run = await kit.baton.start("approval", [8]);
    const { token } = await kit.waitForHook(run);
    expect(token).toBe("approve 8");
    await kit.baton.resumeHook(token, "yes");
    expect(await run.returnValue()).toBe("charged 8 at attempt 1");
  });

  it("shows a run's log with its values", async () => {
    const run = await kit.baton.start("failing", []);
    expect(await kit.outcome(run)).toMatchObject({ status: "failed", errorCode: "USER_ERROR" });
    const events = await kit.events(run);
    expect(events.map(({ slot, eventType }) => [slot, eventType])).toEqual([
      [1, "run_created"],
      [2, "run_started"],
      [3, "run_failed"],
    ]);
    expect(events[2]?.data["error"]).toMatchObject({ name: "RangeError", message: "no luck" });
  });

  it("gives the same log for the same script, ids and times included", async () => {
    const log = async () => {
      await reopened({});
      kit.hold("charge");
      const run = await kit.baton.start("charging", [1]);
      await kit.waitForStep(run, "charge");
      await kit.race(run, [moves.crash(), moves.step("charge"), moves.sleep()]);
      return kit.events(run);
    };
    const first = await log();
    expect(first.length).toBeGreaterThan(6);
    // The input's bytes are the same; only the keys of the seal are drawn anew.
    expect(await log()).toEqual(first);
  });

  it("keeps a step's outcome until it is let go", async () => {
    const letGo = kit.hold("charge");
    const run = await kit.baton.start("charging", [2]);
    expect(await kit.waitForStep(run, "charge")).toMatchObject({ attempt: 1 });
    expect(await kit.outcome(run)).toEqual({ status: "running" });
    letGo();
    expect(await run.returnValue()).toBe("charged 2 at attempt 1");
  });

  it("works over guest threads, whose death a crash is", async () => {
    await reopened({ sandbox: { form: "threads" }, waitMsMax: 25_000 });
    const run = await kit.baton.start("approval", [3]);
    await kit.waitForHook(run);
    await kit.crash();
    await kit.baton.resumeHook("approve 3", "yes");
    expect(await run.returnValue()).toBe("charged 3 at attempt 1");
  });
});

describe("the death of a worker", () => {
  it("takes an outcome with it that was not committed, and the body runs again", async () => {
    const letGo = kit.hold("charge");
    const run = await kit.baton.start("charging", [4]);
    await kit.waitForStep(run, "charge");
    await kit.crash();
    expect(await kit.waitForStep(run, "charge")).toMatchObject({ attempt: 2 });
    letGo();
    expect(await run.returnValue()).toBe("charged 4 at attempt 2");
  });

  it("is nothing to who holds a run or the Baton, and to lifecycle hooks", async () => {
    const ended: string[] = [];
    const unregister = kit.baton.registerLifecycleHooks({
      onRunCompleted: ({ runId }) => ended.push(runId),
    });
    const run = await kit.baton.start("approval", [5]);
    const value = run.returnValue();
    await kit.waitForSleep(run);
    await kit.crash();
    await kit.advance(24 * HOUR_MS);
    expect(await value).toBe("too late");
    await kit.settle();
    expect(ended).toEqual([run.runId]);
    unregister();
  });
});

describe("a race", () => {
  it("ends with what the moves of one run came to; other runs go on meanwhile", async () => {
    kit.hold("charge");
    const run = await kit.baton.start("charging", [1]);
    const other = await kit.baton.start("charging", [2]);
    await kit.waitForStep(run, "charge");
    await kit.waitForStep(other, "charge");
    const landings = await kit.race(run, [moves.sleep(), moves.cancel("late")]);
    expect(landings).toMatchObject([
      { kind: "committed", eventType: "wait_completed" },
      { kind: "committed", eventType: "run_cancelled" },
    ]);
    expect(await kit.outcome(other)).toEqual({ status: "completed", output: "slept" });
  });

  it("makes a failed attempt commit as well, and the next one is held again", async () => {
    kit.hold("flaky");
    const run = await kit.baton.start("retried", []);
    await kit.waitForStep(run, "flaky");
    const [landing] = await kit.race(run, [moves.step("flaky")]);
    expect(landing).toMatchObject({ kind: "committed", eventType: "step_retrying" });
    await kit.advance(HOUR_MS);
    expect(await kit.waitForStep(run, "flaky")).toMatchObject({ attempt: 2 });
    await kit.race(run, [moves.step("flaky")]);
    expect(await run.returnValue()).toBe("at last");
  });
});

describe("what a test asks for and does not get", () => {
  const refusal = async (asked: Promise<unknown>) => {
    const error = await asked.then(
      () => null,
      (reason: unknown) => reason as BatonError,
    );
    return `${error?.code}: ${error?.message}`;
  };
  beforeEach(async () => {
    await reopened({ waitMsMax: 300 });
  });

  it("of a run that is over names how it ended", async () => {
    const run = await kit.baton.start("approval", [9]);
    await kit.waitForHook(run, { token: "approve 9" });
    await run.cancel();
    expect(await refusal(kit.waitForSleep(run))).toBe(
      "NOT_REACHED: the run will not come to a sleep; it is cancelled",
    );
    const failed = await kit.baton.start("failing", []);
    await kit.settle();
    expect(await refusal(kit.waitForHook(failed, { token: "x" }))).toMatch(
      /^NOT_REACHED: the run will not come to a hook "x"; it is failed: USER_ERROR: .*no luck/,
    );
  });

  it("of a run that waits says for what it waits", async () => {
    const run = await kit.baton.start("approval", [10]);
    expect(await refusal(kit.waitForHook(run, { token: "other" }))).toMatch(
      /^NOT_REACHED: the run did not come to a hook "other"; it is running with 4 events: sleep wait_\w+, due in 86400000 ms; hook "approve 10", no payload yet$/,
    );
    expect(await refusal(run.returnValue())).toMatch(
      /^NOT_REACHED: the run did not come to its end; it is running/,
    );
    kit.hold("charge");
    const held = await kit.baton.start("charging", [1]);
    expect(await refusal(held.returnValue())).toMatch(
      /step step\S+charge, attempt 1: its outcome is held$/,
    );
  });

  it("of a race that cannot be is refused, and the run goes on", async () => {
    const run = await kit.baton.start("approval", [11]);
    await kit.waitForSleep(run);
    expect(await refusal(kit.race(run, [moves.hook("other", 1)]))).toMatch(
      /^NOT_REACHED: a race cannot make "hook": the run has no open hook of this token; it is running/,
    );
    expect(await refusal(kit.race(run, [moves.wake(["wait_x"])]))).toMatch(
      /^NOT_REACHED: a race cannot make "wake": the run has no such sleep that is open/,
    );
    expect(await refusal(kit.race(run, [moves.step("charge")]))).toMatch(
      /^NOT_REACHED: the run did not come to an outcome of step charge; it is running/,
    );
    await kit.baton.resumeHook("approve 11", "yes");
    expect(await run.returnValue()).toBe("charged 11 at attempt 1");
  });

  it("of a step that nothing holds says to hold it", async () => {
    const run = await kit.baton.start("charging", [12]);
    expect(await refusal(kit.waitForStep(run, "charge"))).toBe(
      "INVALID_ARGUMENT: nothing holds step charge: call hold() before the run comes to it",
    );
  });
});
