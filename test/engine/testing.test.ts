import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createTestBaton } from "../../engine/testing.ts";
import type { TestBaton } from "../../engine/testing.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import type { BuiltBundle } from "../../tenants/bundles/build.ts";
import { projectOf } from "../tenants/bundles/project.ts";

const SOURCE = `
import { createHook, sleep } from "workflow";

async function charge(order) {
  "use step";
  return "charged " + order;
}

export async function approval(order) {
  "use workflow";
  const hook = createHook({ token: "approve " + order });
  const answer = await Promise.race([hook, sleep("1d").then(() => "too late")]);
  return answer === "yes" ? charge(order) : answer;
}

export async function race() {
  "use workflow";
  const hook = createHook({ token: "race" });
  return Promise.race([charge("x"), hook, sleep(1000).then(() => "slept")]);
}
`;
const CHARGE = "step//./workflows/approval//charge";
const HOUR_MS = 3_600_000;

let bundle: BuiltBundle;
let kit: TestBaton;
let held: { readonly promise: Promise<string>; readonly release: (value: string) => void }[] = [];

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
    expect(await run.status()).toBe("running");
    await kit.advance(HOUR_MS);
    expect(await run.returnValue()).toBe("too late");
  });

  it("tells the token of the hook that a run waits on", async () => {
    const run = await kit.baton.start("approval", [8]);
    const { token } = await kit.waitForHook(run);
    expect(token).toBe("approve 8");
    await kit.baton.resumeHook(token, "yes");
    expect(await run.returnValue()).toBe("charged 8");
  });

  it("a wait for what will not come says what the run is", async () => {
    const run = await kit.baton.start("approval", [9]);
    await kit.waitForHook(run, { token: "approve 9" });
    await run.cancel();
    await expect(kit.waitForSleep(run)).rejects.toThrow(
      /is cancelled: it will not come to a sleep/,
    );
  });
});

describe("a race is won by what the test lets commit first", () => {
  const stubbed = async () => {
    await kit.close();
    held = [];
    const charge = () => {
      let release: (value: string) => void = () => undefined;
      const promise = new Promise<string>((resolve) => (release = resolve));
      held.push({ promise, release });
      return promise;
    };
    kit = await createTestBaton({
      deploy: bundle,
      steps: { functions: new Map([[CHARGE, charge]]) },
    });
    const run = await kit.baton.start("race", []);
    await kit.waitForSleep(run);
    await kit.settle();
    return run;
  };
  const moves = {
    step: async () => held[0]?.release("charged"),
    hook: async () => void (await kit.baton.resumeHook("race", "resumed")),
    sleep: () => kit.advance(1000),
  };
  const outcomes = { step: "charged", hook: "resumed", sleep: "slept" };
  const names = ["step", "hook", "sleep"] as const;
  const pairs = names.flatMap((first) =>
    names.filter((second) => second !== first).map((second) => ({ first, second })),
  );

  it.each(pairs)("$first before $second", async ({ first, second }) => {
    const run = await stubbed();
    await moves[first]();
    await kit.settle();
    // The run is over and takes nothing more.
    await moves[second]().catch(() => undefined);
    held[0]?.release("charged");
    expect(await run.returnValue()).toBe(outcomes[first]);
  });

  it.each(names)("a cancellation before $0", async (later) => {
    const run = await stubbed();
    await run.cancel("no more");
    await moves[later]().catch(() => undefined);
    held[0]?.release("charged");
    await expect(run.returnValue()).rejects.toMatchObject({ code: "RUN_CANCELLED" });
  });
});
