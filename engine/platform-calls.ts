/**
 * What `workflow/api` and the guest library's own steps ask of the platform, carried out for one
 * attempt of a step: runs of its tenant, hooks, signals and answers to webhooks.
 *
 * Arguments are a tenant's: each is looked at before it is used, and no call reaches beyond the
 * tenant. Results are plain values of the codec.
 *
 * E94  A child that the library's own step starts is started once, however often that step is tried.
 */
import { assertNever } from "./assert.ts";
import { runHandle } from "./client.ts";
import type { RunHandle, RunOutcome } from "./client.ts";
import { BatonError, isBatonError } from "./errors.ts";
import type { RunId } from "./ids.ts";
import { hookByToken, resumeHook } from "./intake.ts";
import { SignalCalls } from "./signals.ts";
import { RUN_WAIT_FRACTION, RUN_WAIT_MS, RUN_WAIT_MS_MAX } from "./limits.ts";
import type { Engine } from "./parts.ts";
import { fieldOf, textOf } from "./given.ts";
import type { PlatformCall } from "./ports/access.ts";
import { BUILTIN_STEPS, RUN_CLASS_ID } from "./ports/builtin-steps.ts";
import { PLAIN_REALM } from "./ports/steps.ts";
import type { HostCodec, StepAttempt } from "./ports/steps.ts";
import { startRun } from "./start.ts";

/** Whose body calls. */
export type Caller = Pick<
  StepAttempt,
  "run" | "deploymentId" | "stepId" | "stepName" | "stepStartedAt" | "signal"
>;

export class PlatformCalls {
  readonly #engine: Engine;
  readonly #caller: Caller;
  readonly #codec: HostCodec;
  readonly #signals: SignalCalls;

  constructor(engine: Engine, caller: Caller) {
    this.#engine = engine;
    this.#caller = caller;
    this.#codec = engine.parts.codec;
    this.#signals = new SignalCalls(engine, caller.run.tenantId);
  }

  async call(op: PlatformCall, args: readonly unknown[]): Promise<unknown> {
    try {
      return await this.#carriedOut(op, args);
    } catch (error) {
      // Whoever reads it is the tenant, and the host's stack is not for them.
      if (!isBatonError(error)) throw error;
      throw withoutStack(new BatonError(error.code, error.message, error.details));
    }
  }

