/** How many bodies of a tenant run at once (E120). */
import { describe, expect, it } from "vitest";
import { entityIdOf, runIdOf, tenantIdOf, ulid } from "../../engine/ids.ts";
import type { TenantId } from "../../engine/ids.ts";
import type { StepAccess } from "../../engine/ports/access.ts";
import type { StepAttempt, StepOutcome } from "../../engine/ports/steps.ts";
import { StepSeats } from "../../engine/step-seats.ts";

const A = tenantIdOf("a");
const B = tenantIdOf("b");
const DONE: StepOutcome = { kind: "completed", result: new Uint8Array() };

/** Bodies that end when the test says so. */
class Bodies {
  readonly begun: string[] = [];
  readonly seats: StepSeats;
  readonly #ends = new Map<string, () => void>();

  constructor(max: number | null) {
    const inner = {
      traitsOf: () => Promise.resolve({ maxRetries: 3 }),
      run: ({ stepName }: StepAttempt) => {
        this.begun.push(stepName);
        return new Promise<StepOutcome>((resolve) => this.#ends.set(stepName, () => resolve(DONE)));
      },
    };
    this.seats = new StepSeats(inner, () => max);
  }

  run(tenantId: TenantId, stepName: string, signal = new AbortController().signal) {
    return this.seats.run(attemptOf(tenantId, stepName, signal));
  }

  async end(stepName: string): Promise<void> {
    this.#ends.get(stepName)?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function attemptOf(tenantId: TenantId, stepName: string, signal: AbortSignal): StepAttempt {
  const random = new Uint8Array(10);
  return {
    run: { tenantId, runId: runIdOf(`wrun_${ulid(1, random)}`) },
    deploymentId: "",
    workflowName: "",
    runStartedAt: 1,
    stepId: entityIdOf(`step_${ulid(1, random)}`),
    stepName,
    input: new Uint8Array(),
    attempt: 1,
    isLast: false,
    stepStartedAt: 1,
    signal,
    access: {} as StepAccess,
  };
}

describe("bodies of a tenant", () => {
  it("run at once as many as just fit; one more waits, and others' do not wait for it", async () => {
    const bodies = new Bodies(2);
    for (const name of ["one", "two", "three", "four"]) void bodies.run(A, name);
    void bodies.run(B, "other");
    expect(bodies.begun).toEqual(["one", "two", "other"]);
    expect([bodies.seats.runningOf(A), bodies.seats.runningOf(B)]).toEqual([2, 1]);
  });

  it("that wait begin in their order, one for each that ended", async () => {
    const bodies = new Bodies(1);
    for (const name of ["one", "two", "three"]) void bodies.run(A, name);
    await bodies.end("one");
    expect(bodies.begun).toEqual(["one", "two"]);
    await bodies.end("two");
    await bodies.end("three");
    expect(bodies.begun).toEqual(["one", "two", "three"]);
    expect(bodies.seats.runningOf(A)).toBe(0);
  });

  it("whose run ended while they waited never begin, and take nobody's place", async () => {
    const bodies = new Bodies(1);
    const stop = new AbortController();
    void bodies.run(A, "one");
    const given = bodies.run(A, "two", stop.signal);
    void bodies.run(A, "three");
    stop.abort();
    expect((await given).kind).toBe("interrupted");
    expect(bodies.begun).toEqual(["one"]);
    await bodies.end("one");
    expect(bodies.begun).toEqual(["one", "three"]);
    await bodies.end("three");
    expect(bodies.seats.runningOf(A)).toBe(0);
  });

  it("of a tenant without a limit all run", () => {
    const bodies = new Bodies(null);
    for (let i = 0; i < 100; i++) void bodies.run(A, `step ${i}`);
    expect(bodies.begun.length).toBe(100);
  });
});
