/**
 * What the body of one attempt asked of the host, carried out: timers and requests. What this
 * build does not offer is refused at once, so that no call stays open (P12).
 *
 * S22  A call is settled at most once, never after it was cancelled or the attempt ended.
 */
import { assertNever } from "../engine/assert.ts";
import type { EgressPort, EgressRequest, EgressResult } from "../engine/ports/egress.ts";
import type { Clock } from "../engine/ports/host.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import type { RunRef } from "../engine/ids.ts";
import { Violation } from "./guest-text.ts";
import { egressError, limitError, refusedError, textOfError } from "./step-failures.ts";
import type { FetchAnswer, StepCall } from "./step-protocol.ts";

export interface StepCallsParts {
  readonly run: RunRef;
  readonly limits: StepLimits;
  readonly clock: Clock;
  /** Null: every request is refused. */
  readonly egress: EgressPort | null;
  /** `payloadText`: what the call is settled with; if not `ok`, an error. */
  settle(n: number, ok: boolean, payloadText: string | null): void;
}

type FetchCall = Extract<StepCall, { k: "fetch" }>;

export class StepCalls {
  readonly #parts: StepCallsParts;
  /** What ends each open call early. */
  readonly #open = new Map<number, () => void>();
  #sockets = 0;
  #count = 0;

  constructor(parts: StepCallsParts) {
    this.#parts = parts;
  }

  get openCount(): number {
    return this.#open.size;
  }

  /** The number of the next call. */
  get next(): number {
    return this.#count;
  }

  /** Throws `Violation` for more calls than the guest library lets a body make. */
  take(calls: readonly StepCall[], cancelled: readonly number[]): void {
    const givenUp = new Set(cancelled);
    for (const call of calls) {
      this.#count = call.n + 1;
      if (!givenUp.has(call.n)) this.#begin(call);
    }
    for (const n of cancelled) this.#end(n);
    if (this.#open.size > this.#parts.limits.callsOpenMax) {
      throw new Violation("no more calls are open than allowed");
    }
  }

  /** Ends all; none is settled any more. */
  close(): void {
    for (const n of this.#open.keys()) this.#end(n);
  }

  #end(n: number): void {
    const end = this.#open.get(n);
    this.#open.delete(n);
    end?.();
  }

  #begin(call: StepCall): void {
    switch (call.k) {
      case "timer":
        return this.#startTimer(call.n, call.ms);
      case "fetch":
        return this.#fetch(call);
      case "stream_write":
      case "stream_close":
      case "stream_read":
        return this.#refuse(call.n, "streams are not offered to sandboxed steps yet");
      case "attributes":
        return this.#refuse(call.n, "setAttributes is not offered to sandboxed steps yet");
      case "api":
        return this.#refuse(call.n, `${call.op} is not offered to sandboxed steps yet`);
      case "watch_abort":
        return this.#refuse(call.n, "a signal of the workflow does not reach its steps yet");
      default:
        return assertNever(call);
    }
  }

  #refuse(n: number, reason: string): void {
    this.#parts.settle(n, false, textOfError(refusedError(reason)));
  }

  #startTimer(n: number, ms: number): void {
    // No attempt lives longer, so a longer timer need not be told from this one.
    const delayMs = Math.min(ms, this.#parts.limits.wallMsMax + 1);
    const cancel = this.#parts.clock.setTimer(delayMs, () => {
      if (this.#open.delete(n)) this.#parts.settle(n, true, null);
    });
    this.#open.set(n, cancel);
  }

  #fetch(call: FetchCall): void {
    const { egress, limits, run } = this.#parts;
    if (egress === null) {
      const reason = "fetch is denied: the tenant has no egress policy that allows any request";
      return this.#parts.settle(call.n, false, textOfError(egressError(reason)));
    }
    if (this.#sockets >= limits.socketsMax) {
      const { socketsMax } = limits;
      const used = this.#sockets + 1;
      const code = "QUOTA_EXCEEDED";
      const error = limitError({ code, limit: "socketsMax", used, allowed: socketsMax });
      return this.#parts.settle(call.n, false, textOfError(error));
    }
    const stop = new AbortController();
    this.#open.set(call.n, () => stop.abort());
    this.#sockets += 1;
    const request = requestOf(call, run, limits.responseBytesMax);
    void egress
      .fetch(request, stop.signal)
      .catch((): EgressResult => ({ kind: "failed", reason: "the request could not be made" }))
      .then((result) => {
        this.#sockets -= 1;
        if (!this.#open.delete(call.n)) return;
        const answer = answerOf(result, limits.responseBytesMax);
        if (answer instanceof Error) this.#parts.settle(call.n, false, textOfError(answer));
        else this.#parts.settle(call.n, true, JSON.stringify(answer));
      });
  }
}

function requestOf(call: FetchCall, run: RunRef, responseBytesMax: number): EgressRequest {
  const { url, method, headers, redirect, body } = call;
  return {
    run,
    url,
    method,
    headers,
    redirect: redirect === "error" || redirect === "manual" ? redirect : "follow",
    body: body === null ? null : Buffer.from(body, "base64"),
    responseBytesMax,
  };
}

function answerOf(result: EgressResult, responseBytesMax: number): FetchAnswer | Error {
  switch (result.kind) {
    case "answered": {
      const { status, statusText, headers, url, redirected, body } = result;
      if (body.length > responseBytesMax) return tooLarge(body.length, responseBytesMax);
      const base64 = Buffer.from(body).toString("base64");
      return { status, statusText, headers, url, redirected, body: base64 };
    }
    case "denied":
      return egressError(`fetch is denied: ${result.reason}`);
    case "too_large":
      return tooLarge(result.responseBytes, responseBytesMax);
    case "failed":
      return new TypeError(`fetch failed: ${result.reason}`);
    default:
      return assertNever(result);
  }
}

function tooLarge(used: number, allowed: number): Error {
  return limitError({ code: "QUOTA_EXCEEDED", limit: "responseBytesMax", used, allowed });
}
