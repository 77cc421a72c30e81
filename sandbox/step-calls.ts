/**
 * What the body of one attempt asked of the host, carried out: timers, requests, streams and calls of
 * the platform. What this build does not offer is refused at once, so that no call stays open (P12).
 *
 * S22  A call is settled at most once, never after it was cancelled or the attempt ended.
 */
import { assertNever } from "../engine/assert.ts";
import { runIdOf, runOfStream } from "../engine/ids.ts";
import type { RunRef } from "../engine/ids.ts";
import { bytesOfChunk, chunkOfBytes, payloadOfText, textOfPayload } from "../engine/payload.ts";
import { PLATFORM_CALLS } from "../engine/ports/access.ts";
import type { StepAccess, StreamPlace } from "../engine/ports/access.ts";
import type { EgressPort } from "../engine/ports/egress.ts";
import type { Clock } from "../engine/ports/host.ts";
import { PLAIN_REALM } from "../engine/ports/steps.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import { stepCodec } from "./step-codec.ts";
import { Violation } from "./guest-text.ts";
import { refusedError, textOfError, toldError } from "./step-failures.ts";
import { StepFetches } from "./step-fetches.ts";
import type { StepCall, StreamChunk } from "./step-protocol.ts";

export interface StepCallsParts {
  readonly run: RunRef;
  readonly access: StepAccess;
  readonly limits: StepLimits;
  readonly clock: Clock;
  /** Null: every request is refused. */
  readonly egress: EgressPort | null;
  /** `payloadText`: what the call is settled with; if not `ok`, an error. */
  settle(n: number, ok: boolean, payloadText: string | null): void;
}

type WatchAbort = Extract<StepCall, { k: "watch_abort" }>;

export class StepCalls {
  readonly #parts: StepCallsParts;
  /** What ends each open call early. */
  readonly #open = new Map<number, () => void>();
  readonly #fetches: StepFetches;
  #count = 0;

  constructor(parts: StepCallsParts) {
    this.#parts = parts;
    const { run, egress, limits } = parts;
    this.#fetches = new StepFetches({ run, egress, responseBytesMax: limits.responseBytesMax });
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
    this.#fetches.close();
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
        return this.#answer(call.n, async (signal) =>
          JSON.stringify(await this.#fetches.fetch(call, signal)),
        );
      case "fetch_send":
        return this.#answer(call.n, async () => {
          await this.#fetches.send(call.of, call.bytes);
          return null;
        });
      case "fetch_read":
        return this.#answer(call.n, async () => JSON.stringify(await this.#fetches.read(call.of)));
      case "fetch_drop":
        this.#fetches.drop(call.of);
        return this.#parts.settle(call.n, true, null);
      case "stream_write":
        return this.#answer(call.n, async () => {
          await this.#parts.access.streams.write(this.#placeOf(call.stream), [chunkOf(call)]);
          return null;
        });
      case "stream_close":
        return this.#answer(call.n, async () => {
          await this.#parts.access.streams.close(this.#placeOf(call.stream));
          return null;
        });
      case "stream_read":
        return this.#answer(call.n, async (signal) =>
          JSON.stringify(await this.#chunkAt(call.stream, call.index, signal)),
        );
      case "attributes":
        return this.#answer(call.n, async () => {
          await this.#parts.access.setAttributes(call.changes);
          return null;
        });
      case "api":
        return this.#callPlatform(call.n, call.op, call.args);
      case "watch_abort":
        return this.#answer(call.n, (signal) => this.#abortOf(call, signal));
      default:
        return assertNever(call);
    }
  }

  #callPlatform(n: number, op: string, argsText: string): void {
    const known = PLATFORM_CALLS.find((call) => call === op);
    if (known === undefined) {
      const error = refusedError(`${op} is not offered to sandboxed steps`);
      return this.#parts.settle(n, false, textOfError(error));
    }
    this.#answer(n, async () => {
      const args = stepCodec.decode(payloadOfText(argsText), PLAIN_REALM);
      const result = await this.#parts.access.call(known, Array.isArray(args) ? args : []);
      return textOfPayload(stepCodec.encode(result, `result of ${op}()`, PLAIN_REALM));
    });
  }

  /** Settles the call with what `work` comes to, unless it is cancelled first. */
  #answer(n: number, work: (signal: AbortSignal) => Promise<string | null>): void {
    const stop = new AbortController();
    this.#open.set(n, () => stop.abort());
    void work(stop.signal).then(
      (text) => this.#open.delete(n) && this.#parts.settle(n, true, text),
      (error: unknown) => {
        if (this.#open.delete(n)) this.#parts.settle(n, false, textOfError(toldError(error)));
      },
    );
  }

  #placeOf(name: string): StreamPlace {
    return { name, runId: runOfStream(name) ?? this.#parts.run.runId };
  }

  async #chunkAt(name: string, index: number, signal: AbortSignal): Promise<StreamChunk> {
    const page = await this.#parts.access.streams.read(this.#placeOf(name), index, signal);
    const [chunk] = page.chunks;
    const next = page.startIndex + 1;
    if (chunk === undefined) return { bytes: null, text: null, next };
    const bytes = bytesOfChunk(chunk);
    if (bytes === null) return { bytes: null, text: textOfPayload(chunk), next };
    return { bytes: Buffer.from(bytes).toString("base64"), text: null, next };
  }

  /** Waits for the one chunk of a signal's stream: the reason. */
  async #abortOf({ stream: name, run }: WatchAbort, signal: AbortSignal): Promise<string> {
    const place = { runId: runIdOf(run), name };
    const page = await this.#parts.access.streams.read(place, 0, signal);
    const [reason] = page.chunks;
    if (reason === undefined) throw new Error("the signal's run is over");
    return textOfPayload(reason);
  }

  #startTimer(n: number, ms: number): void {
    // No attempt lives longer, so a longer timer need not be told from this one.
    const delayMs = Math.min(ms, this.#parts.limits.wallMsMax + 1);
    const cancel = this.#parts.clock.setTimer(delayMs, () => {
      if (this.#open.delete(n)) this.#parts.settle(n, true, null);
    });
    this.#open.set(n, cancel);
  }
}

function chunkOf({ bytes, text }: Extract<StepCall, { k: "stream_write" }>): Uint8Array {
  if (bytes !== null) return chunkOfBytes(Buffer.from(bytes, "base64"));
  return payloadOfText(text ?? "-1");
}
