/** What the tests of step heaps share: bundles of bodies, attempts, and their outcomes. */
import { NO_ACCESS } from "../tenants/steps.ts";
import { createHash } from "node:crypto";
import { bundleHashOf, entityIdOf, runIdOf, tenantIdOf } from "../../engine/ids.ts";
import type { Clock, Log } from "../../engine/ports/host.ts";
import type { StepAttempt, StepLimits, StepOutcome, StepRunner } from "../../engine/ports/steps.ts";
import { createSandbox } from "../../sandbox/index.ts";
import type { SandboxOptions } from "../../sandbox/index.ts";
import { decodePayload, encodePayload } from "../../sandbox/host-codec.ts";
import type { SandboxedStepsParts } from "../../sandbox/step-runner.ts";
import { silentLog, systemClock, systemRandom } from "../../worlds/platform.ts";

export const STEP_LIMITS: StepLimits = {
  heap: {
    heapBytesMax: 32 << 20,
    cpuSoftMs: 1000,
    cpuHardMs: 4000,
    stackBytesMax: 256 << 10,
    jobsPerEventMax: 100_000,
    openOperationsMax: 5000,
    payloadBytesMax: 128 << 10,
    consoleBytesPerPassMax: 64 << 10,
  },
  cpuMsMax: 10_000,
  wallMsMax: 60_000,
  callsOpenMax: 20,
  responseBytesMax: 1000,
  consoleBytesMax: 64 << 10,
};

/** A step side whose bodies are these, by name; `before` stands at its top level. */
export function stepCode(
  bodies: Readonly<Record<string, string>>,
  { before = "", maxRetries }: { before?: string; maxRetries?: number } = {},
): string {
  const bodyTexts = Object.entries(bodies).map(
    ([name, body]) => `{
      const body = async function (...args) { ${body} };
      body.stepId = ${JSON.stringify(name)};
      ${maxRetries === undefined ? "" : `body.maxRetries = ${maxRetries};`}
      registered.set(body.stepId, body);
    }`,
  );
  return `${before}
    const lib = globalThis[Symbol.for("baton.guest")];
    const registered = globalThis[Symbol.for("@workflow/core//registeredSteps")];
    ${bodyTexts.join("\n")}`;
}

export interface Rig {
  readonly steps: StepRunner;
  readonly logged: unknown[];
  close(): Promise<void>;
}

export interface RigOptions extends Partial<Omit<SandboxedStepsParts, "stepSideOf" | "limitsOf">> {
  readonly sandbox?: SandboxOptions;
  readonly limits?: Partial<Omit<StepLimits, "heap">> & {
    readonly heap?: Partial<StepLimits["heap"]>;
  };
  readonly nodeBuiltins?: readonly { module: string; file: string; line: number }[];
}

/** Runs the bodies of `codes`, by deployment id; every tenant has them. */
export function rigOf(codes: Readonly<Record<string, string>>, options: RigOptions = {}): Rig {
  const {
    sandbox: form = { form: "calling-thread" },
    limits,
    nodeBuiltins = [],
    ...parts
  } = options;
  const sandbox = createSandbox(form);
  const logged: unknown[] = [];
  const log: Log = { ...silentLog, info: (fields) => void logged.push(fields["guest"]) };
  const steps = sandbox.stepRunner({
    stepSideOf: (_tenantId, deploymentId) => {
      const code = codes[deploymentId];
      if (code === undefined) return Promise.resolve(null);
      const hash = bundleHashOf(createHash("sha256").update(code).digest("hex"));
      return Promise.resolve({ hash, stepCode: code, nodeBuiltins });
    },
    limitsOf: () =>
      Promise.resolve({
        ...STEP_LIMITS,
        ...limits,
        heap: { ...STEP_LIMITS.heap, ...limits?.heap },
      }),
    clock: systemClock,
    random: systemRandom,
    log,
    ...parts,
  });
  return { steps, logged, close: () => sandbox.close() };
}

export function attemptOf(
  stepName: string,
  args: readonly unknown[] = [],
  more: Partial<StepAttempt> & { readonly tenant?: string } = {},
): StepAttempt {
  const { tenant = "acme", ...rest } = more;
  return {
    run: { tenantId: tenantIdOf(tenant), runId: runIdOf("wrun_01HF7YAT00TEST00000000000A") },
    deploymentId: "bundle",
    workflowName: "workflow//./src/order//order",
    runStartedAt: 1000,
    stepId: entityIdOf(`step_${"0".repeat(26)}`),
    stepName,
    input: encodePayload({ args }),
    attempt: 1,
    isLast: false,
    stepStartedAt: 2000,
    signal: new AbortController().signal,
    access: NO_ACCESS,
    ...rest,
  };
}

/** The result; anything else is thrown. */
export function resultOf(outcome: StepOutcome): unknown {
  if (outcome.kind === "completed") return decodePayload(outcome.result);
  if (outcome.kind === "failed") throw decodePayload(outcome.error);
  throw new Error(`interrupted: ${outcome.reason}`);
}

export interface Failure {
  readonly isFatal: boolean;
  readonly retryAt: number | null;
  readonly error: Error & Record<string, unknown>;
}

export function failureOf(outcome: StepOutcome): Failure {
  if (outcome.kind !== "failed") throw new Error(`it is no failure: ${JSON.stringify(outcome)}`);
  return { ...outcome, error: decodePayload(outcome.error) as Failure["error"] };
}

/** A clock that only `advance` moves. */
export class HeldClock implements Clock {
  #now = 1_700_000_000_000;
  readonly #timers = new Set<{ at: number; callback: () => void }>();

  now(): number {
    return this.#now;
  }

  get timers(): number {
    return this.#timers.size;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + delayMs, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const timer of [...this.#timers].sort((a, b) => a.at - b.at)) {
      if (timer.at <= this.#now && this.#timers.delete(timer)) timer.callback();
    }
  }
}
