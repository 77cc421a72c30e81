import { describe, expect, it, vi } from "vitest";
import type { StepOutcome } from "../../engine/ports/steps.ts";
import { errorExports } from "../../sandbox/guest/errors.ts";
import { currentStep } from "../../tenants/host-library.ts";
import { build } from "./bundles/project.ts";
import { attemptBody, attemptOf, decoded, hostSteps, recordingLog, type LogLine } from "./steps.ts";

const { FatalError, RetryableError } = errorExports;

function resultOf(outcome: StepOutcome): unknown {
  if (outcome.kind === "completed") return decoded(outcome.result);
  if (outcome.kind === "failed") throw decoded(outcome.error);
  throw new Error(outcome.reason);
}

const failure = (outcome: StepOutcome) => {
  if (outcome.kind !== "failed") return expect.fail(`the attempt ${outcome.kind}`);
  return { ...outcome, error: decoded(outcome.error) as Error };
};

describe("a host step", () => {
  it("is given its arguments and gives its result, as any value that payloads know", async () => {
    const value = new Map<unknown, unknown>([[1n, new Set([new Date(5), undefined])]]);
    const outcome = await attemptBody((a: unknown, b: unknown) => [b, a], { args: [value, "x"] });
    expect(resultOf(outcome)).toEqual(["x", value]);
  });

  it("may ask for its step, its run and its attempt while it runs, and only then", async () => {
    const outcome = await attemptBody(
      async () => {
        await Promise.resolve();
        const step = currentStep();
        return [step?.run.tenantId, step?.attempt, step?.stepStartedAt];
      },
      { attempt: 3 },
    );
    expect(resultOf(outcome)).toEqual(["acme", 3, 2000]);
    expect(currentStep()).toBe(null);
  });

  it("has three retries unless its function says otherwise with a count", async () => {
    const body = (maxRetries?: unknown) => Object.assign(() => 1, { maxRetries });
    const functions = new Map([
      ["none", () => 1],
      ["zero", body(0)],
      ["seven", body(7)],
      ["wrong", body(-1)],
      ["text", body("7")],
    ]);
    const steps = hostSteps({ functions });
    const { run, deploymentId } = attemptOf("", {});
    const traits = async (name: string) =>
      (await steps.traitsOf(run, deploymentId, name))?.maxRetries;
    expect(await Promise.all([...functions.keys()].map(traits))).toEqual([3, 0, 7, 3, 3]);
    expect(await steps.traitsOf(run, deploymentId, "unknown")).toBe(null);
  });

  it("that throws is tried again; the error keeps its name, message and cause", async () => {
    const outcome = failure(
      await attemptBody(() => {
        throw new TypeError("bad", { cause: new RangeError("why") });
      }),
    );
    expect(outcome).toMatchObject({ isFatal: false, retryAt: null });
    expect(outcome.error).toBeInstanceOf(TypeError);
    expect(outcome.error).toMatchObject({
      message: "bad",
      cause: { name: "RangeError", message: "why" },
    });
  });

  it("that throws a RetryableError says when", async () => {
    const retryAfter = new Date(123_456);
    const outcome = failure(
      await attemptBody(() => Promise.reject(new RetryableError("later", { retryAfter }))),
    );
    expect(outcome).toMatchObject({ isFatal: false, retryAt: 123_456 });
  });

  it.each([
    ["a FatalError", () => new FatalError("no")],
    [
      "a FatalError of another copy of the library",
      () => Object.assign(new Error("no"), { name: "FatalError" }),
    ],
    ["an abort", () => new DOMException("stopped", "AbortError")],
  ])("that throws %s is not tried again, and not wrapped", async (_name, made) => {
    const outcome = failure(
      await attemptBody(
        () => {
          throw made();
        },
        { isLast: true, attempt: 4 },
      ),
    );
    expect(outcome).toMatchObject({ isFatal: true, error: { message: made().message } });
  });

  it("on its last attempt fails with a FatalError that names step, retries and the last message", async () => {
    const last = new RangeError("still bad");
    const outcome = failure(
      await attemptBody(
        () => {
          throw last;
        },
        { isLast: true, attempt: 4 },
      ),
    );
    expect(outcome.error).toBeInstanceOf(FatalError);
    expect(outcome.error.message).toBe('Step "body" failed after 3 retries: still bad');
    expect(outcome.error.cause).toBeInstanceOf(RangeError);
  });

  it.each([
    ["a text", "plain"],
    ["undefined", undefined],
    ["an object", { code: 7 }],
  ])("may throw %s, and it arrives as it was", async (_name, thrown) => {
    const outcome = await attemptBody(() => {
      // eslint-disable-next-line typescript/only-throw-error -- that is what is tested
      throw thrown;
    });
    expect(failure(outcome).error).toEqual(thrown);
  });

  it.each([
    ["a function", () => () => 1],
    ["a WeakMap", () => new WeakMap()],
    [
      "an instance of a class that nobody registered",
      () =>
        new (class Money {
          cents = 1;
        })(),
    ],
  ])("that returns %s fails for good, and says why", async (_name, body) => {
    const outcome = failure(await attemptBody(body));
    expect(outcome.isFatal).toBe(true);
    expect(outcome.error).toMatchObject({
      name: "SerializationError",
      message: expect.stringContaining("Failed to serialize step return value") as string,
    });
  });

  it("that throws what cannot be encoded fails with an error about that", async () => {
    const outcome = failure(
      await attemptBody(() => {
        // eslint-disable-next-line typescript/only-throw-error -- that is what is tested
        throw () => 1;
      }),
    );
    expect(outcome.error).toMatchObject({ name: "SerializationError" });
  });

  it("fails for good on an input that is no input", async () => {
    const functions = new Map([["body", () => 1]]);
    for (const input of [null, "x", {}, { args: 1 }]) {
      expect(failure(await hostSteps({ functions }).run(attemptOf("body", input))).isFatal).toBe(
        true,
      );
    }
  });

  it("gives away only the bytes of a Buffer's own view", async () => {
    Buffer.from("another-tenants-secret");
    const pooled = Buffer.from("x");
    expect(pooled.buffer.byteLength).toBeGreaterThan(1000);
    const outcome = await attemptBody(() => [pooled, Buffer.from("abc").subarray(1, 2)]);
    const bytes = outcome.kind === "completed" ? outcome.result : new Uint8Array(1000);
    expect(bytes.byteLength).toBeLessThan(200);
    const [first, second] = resultOf(outcome) as [Uint8Array, Uint8Array];
    expect([...first]).toEqual([120]);
    expect([...second]).toEqual([98]);
  });

  it("is interrupted, not failed, when its signal says so, even if it never looks", async () => {
    const stop = new AbortController();
    const running = attemptBody(() => new Promise(() => undefined), { signal: stop.signal });
    stop.abort(new Error("the run was cancelled"));
    expect(await running).toEqual({ kind: "interrupted", reason: "the run was cancelled" });
    expect(await attemptBody(() => 1, { signal: stop.signal })).toMatchObject({
      kind: "interrupted",
    });
  });

  it("that leaves a rejected promise behind is named in the log, and harms nobody", async () => {
    const lines: LogLine[] = [];
    const outcome = await attemptBody(
      () => {
        void Promise.reject(new Error("socket reset"));
        return 1;
      },
      { log: recordingLog(lines) },
    );
    expect(resultOf(outcome)).toBe(1);
    await vi.waitFor(() => expect(lines).toHaveLength(1));
    expect(lines[0]).toMatchObject({
      level: "warn",
      fields: { tenantId: "acme", stepName: "body", guest: { error: "Error: socket reset" } },
    });
  });
});

