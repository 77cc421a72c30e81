/** Needs `npm run build` first. Each limit just met and just exceeded; what a kill does to others. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import type { Incident } from "../../sandbox/threads.ts";
import { HeldClock, attemptOf, failureOf, resultOf, rigOf, stepCode } from "./step-attempts.ts";
import type { Rig, RigOptions } from "./step-attempts.ts";

const open: Rig[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((rig) => rig.close()));
});

function bodies(
  of: Readonly<Record<string, string>>,
  options: RigOptions & { readonly maxRetries?: number } = {},
): Rig {
  const { maxRetries, ...more } = options;
  const rig = rigOf({ bundle: stepCode(of, maxRetries === undefined ? {} : { maxRetries }) }, more);
  open.push(rig);
  return rig;
}

const limitOf = (outcome: StepOutcome) => failureOf(outcome).error;

describe("a limit of a body", () => {
  it("of heap is met by 16 MiB and exceeded by 32, whatever the body catches", async () => {
    const { steps } = bodies({
      body: `let held; try { held = new Uint8Array(args[0] << 20).fill(1) } catch {}
        return held?.length ?? "caught";`,
    });
    expect(resultOf(await steps.run(attemptOf("body", [16])))).toBe(16 << 20);
    expect(limitOf(await steps.run(attemptOf("body", [32])))).toMatchObject({
      name: "QuotaExceededError",
      code: "HEAP_LIMIT_EXCEEDED",
      limit: "heapBytesMax",
      allowed: 32 << 20,
    });
  });

  it("of CPU in one turn ends a loop, also one that catches", async () => {
    const { steps } = bodies(
      { body: `for (;;) { try { for (;;); } catch {} }`, short: `return 1` },
      { limits: { heap: { cpuSoftMs: 50 } } },
    );
    expect(limitOf(await steps.run(attemptOf("body")))).toMatchObject({
      code: "CPU_LIMIT_EXCEEDED",
      limit: "cpuSoftMs",
      allowed: 50,
    });
    expect(resultOf(await steps.run(attemptOf("short")))).toBe(1);
  });

  it("of CPU over all turns ends a body whose turns are each allowed", async () => {
    const { steps } = bodies(
      {
        body: `for (let turn = 0; ; turn++) {
          for (let i = 0; i < 2e5; i++);
          await new Promise((resolve) => setTimeout(resolve));
        }`,
      },
      { limits: { cpuMsMax: 150 } },
    );
    const { code, limit, used, allowed } = limitOf(await steps.run(attemptOf("body")));
    expect({ code, limit, allowed }).toEqual({
      code: "CPU_LIMIT_EXCEEDED",
      limit: "cpuMsMax",
      allowed: 150,
    });
    expect(used).toBeGreaterThanOrEqual(150);
  });

  it("of time ends a body that waits for longer, and none that ends before", async () => {
    const clock = new HeldClock();
    const { steps } = bodies(
      { body: `await new Promise((resolve) => setTimeout(resolve, args[0])); return "done"` },
      { clock, limits: { wallMsMax: 1000 } },
    );
    const short = steps.run(attemptOf("body", [999]));
    await vi.waitFor(() => expect(clock.timers).toBe(2));
    clock.advance(999);
    expect(resultOf(await short)).toBe("done");
    const long = steps.run(attemptOf("body", [1e12]));
    await vi.waitFor(() => expect(clock.timers).toBe(2));
    clock.advance(1000);
    expect(limitOf(await long)).toMatchObject({
      code: "WALL_LIMIT_EXCEEDED",
      limit: "wallMsMax",
      allowed: 1000,
    });
  });

  it("of a payload is met by a result of its size and exceeded by one more byte", async () => {
    const { steps } = bodies(
      { body: `return "x".repeat(args[0])` },
      { limits: { heap: { payloadBytesMax: 1000 } } },
    );
    const sizes = [990, 1000];
    const [met, over] = await Promise.all(
      sizes.map((size) => steps.run(attemptOf("body", [size]))),
    );
    expect(resultOf(met as StepOutcome)).toBe("x".repeat(990));
    expect(failureOf(over as StepOutcome)).toMatchObject({ isFatal: true });
  });

  it("of open calls is met by 20 timers and exceeded, catchably, by the next", async () => {
    const { steps } = bodies({
      body: `for (let i = 0; i < args[0]; i++) setTimeout(() => {}, 1); return "done"`,
    });
    expect(resultOf(await steps.run(attemptOf("body", [20])))).toBe("done");
    expect(limitOf(await steps.run(attemptOf("body", [21])))).toMatchObject({
      name: "QuotaExceededError",
    });
  });

  it("of recursion and of jobs is the body's failure", async () => {
    const { steps } = bodies(
      {
        deep: `const f = () => f() + 1; return f()`,
        jobs: `for (;;) await 0`,
      },
      { limits: { heap: { jobsPerEventMax: 5000 } }, sandbox: { form: "threads", stepThreads: 1 } },
    );
    expect(failureOf(await steps.run(attemptOf("deep"))).error).toBeDefined();
    expect(limitOf(await steps.run(attemptOf("jobs")))).toMatchObject({
      code: "JOB_LIMIT_EXCEEDED",
    });
  });
});

/** Nothing in the engine interrupts it: only the end of its thread does. */
const ENDLESS = `return Array.prototype.reverse.call({ length: 2 ** 50 })`;
const WAITING = `await fetch("https://a.example"); return "done"`;

