/**
 * One attempt of a sandboxed body, as the main side drives it: its heap on a step thread, its calls
 * carried out here, its outcome told.
 *
 * S23  An attempt always ends: by its outcome, a limit, its signal and a grace, or with its thread.
 * S24  What another body's kill cut short is `interrupted`; what was its own doing is `failed`.
 */
import { assert, assertNever } from "../engine/assert.ts";
import { payloadOfText } from "../engine/payload.ts";
import type { EgressPort } from "../engine/ports/egress.ts";
import type { Clock, Log } from "../engine/ports/host.ts";
import type { PassUsage } from "../engine/ports/sandbox.ts";
import type { UsageSample } from "../engine/ports/tenants.ts";
import type { StepAttempt, StepLimits, StepOutcome } from "../engine/ports/steps.ts";
import { Violation } from "./guest-text.ts";
import { SANDBOX_LIMITS, exceeded } from "./limits.ts";
import type { Lodging } from "./place.ts";
import { withSource } from "./place.ts";
import { Secrets } from "./secrets.ts";
import { stepReportIn } from "./step-border.ts";
import { StepCalls } from "./step-calls.ts";
import { bundleError, failedBy, limitError } from "./step-failures.ts";
import type { StepReport } from "./step-protocol.ts";
import { refOf } from "./wire.ts";
import type { BundleSource, StepBeginAnswer, StepBeginOrder, StepTurn } from "./wire.ts";

export interface SandboxedAttemptParts {
  readonly attempt: StepAttempt;
  readonly source: BundleSource;
  readonly limits: StepLimits;
  readonly isAlone: boolean;
  /** 32 fresh bytes. */
  readonly seed: Uint8Array;
  /** Secrets that the tenant was granted, by the name that `process.env` has them under. */
  readonly env: Readonly<Record<string, string>>;
  readonly egress: EgressPort | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly count: (sample: UsageSample) => void;
  /** How long the body waits for its tenant to have CPU left, ms. */
  readonly cpuWaitMs: () => number;
}

export class SandboxedAttempt {
  readonly #parts: SandboxedAttemptParts;
  readonly #secrets: Secrets;
  readonly #calls: StepCalls;
  #turns: StepTurn[] = [];
  /** Set once nothing of the body matters any more. */
  #end: StepOutcome | null = null;
  #wake: () => void = () => undefined;
  #consoleBytes = 0;
  #usage: PassUsage = { cpuMs: 0, heapBytes: 0 };

