/**
 * Host steps: bodies that run in this process, in Node.
 *
 * Owns one attempt of such a body: its input decoded, its context, its outcome encoded. Bodies are
 * functions of the platform, registered by id, and, only if the process was started so, the step
 * side of bundles. What an outcome means for the step is the engine's to decide.
 *
 * T22  `run` never rejects for what a body does; whatever it throws becomes an encoded outcome.
 * T23  A body is ended by its signal at the latest when it next looks; its attempt at once.
 */
import type { Log } from "../engine/ports/host.ts";
import {
  MAX_RETRIES_DEFAULT,
  exhaustionText,
  PLAIN_REALM,
  type HostCodec,
  type HostRealm,
  type StepAttempt,
  type StepOutcome,
  type StepReference,
  type StepRunner,
  type StepTraits,
} from "../engine/ports/steps.ts";
import type { RunRef } from "../engine/ids.ts";
import { RUN_CLASS_ID } from "../engine/ports/builtin-steps.ts";
import { api, currentStep, inStep, installLibrary } from "./host-library.ts";
import { HostValues } from "./host-values.ts";
import { PLATFORM_STEPS, TRUSTED_STEPS, isDefinite, platformRetries } from "./platform-steps.ts";
import { StepBundles, type StepBody, type StepCodeOf } from "./step-bundles.ts";

export interface HostStepsOptions {
  readonly codec: HostCodec;
  readonly log: Log;
  /** The platform's own functions, by step id; any tenant's workflow may call them. */
  readonly functions?: ReadonlyMap<string, StepBody>;
  /** Present only where the process trusts bundles as its own code. */
  readonly trusted?: { readonly stepCodeOf: StepCodeOf };
}

/** A body and what its payloads may hold besides data. */
interface Found {
  readonly body: StepBody;
  readonly steps: ReadonlyMap<string, StepBody>;
  readonly classes: ReadonlyMap<string, object>;
}

/** One attempt under way. */
interface Underway {
  readonly attempt: StepAttempt;
  readonly body: StepBody;
  readonly realm: HostRealm;
  readonly values: HostValues;
}

/** What a step's input payload holds. */
interface StepInput {
  readonly args: readonly unknown[];
  readonly closureVars?: Readonly<Record<string, unknown>>;
  readonly thisVal?: unknown;
}

export class HostSteps implements StepRunner {
  readonly #options: HostStepsOptions;
  readonly #bundles: StepBundles | null;

  constructor(options: HostStepsOptions) {
    this.#options = options;
    this.#bundles = options.trusted ? new StepBundles(options.trusted.stepCodeOf) : null;
    installLibrary(options.codec.errors);
  }

  async traitsOf(run: RunRef, deploymentId: string, stepName: string): Promise<StepTraits | null> {
    const platform = platformRetries(stepName);
    if (platform !== null) return { maxRetries: platform };
    const found = await this.#find(run, deploymentId, stepName);
    if (found === null) return null;
    const wanted = found.body.maxRetries;
    const isCount = typeof wanted === "number" && Number.isSafeInteger(wanted) && wanted >= 0;
    return { maxRetries: isCount ? wanted : MAX_RETRIES_DEFAULT };
  }

  async run(attempt: StepAttempt): Promise<StepOutcome> {
    const values = new HostValues(attempt, this.#options.codec);
    const underway = await this.#underway(attempt, values);
    if (underway === null) {
      return { kind: "interrupted", reason: "the step is not registered here" };
    }
    values.use(underway.realm);
    try {
      return await this.#begun(underway);
    } finally {
      values.close();
    }
  }

  async #underway(attempt: StepAttempt, values: HostValues): Promise<Underway | null> {
    const op = PLATFORM_STEPS.get(attempt.stepName);
    if (op !== undefined) {
      const body = (...args: unknown[]) => attempt.access.call(op, args);
      return { attempt, values, body, realm: PLAIN_REALM };
    }
    const found = await this.#find(attempt.run, attempt.deploymentId, attempt.stepName);
    if (found === null) return null;
    return { attempt, values, body: found.body, realm: realmOf(found, values) };
  }