  async #carriedOut(op: PlatformCall, args: readonly unknown[]): Promise<unknown> {
    switch (op) {
      case "start":
        return this.#start(args[0], args[1], args[2]);
      case "runField":
        return this.#field(textOf(args[0], "a run's id"), textOf(args[1], "a run's field"));
      case "runCancel":
        return this.#cancel(textOf(args[0], "a run's id"), args[1]);
      case "runWakeUp":
        return this.#wakeUp(textOf(args[0], "a run's id"), args[1]);
      case "resumeHook":
        return this.#resumeHook(tokenOf(args[0]), args[1]);
      case "getHookByToken":
        return this.#hookByToken(textOf(args[0], "a hook's token"));
      case "abort":
        return this.#signals.abort(args[0]);
      case "followSignal":
        return this.#signals.follow(args[0], textOf(args[1], "a hook's token"));
      case "respondWith":
        return this.#respond(args[0], args[1]);
      default:
        return assertNever(op);
    }
  }

  async #start(workflow: unknown, args: unknown, options: unknown): Promise<unknown> {
    const { run, deploymentId, stepId, stepName } = this.#caller;
    const named = this.#codec.carried("WorkflowFunction", workflow) ?? workflow;
    const workflowName = textOf(fieldOf(named, "workflowId"), "a workflow's id");
    const attributes = attributesOf(fieldOf(options, "attributes"));
    const started = await startRun(this.#engine.parts, {
      tenantId: run.tenantId,
      deploymentId,
      workflowName,
      input: this.#codec.encode(Array.isArray(args) ? args : [], "workflow arguments", PLAIN_REALM),
      ...(attributes === null ? {} : { attributes }),
      ...(stepName === BUILTIN_STEPS.start ? { idempotencyKey: `${run.runId}/${stepId}` } : {}),
    });
    const { runId } = started.run;
    return this.#codec.tagged("Instance", { classId: RUN_CLASS_ID, data: { runId } });
  }

  async #field(runId: string, field: string): Promise<unknown> {
    const handle = this.#handle(runId);
    if (field === "exists") return handle.exists();
    if (field === "returnValue") return this.#returnValue(handle);
    const row = await this.#known(runId, () => handle.row());
    switch (field) {
      case "status":
      case "workflowName":
        return row[field];
      case "createdAt":
      case "startedAt":
      case "completedAt": {
        const atMs = row[field];
        return atMs === null ? undefined : this.#codec.date(atMs);
      }
      default:
        throw new BatonError("INVALID_ARGUMENT", "a run has no such field", {
          field: "field",
          used: field,
        });
    }
  }

  async #returnValue(handle: RunHandle): Promise<unknown> {
    const outcome = await this.#known(handle.run.runId, () => this.#awaited(handle));
    const { runId } = handle.run;
    switch (outcome?.kind) {
      case "completed":
        return this.#codec.decode(outcome.output, PLAIN_REALM);
      case "failed": {
        const { errorCode } = outcome;
        const cause = this.#codec.decode(outcome.error, PLAIN_REALM);
        throw this.#error("WorkflowRunFailedError", `the run ${runId} failed: ${errorCode}`, {
          runId,
          errorCode,
          cause,
        });
      }
      case "cancelled":
        throw this.#error("WorkflowRunCancelledError", `the run ${runId} was cancelled`, { runId });
      case undefined:
        throw this.#notYet(runId);
      default:
        return assertNever(outcome);
    }
  }

  /**
   * A body of the tenant's waits as long as it lives. The library's own step gives its place to
   * others after a moment, or runs that wait for each other's steps would hold all places.
   */
  async #awaited(handle: RunHandle): Promise<RunOutcome | null> {
    const { clock } = this.#engine.parts;
    const { stepName, signal } = this.#caller;
    if (stepName !== BUILTIN_STEPS.runField) return handle.awaitOutcome(signal);
    const enough = new AbortController();
    const cancel = clock.setTimer(RUN_WAIT_MS, () => enough.abort());
    try {
      return await handle.awaitOutcome(AbortSignal.any([signal, enough.signal]));
    } catch (error) {
      if (enough.signal.aborted) return null;
      throw error;
    } finally {
      cancel();
    }
  }

  #notYet(runId: string): Error {
    const nowMs = this.#engine.parts.clock.now();
    const waitedMs = nowMs - this.#caller.stepStartedAt;
    const pauseMs = Math.min(RUN_WAIT_MS_MAX, Math.max(1_000, waitedMs / RUN_WAIT_FRACTION));
    return this.#error("RetryableError", `the run ${runId} has not ended yet`, {
      retryAfter: this.#codec.date(Math.ceil(nowMs + pauseMs)),
    });
  }

  async #cancel(runId: string, options: unknown): Promise<undefined> {
    const reason = fieldOf(options, "cancelReason");
    const given = typeof reason === "string" ? reason : undefined;
    await this.#known(runId, () => this.#handle(runId).cancel(given));
  }

  async #wakeUp(runId: string, options: unknown): Promise<unknown> {
    const ids = fieldOf(options, "correlationIds");
    const named = Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : undefined;
    const woken = await this.#known(runId, () => this.#handle(runId).wakeUp(named));
    return { stoppedCount: woken.length };
  }

  async #resumeHook(token: string, value: unknown): Promise<unknown> {
    const { tenantId } = this.#caller.run;
    const payload = this.#codec.encode(value, "hook payload", PLAIN_REALM);
    const hook = await this.#knownHook(token, () =>
      resumeHook(this.#engine.parts, { tenantId, token, payload }),
    );
    return { runId: hook.runId, hookId: hook.hookId, token };
  }

  async #hookByToken(token: string): Promise<unknown> {
    const { tenantId } = this.#caller.run;
    const hook = await this.#knownHook(token, () =>
      hookByToken(this.#engine.parts, tenantId, token),
    );
    const { runId, hookId, metadata } = hook;
    const value = metadata === null ? undefined : this.#codec.decode(metadata, PLAIN_REALM);
    return { runId, hookId, token, metadata: value };
  }

  async #respond(writable: unknown, response: unknown): Promise<undefined> {
    const data = this.#codec.carried("WritableStream", writable) ?? {};
    const place = {
      runId: textOf(data["runId"], "a webhook's run") as RunId,
      name: textOf(data["name"], "a webhook's answer"),
    };
    const streams = this.#engine.memory.streams.forTenant(this.#caller.run.tenantId);
    const chunk = this.#codec.encode(response, "a webhook's response", PLAIN_REALM);
    try {
      await streams.write(place, [chunk]);
      await streams.close(place);
    } catch (error) {
      if (!isBatonError(error, "ENTITY_CONFLICT")) throw error;
      // The step is tried again behind its own answer, or the request was answered before.
    }
  }

  #handle(runId: string): RunHandle {
    return runHandle(this.#engine, this.#caller.run.tenantId, runId);
  }

  async #known<T>(runId: string, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!isBatonError(error, "RUN_NOT_FOUND")) throw error;
      throw this.#error("WorkflowRunNotFoundError", `there is no run ${runId}`, { runId });
    }
  }

  async #knownHook<T>(token: string, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!isBatonError(error, "HOOK_NOT_FOUND")) throw error;
      throw this.#error("HookNotFoundError", "there is no open hook of this token", { token });
    }
  }

  #error(name: string, message: string, fields: Readonly<Record<string, unknown>>): Error {
    const Class = this.#codec.errors[name];
    return withoutStack(Class === undefined ? new Error(message) : new Class(message, fields));
  }
}

function withoutStack(error: Error): Error {
  const value = `${error.name}: ${error.message}`;
  return Object.defineProperty(error, "stack", { value, configurable: true, writable: true });
}

/** The SDK takes a token, or a hook that has one. */
function tokenOf(value: unknown): string {
  return textOf(typeof value === "string" ? value : fieldOf(value, "token"), "a hook's token");
}

function attributesOf(value: unknown): Readonly<Record<string, string>> | null {
  if (typeof value !== "object" || value === null) return null;
  const texts = Object.entries(value).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return Object.fromEntries(texts);
}