  constructor(parts: SandboxedAttemptParts) {
    this.#parts = parts;
    this.#secrets = new Secrets(parts.env);
    const { attempt, limits, clock, egress } = parts;
    this.#calls = new StepCalls({
      run: attempt.run,
      access: attempt.access,
      limits,
      clock,
      egress,
      settle: (n, ok, payloadText) => {
        this.#push({ command: { t: "settle", now: clock.now(), n, ok }, payloadText });
      },
    });
  }

  /** The heap is gone, though nothing was asked of it. */
  gone(reason: string): void {
    this.#finish({ kind: "interrupted", reason });
  }

  /** Runs the body to its outcome. The caller releases the lodging. */
  async run(lodging: Lodging): Promise<StepOutcome> {
    const { clock, limits, attempt } = this.#parts;
    const endWall = clock.setTimer(limits.wallMsMax, () => this.#overstay());
    const unwatch = this.#watch();
    let isReusable = false;
    try {
      const outcome = await this.#drive(lodging);
      isReusable = this.#end === null;
      return outcome;
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      const violated = exceeded("GUEST_PROTOCOL_VIOLATION", "violationsMax", 1, 0);
      return failedBy(limitError(violated), attempt);
    } finally {
      endWall();
      unwatch();
      this.#calls.close();
      const { place, heapId } = lodging;
      void place.order({ kind: "close", heapId, isReusable });
      const { cpuMs, heapBytes } = this.#usage;
      this.#parts.count({ cpuMs, heapBytesPeak: heapBytes });
    }
  }

  async #drive(lodging: Lodging): Promise<StepOutcome> {
    const { place, heapId } = lodging;
    const { source, clock } = this.#parts;
    const begin = this.#beginOrder(heapId);
    let answer: Exclude<StepBeginAnswer, { kind: "bundle_unknown" }> = await withSource(
      source,
      place,
      () => place.order(begin),
    );
    for (;;) {
      if (answer.kind === "step_report") {
        this.#usage = answer.usage;
        lodging.note(answer.usage.heapBytes);
      }
      const outcome = this.#outcomeOf(answer);
      if (outcome !== null) return outcome;
      await this.#news();
      if (this.#end !== null) return this.#end;
      await this.#cpu();
      if (this.#end !== null) return this.#end;
      const turns = this.#turns;
      this.#turns = [];
      answer = await place.order({ kind: "step_turns", heapId, now: clock.now(), turns });
    }
  }

  #beginOrder(heapId: number): StepBeginOrder {
    const { attempt, source, limits, isAlone, seed, env, clock } = this.#parts;
    const { run, workflowName, runStartedAt, stepId, stepName, isLast, stepStartedAt } = attempt;
    return {
      kind: "step_begin",
      heapId,
      bundle: refOf(source),
      runId: run.runId,
      isAlone,
      init: {
        t: "init",
        now: clock.now(),
        runId: run.runId,
        workflowName,
        runStartedAt,
        stepId,
        stepName,
        attempt: attempt.attempt,
        isLast,
        stepStartedAt,
        seed: Buffer.from(seed).toString("hex"),
        payloadBytesMax: limits.heap.payloadBytesMax,
        callsOpenMax: limits.callsOpenMax,
        consoleBytesPerPassMax: limits.heap.consoleBytesPerPassMax,
        env,
      },
      input: attempt.input,
      limits,
    };
  }

  /** Null: the body waits. */
  #outcomeOf(answer: Exclude<StepBeginAnswer, { kind: "bundle_unknown" }>): StepOutcome | null {
    const { attempt } = this.#parts;
    switch (answer.kind) {
      case "step_report":
        return this.#hear(stepReportIn(answer.text, this.#calls.next));
      case "limit": {
        const { code, limit, used } = answer.exceeded;
        if (code === "HEAP_LIMIT_EXCEEDED") this.#parts.count({ heapLimitBreaches: 1 });
        if (code === "CPU_LIMIT_EXCEEDED") this.#parts.count({ cpuLimitBreaches: 1 });
        if (limit === "cpuMsMax") this.#usage = { ...this.#usage, cpuMs: used };
        else if (code === "CPU_LIMIT_EXCEEDED") {
          this.#usage = { ...this.#usage, cpuMs: this.#usage.cpuMs + used };
        }
        return failedBy(limitError(answer.exceeded), attempt);
      }
      case "bundle_failed":
        return failedBy(bundleError(answer.error), attempt);
      case "input_unreadable":
        return failedBy(
          new Error("the step's input is no payload that can be read"),
          attempt,
          true,
        );
      case "lost":
        return { kind: "interrupted", reason: answer.reason };
      default:
        return assertNever(answer);
    }
  }

  #hear({ calls, cancelled, done, console }: StepReport): StepOutcome | null {
    for (const line of console) this.#print(line);
    if (done !== null) return this.#outcome(done);
    if (this.#end !== null) return this.#end;
    this.#calls.take(calls, cancelled);
    if (this.#calls.openCount > 0 || this.#turns.length > 0) return null;
    const reason = "the step waits for something that nothing will settle";
    return failedBy(new Error(reason), this.#parts.attempt);
  }

  #outcome(done: NonNullable<StepReport["done"]>): StepOutcome {
    const { attempt, limits } = this.#parts;
    const text = done.ok ? done.text : this.#secrets.redactedJson(done.text);
    const result = payloadOfText(text);
    const { payloadBytesMax } = limits.heap;
    // The library refuses larger results, where the body can catch it; errors may quote anything.
    if (result.length > payloadBytesMax + SANDBOX_LIMITS.errorBytesMax) {
      const code = "PAYLOAD_LIMIT_EXCEEDED";
      const used = result.length;
      return failedBy(
        limitError(exceeded(code, "payloadBytesMax", used, payloadBytesMax)),
        attempt,
        true,
      );
    }
    if (done.ok) return { kind: "completed", result };
    if (attempt.signal.aborted) return interruptedBy(attempt.signal);
    const { isFatal, retryAt } = done;
    return { kind: "failed", error: result, isFatal, retryAt };
  }

  /** Resolves once there is something for the body, or it has ended. */
  #news(): Promise<void> {
    if (this.#turns.length > 0 || this.#end !== null) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Resolves once the tenant has CPU left, or the attempt has ended. */
  async #cpu(): Promise<void> {
    const { cpuWaitMs, clock } = this.#parts;
    for (let waitMs = cpuWaitMs(); waitMs > 0 && this.#end === null; waitMs = cpuWaitMs()) {
      await new Promise<void>((resolve) => {
        const cancel = clock.setTimer(waitMs, resolve);
        this.#wake = () => {
          if (this.#end === null) return;
          cancel();
          resolve();
        };
      });
    }
  }

  #push(turn: StepTurn): void {
    this.#turns.push(turn);
    this.#wake();
  }

  #finish(end: StepOutcome): void {
    this.#end ??= end;
    this.#wake();
  }

  #overstay(): void {
    const { attempt, limits } = this.#parts;
    const { wallMsMax } = limits;
    const code = "WALL_LIMIT_EXCEEDED";
    const over = { code, limit: "wallMsMax", used: wallMsMax, allowed: wallMsMax } as const;
    this.#finish(failedBy(limitError(over), attempt));
  }

  /** The signal reaches the body, which then has a grace to end by itself. */
  #watch(): () => void {
    const { attempt, clock } = this.#parts;
    const { signal } = attempt;
    assert(!signal.aborted, "an attempt that was given up is not begun");
    let endGrace = (): void => undefined;
    const abort = (): void => {
      this.#push({ command: { t: "abort", now: clock.now() }, payloadText: null });
      endGrace = clock.setTimer(SANDBOX_LIMITS.abortGraceMs, () =>
        this.#finish(interruptedBy(signal)),
      );
    };
    signal.addEventListener("abort", abort, { once: true });
    return () => {
      signal.removeEventListener("abort", abort);
      endGrace();
    };
  }

  #print({ level, text }: StepReport["console"][number]): void {
    const { attempt, limits, log } = this.#parts;
    const { run, stepName } = attempt;
    const left = limits.consoleBytesMax - this.#consoleBytes;
    if (left <= 0) return;
    const said = this.#secrets.redacted(text);
    // A line counts even if it is empty.
    this.#consoleBytes += Buffer.byteLength(said) + 1;
    const isCut = this.#consoleBytes > limits.consoleBytesMax;
    const shown = isCut ? `${Buffer.from(said).toString("utf8", 0, left)} [cut]` : said;
    const guest = { level, text: shown };
    log.info({ ...run, stepName, attempt: attempt.attempt, guest }, "a step wrote to its console");
  }
}

export function interruptedBy({ reason }: AbortSignal): StepOutcome {
  return { kind: "interrupted", reason: reason instanceof Error ? reason.message : "aborted" };
}