  async #begun(underway: Underway): Promise<StepOutcome> {
    const { attempt, realm } = underway;
    let input: StepInput;
    try {
      input = stepInputOf(this.#options.codec.decode(attempt.input, realm));
    } catch (error) {
      return this.#failed(attempt, realm, { thrown: error, isFatal: true });
    }
    if (attempt.signal.aborted) return interrupted(attempt);
    const stopped = new AbortController();
    try {
      const ended = new Promise<StepOutcome>((resolve) => {
        const onAbort = () => resolve(interrupted(attempt));
        attempt.signal.addEventListener("abort", onAbort, { signal: stopped.signal });
      });
      return await Promise.race([this.#attempted(underway, input), ended]);
    } finally {
      stopped.abort();
    }
  }

  async #attempted(underway: Underway, input: StepInput): Promise<StepOutcome> {
    const { attempt, body, realm, values } = underway;
    let value: unknown;
    try {
      value = await inStep(contextOf(underway, input, this.#options.log), () =>
        body.apply(input.thisVal, input.args as never[]),
      );
    } catch (thrown) {
      await values.flushed();
      return this.#outcomeOf(underway, thrown);
    }
    try {
      const result = this.#options.codec.encode(value, "step return value", realm);
      // Whoever sees the step done finds what it wrote, unless that goes on for long.
      const isFlushed = await values.flushed();
      return { kind: "completed", result, ...(isFlushed ? {} : { isFlushing: true as const }) };
    } catch (error) {
      return this.#failed(attempt, realm, { thrown: error, isFatal: true });
    }
  }

  #outcomeOf({ attempt, realm, values }: Underway, thrown: unknown): StepOutcome {
    const name = nameOf(thrown);
    // An abort is what was asked for: trying again would only abort again.
    const { errors } = this.#options.codec;
    const isAnswer = PLATFORM_STEPS.has(attempt.stepName) && isDefinite(thrown, errors);
    const isAbort = name === "AbortError" || values.isAbortReason(thrown);
    const isFatal = name === "FatalError" || isAbort || isAnswer;
    if (isFatal) return this.#failed(attempt, realm, { thrown, isFatal });
    if (attempt.isLast) {
      return this.#failed(attempt, realm, { thrown: this.#exhausted(attempt, thrown), isFatal });
    }
    const retryAt = name === "RetryableError" ? retryAtOf(thrown) : null;
    return { ...this.#failed(attempt, realm, { thrown, isFatal }), retryAt };
  }

  #exhausted(attempt: StepAttempt, cause: unknown): unknown {
    const { FatalError } = this.#options.codec.errors;
    const message = exhaustionText(attempt.stepName, attempt.attempt, messageOf(cause));
    return FatalError === undefined ? cause : new FatalError(message, { cause });
  }

  #failed(
    attempt: StepAttempt,
    realm: HostRealm,
    failure: { readonly thrown: unknown; readonly isFatal: boolean },
  ): StepOutcome & { kind: "failed" } {
    const { codec, log } = this.#options;
    const { isFatal } = failure;
    try {
      const error = codec.encode(failure.thrown, "a thrown value", realm);
      return { kind: "failed", error, isFatal, retryAt: null };
    } catch (error) {
      log.debug({ stepName: attempt.stepName }, "a body threw what cannot be encoded");
      const { SerializationError } = codec.errors;
      const told = new (SerializationError ?? Error)(messageOf(error));
      return {
        kind: "failed",
        error: codec.encode(told, "a thrown value", realm),
        isFatal,
        retryAt: null,
      };
    }
  }

  async #find(run: RunRef, deploymentId: string, stepName: string): Promise<Found | null> {
    const own = this.#options.functions?.get(stepName);
    if (own !== undefined) return { body: own, ...NOTHING_REGISTERED };
    if (this.#bundles === null) return null;
    const trusted = TRUSTED_STEPS.get(stepName);
    if (trusted !== undefined) return { body: trusted, ...NOTHING_REGISTERED };
    try {
      const loaded = await this.#bundles.load(run.tenantId, deploymentId);
      const body = loaded?.steps.get(stepName);
      if (loaded === null || body === undefined) return null;
      return { body, steps: loaded.steps, classes: loaded.classes };
    } catch (error) {
      // The bundle's top level threw: what its author has to see is what each of its steps throws.
      const body = () => {
        throw error;
      };
      return { body, ...NOTHING_REGISTERED };
    }
  }
}

const NOTHING_REGISTERED = { steps: new Map(), classes: new Map() } as const;

function interrupted(attempt: StepAttempt): StepOutcome {
  const { reason } = attempt.signal;
  return { kind: "interrupted", reason: reason instanceof Error ? reason.message : "aborted" };
}

function contextOf({ attempt, values }: Underway, input: StepInput, log: Log) {
  const { run, stepName, stepId, workflowName, access } = attempt;
  return {
    run,
    stepName,
    stepId,
    stepStartedAt: attempt.stepStartedAt,
    attempt: attempt.attempt,
    workflowName,
    workflowStartedAt: attempt.runStartedAt,
    access,
    values,
    closureVars: input.closureVars ?? {},
    log: log.child({ ...run, stepName, attempt: attempt.attempt }),
  };
}

function stepInputOf(value: unknown): StepInput {
  const input = value as Partial<StepInput> | null | undefined;
  if (typeof input !== "object" || input === null || !Array.isArray(input.args)) {
    throw new TypeError("a step's input holds its arguments");
  }
  return input as StepInput;
}

/** Step functions in payloads, over what a bundle registered. */
function realmOf({ steps, classes }: Omit<Found, "body">, live: HostValues): HostRealm {
  const references = new WeakMap<object, StepReference>();
  const idsOf = new Map<unknown, string>([...steps].map(([id, body]) => [body, id]));
  return {
    classes: new Map([...classes, [RUN_CLASS_ID, api["Run"] as object]]),
    live,
    stepFunction(reference) {
      const called = function (this: unknown, ...args: unknown[]): unknown {
        const body = steps.get(reference.stepId);
        if (body === undefined) throw new Error(`no step ${reference.stepId} is registered here`);
        const all = [...(reference.boundArgs ?? []), ...args] as never[];
        const self = reference.boundThis ?? this;
        const context = currentStep();
        if (context === null || reference.closureVars === undefined) return body.apply(self, all);
        const closureVars = reference.closureVars as Readonly<Record<string, unknown>>;
        return inStep({ ...context, closureVars }, () => body.apply(self, all));
      };
      references.set(called, reference);
      return Object.assign(called, { stepId: reference.stepId });
    },
    stepReference(value) {
      if (typeof value !== "function") return null;
      const stepId = idsOf.get(value);
      return references.get(value) ?? (stepId === undefined ? null : { stepId });
    },
  };
}

function nameOf(thrown: unknown): string | null {
  if (typeof thrown !== "object" || thrown === null || !("name" in thrown)) return null;
  return typeof thrown.name === "string" ? thrown.name : null;
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  const isObject = typeof thrown === "object" && thrown !== null;
  const message = isObject && "message" in thrown ? thrown.message : undefined;
  return typeof message === "string" ? message : `a thrown ${typeof thrown}`;
}

function retryAtOf(thrown: unknown): number | null {
  const after = (thrown as { readonly retryAfter?: unknown }).retryAfter;
  const at = after instanceof Date ? after.getTime() : Number.NaN;
  return Number.isFinite(at) ? at : null;
}
