/** Attempts of host steps, for tests. */
import { entityIdOf } from "../../engine/ids.ts";
import type { Log, LogFields } from "../../engine/ports/host.ts";
import type { StepAccess } from "../../engine/ports/access.ts";
import type { HostRealm, StepAttempt, StepOutcome } from "../../engine/ports/steps.ts";
import { stepCodec } from "../../sandbox/step-codec.ts";
import { HostSteps, type HostStepsOptions } from "../../tenants/host-steps.ts";
import type { StepBody } from "../../tenants/step-bundles.ts";
import { ACME, RUN } from "./vaults.ts";

/** Data only. */
export const PLAIN: HostRealm = {
  classes: new Map(),
  stepFunction: (reference) => reference,
  stepReference: () => null,
};

export const encoded = (value: unknown) => stepCodec.encode(value, "a value", PLAIN);
export const decoded = (payload: Uint8Array): unknown => stepCodec.decode(payload, PLAIN);

export interface LogLine {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

export function recordingLog(lines: LogLine[], bound: LogFields = {}): Log {
  const at = (level: string) => (fields: LogFields, message: string) => {
    lines.push({ level, fields: { ...bound, ...fields }, message });
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => recordingLog(lines, { ...bound, ...fields }),
  };
}

const nothing = async (): Promise<never> => {
  throw new Error("this attempt reaches nothing");
};

/** For bodies that only compute. */
export const NO_ACCESS: StepAccess = {
  streams: { write: nothing, close: nothing, read: nothing },
  setAttributes: nothing,
  call: nothing,
  track: () => undefined,
  flushed: async () => "idle",
};

export function attemptOf(stepName: string, input: unknown, more: Partial<StepAttempt> = {}) {
  return {
    run: { tenantId: ACME, runId: RUN },
    deploymentId: "bundle",
    workflowName: "workflow//./src/order//order",
    runStartedAt: 1000,
    stepId: entityIdOf(`step_${"0".repeat(26)}`),
    stepName,
    input: encoded(input),
    attempt: 1,
    isLast: false,
    stepStartedAt: 2000,
    signal: new AbortController().signal,
    access: NO_ACCESS,
    ...more,
  };
}

export function hostSteps(options: Partial<HostStepsOptions> = {}): HostSteps {
  return new HostSteps({ codec: stepCodec, log: recordingLog([]), ...options });
}

/** One attempt of one platform function. */
export function attemptBody(
  body: (...args: never[]) => unknown,
  options: { args?: readonly unknown[]; log?: Log } & Partial<StepAttempt> = {},
): Promise<StepOutcome> {
  const { args = [], log, ...more } = options;
  const functions = new Map<string, StepBody>([["body", body]]);
  const steps = hostSteps({ functions, ...(log === undefined ? {} : { log }) });
  return steps.run(attemptOf("body", { args }, more));
}