function onThreads(
  of: Readonly<Record<string, string>>,
  { stepThreads, maxRetries }: { stepThreads: number; maxRetries?: number },
) {
  const incidents: Incident[] = [];
  const answers: (() => void)[] = [];
  const rig = bodies(of, {
    sandbox: {
      form: "threads",
      stepThreads,
      onIncident: (incident) => incidents.push(incident),
    },
    limits: { heap: { cpuSoftMs: 100, cpuHardMs: 200 } },
    egress: {
      fetch: (request) =>
        new Promise((resolve) => {
          answers.push(() =>
            resolve({
              kind: "answered",
              status: 200,
              statusText: "",
              headers: [],
              url: request.url,
              redirected: false,
              body: null,
            }),
          );
        }),
    },
    ...(maxRetries === undefined ? {} : { maxRetries }),
  });
  return { rig, incidents, answers };
}

describe("the end of a thread", () => {
  it("fails the body that overran and interrupts its neighbours", async () => {
    const { rig, incidents, answers } = onThreads(
      { endless: ENDLESS, waiting: WAITING },
      { stepThreads: 1 },
    );
    const { steps } = rig;
    const neighbour = steps.run(attemptOf("waiting", [], { tenant: "globex" }));
    await vi.waitFor(() => expect(answers).toHaveLength(1), 20_000);
    const guilty = await steps.run(attemptOf("endless", [], { tenant: "acme" }));
    expect(limitOf(guilty)).toMatchObject({
      code: "CPU_LIMIT_EXCEEDED",
      limit: "cpuHardMs",
      allowed: 200,
    });
    expect(await neighbour).toMatchObject({ kind: "interrupted" });
    expect(incidents.find(({ kind }) => kind === "cpu_overrun")).toMatchObject({
      tenantId: "acme",
    });
  });

  it("is not felt on other threads: there, neighbours go on", async () => {
    const { rig, answers } = onThreads({ endless: ENDLESS, waiting: WAITING }, { stepThreads: 2 });
    const { steps } = rig;
    const neighbour = steps.run(attemptOf("waiting", [], { tenant: "globex" }));
    await vi.waitFor(() => expect(answers).toHaveLength(1), 20_000);
    expect(limitOf(await steps.run(attemptOf("endless")))).toMatchObject({
      code: "CPU_LIMIT_EXCEEDED",
    });
    answers[0]?.();
    expect(resultOf(await neighbour)).toBe("done");
  });

  it("moves the tenant that overran apart: it waits for a thread of its own", async () => {
    const { rig, answers } = onThreads({ endless: ENDLESS, waiting: WAITING }, { stepThreads: 2 });
    const { steps } = rig;
    expect(limitOf(await steps.run(attemptOf("endless")))).toMatchObject({ limit: "cpuHardMs" });
    const neighbours = ["globex", "initech"].map((tenant) =>
      steps.run(attemptOf("waiting", [], { tenant })),
    );
    await vi.waitFor(() => expect(answers).toHaveLength(2), 20_000);
    const again = steps.run(attemptOf("endless"));
    answers[0]?.();
    expect(limitOf(await again)).toMatchObject({ limit: "cpuHardMs" });
    answers[1]?.();
    for (const neighbour of neighbours) expect(resultOf(await neighbour)).toBe("done");
  });

  it("never reaches a body with `maxRetries: 0` of another tenant", async () => {
    const { rig, answers } = onThreads(
      { endless: ENDLESS, waiting: WAITING },
      { stepThreads: 3, maxRetries: 0 },
    );
    const { steps } = rig;
    const once = steps.run(attemptOf("waiting", [], { tenant: "globex" }));
    await vi.waitFor(() => expect(answers).toHaveLength(1), 20_000);
    const others = await Promise.all(
      ["acme", "initech"].map((tenant) => steps.run(attemptOf("endless", [], { tenant }))),
    );
    for (const outcome of others) expect(outcome.kind).toBe("failed");
    answers[0]?.();
    expect(resultOf(await once)).toBe("done");
  });
});