describe("a bundle that is trusted as host code", () => {
  const STEP = "step//./src/order//";
  const source = (word: string) => ({
    "src/order.ts": `
      import { FatalError, getStepMetadata, getWorkflowMetadata, sleep } from "workflow";
      import { resumeWebhook } from "workflow/api";
      export async function order(k: number) {
        "use workflow";
        const nested = async (a: number) => { "use step"; await null; return a + k; };
        return nested(1);
      }
      export class Till {
        constructor(public cents: number) {}
        static [Symbol.for("workflow-serialize")](till: Till) { return { cents: till.cents }; }
        static [Symbol.for("workflow-deserialize")](data: { cents: number }) { return new Till(data.cents); }
        async add(n: number) { "use step"; return new Till(this.cents + n); }
      }
      export async function word() { "use step"; return "${word}"; }
      export async function about() { "use step"; return [getStepMetadata(), getWorkflowMetadata()]; }
      export async function fatal() { "use step"; throw new FatalError("no"); }
      export async function asleep() { "use step"; await sleep("1s"); }
      export async function answers() { "use step"; await resumeWebhook("token", 1); }
      export async function calls(step: (n: number) => Promise<number>) { "use step"; return [await step(1), step]; }
      export async function twice(n: number) { "use step"; return n * 2; }
      twice.maxRetries = 1;`,
  });

  async function trusted(word = "one") {
    const { stepCode } = await build(source(word));
    return hostSteps({
      trusted: { stepCodeOf: (_tenant, id) => Promise.resolve(id === "bundle" ? stepCode : null) },
    });
  }

  it("runs with its closure variables, its metadata and the properties of its functions", async () => {
    const steps = await trusted();
    const nested = attemptOf(`${STEP}order/nested`, { args: [1], closureVars: { k: 5 } });
    expect(resultOf(await steps.run(nested))).toBe(6);
    const about = resultOf(await steps.run(attemptOf(`${STEP}about`, { args: [] }))) as unknown[];
    expect(about).toMatchObject([
      { stepName: `${STEP}about`, attempt: 1, stepStartedAt: new Date(2000) },
      { workflowName: "workflow//./src/order//order", workflowStartedAt: new Date(1000) },
    ]);
    const { run } = nested;
    expect(await steps.traitsOf(run, "bundle", `${STEP}twice`)).toEqual({ maxRetries: 1 });
    expect(await steps.traitsOf(run, "bundle", `${STEP}nowhere`)).toBe(null);
    expect(await steps.traitsOf(run, "other", `${STEP}twice`)).toBe(null);
  });

  it("throws errors that are known outside of it", async () => {
    const steps = await trusted();
    const outcome = failure(await steps.run(attemptOf(`${STEP}fatal`, { args: [] })));
    expect(outcome).toMatchObject({ isFatal: true });
    expect(outcome.error).toBeInstanceOf(FatalError);
  });

  it("is told what does not work in a step, or not in host code", async () => {
    const steps = await trusted();
    const asleep = failure(await steps.run(attemptOf(`${STEP}asleep`, { args: [] })));
    expect(asleep.error.message).toContain("only in a workflow");
    const answers = failure(await steps.run(attemptOf(`${STEP}answers`, { args: [] })));
    expect(answers.error.message).toContain("not available");
  });

  it("passes step functions in and out, callable inside", async () => {
    const steps = await trusted();
    const realm = {
      classes: new Map(),
      stepFunction: (reference: unknown) => reference,
      stepReference: (value: unknown) => (value === twice ? { stepId: `${STEP}twice` } : null),
    };
    const twice = () => undefined;
    const { stepCodec } = await import("../../sandbox/step-codec.ts");
    const input = stepCodec.encode({ args: [twice] }, "a value", realm);
    const outcome = await steps.run({ ...attemptOf(`${STEP}calls`, {}), input });
    expect(
      outcome.kind === "completed" ? stepCodec.decode(outcome.result, realm) : outcome,
    ).toEqual([2, { stepId: `${STEP}twice` }]);
  });

  it("revives `this` and results of its own classes", async () => {
    const steps = await trusted();
    const { stepCodec } = await import("../../sandbox/step-codec.ts");
    class Till {
      cents: number;
      constructor(cents: number) {
        this.cents = cents;
      }
      static [Symbol.for("workflow-serialize")](till: Till) {
        return { cents: till.cents };
      }
      static [Symbol.for("workflow-deserialize")](data: { cents: number }) {
        return new Till(data.cents);
      }
    }
    Object.defineProperty(Till, "classId", { value: "class//./src/order//Till" });
    const realm = {
      classes: new Map<string, object>([["class//./src/order//Till", Till]]),
      stepFunction: (reference: unknown) => reference,
      stepReference: () => null,
    };
    const input = stepCodec.encode({ args: [5], thisVal: new Till(10) }, "a value", realm);
    const outcome = await steps.run({ ...attemptOf(`${STEP}Till#add`, {}), input });
    const value = outcome.kind === "completed" ? stepCodec.decode(outcome.result, realm) : outcome;
    expect(value).toBeInstanceOf(Till);
    expect(value).toMatchObject({ cents: 15 });
  });

  it("of one name in two bundles are two steps, also when loaded at once", async () => {
    const codes = {
      one: (await build(source("one"))).stepCode,
      two: (await build(source("two"))).stepCode,
    };
    const steps = hostSteps({
      trusted: { stepCodeOf: (_tenant, id) => Promise.resolve(codes[id as "one" | "two"]) },
    });
    const words = await Promise.all(
      ["one", "two", "one"].map(async (deploymentId) =>
        resultOf(await steps.run(attemptOf(`${STEP}word`, { args: [] }, { deploymentId }))),
      ),
    );
    expect(words).toEqual(["one", "two", "one"]);
  });

  it("that throws at its top level fails its steps with that error", async () => {
    const steps = hostSteps({
      trusted: { stepCodeOf: () => Promise.resolve("throw new RangeError('top');") },
    });
    const outcome = failure(await steps.run(attemptOf(`${STEP}word`, { args: [] })));
    expect(outcome.error).toMatchObject({ name: "RangeError", message: "top" });
  });

  it("is not loaded unless the process was started so", async () => {
    const attempt = attemptOf(`${STEP}word`, { args: [] });
    expect(await hostSteps().run(attempt)).toMatchObject({ kind: "interrupted" });
  });
});
