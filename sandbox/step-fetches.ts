/**
 * The requests of one attempt: sent through the egress port, their bodies handed over in pieces.
 *
 * S50  A body's connection is let go of with its last byte, its reader's goodbye or its attempt.
 */
import { assertNever } from "../engine/assert.ts";
import type { RunRef } from "../engine/ids.ts";
import type {
  EgressAnswer,
  EgressBody,
  EgressFailure,
  EgressPort,
  EgressRequest,
} from "../engine/ports/egress.ts";
import { egressError, limitError } from "./step-failures.ts";
import type { FetchAnswer, FetchPiece, StepCall } from "./step-protocol.ts";
import { Upload } from "./upload.ts";

type FetchCall = Extract<StepCall, { k: "fetch" }>;

export interface StepFetchesParts {
  readonly run: RunRef;
  /** Null: every request is refused. */
  readonly egress: EgressPort | null;
  readonly responseBytesMax: number;
}

interface OpenFetch {
  readonly stop: AbortController;
  readonly upload: Upload | null;
  body: EgressBody | null;
}

export class StepFetches {
  readonly #parts: StepFetchesParts;
  /** By the number of the call that asked. */
  readonly #open = new Map<number, OpenFetch>();

  constructor(parts: StepFetchesParts) {
    this.#parts = parts;
  }

  /** The answer's head. Rejects with what the body is to see. */
  async fetch(call: FetchCall, signal: AbortSignal): Promise<FetchAnswer> {
    const { egress } = this.#parts;
    if (egress === null) throw errorOf(NO_POLICY);
    const stop = new AbortController();
    signal.addEventListener("abort", () => stop.abort(), { once: true });
    const upload = call.uploads ? new Upload() : null;
    const open: OpenFetch = { stop, upload, body: null };
    this.#open.set(call.n, open);
    const result = await egress
      .fetch(this.#requestOf(call, upload), stop.signal)
      .catch((): EgressFailure => ({ kind: "failed", reason: "the request could not be made" }));
    const isWanted = this.#open.has(call.n) && !signal.aborted;
    if (result.kind === "answered" && isWanted) open.body = result.body;
    if (open.body === null) {
      this.#open.delete(call.n);
      upload?.giveUp();
    }
    if (result.kind !== "answered") throw errorOf(result);
    if (!isWanted) result.body?.close();
    return headOf(result);
  }

  /** Resolves once the piece is on its way, or nobody takes it any more. */
  async send(of: number, bytes: string | null): Promise<void> {
    const piece = bytes === null ? null : Buffer.from(bytes, "base64");
    await this.#open.get(of)?.upload?.send(piece);
  }

  /** Rejects with what the body is to see. */
  async read(of: number): Promise<FetchPiece> {
    const open = this.#open.get(of);
    if (open === undefined || open.body === null) return { bytes: null };
    const piece = await open.body.read();
    if (piece.kind === "bytes") return { bytes: Buffer.from(piece.bytes).toString("base64") };
    this.#open.delete(of);
    open.upload?.giveUp();
    if (piece.kind === "end") return { bytes: null };
    throw errorOf(piece);
  }

  drop(of: number): void {
    const open = this.#open.get(of);
    this.#open.delete(of);
    open?.upload?.giveUp();
    open?.stop.abort();
    open?.body?.close();
  }

  /** Ends all of them. */
  close(): void {
    for (const of of this.#open.keys()) this.drop(of);
  }

  #requestOf(call: FetchCall, upload: Upload | null): EgressRequest {
    const { run, responseBytesMax } = this.#parts;
    const { url, method, headers, redirect, body } = call;
    return {
      run,
      url,
      method,
      headers,
      redirect: redirect === "error" || redirect === "manual" ? redirect : "follow",
      body: upload ?? (body === null ? null : Buffer.from(body, "base64")),
      responseBytesMax,
    };
  }
}

const NO_POLICY: EgressFailure = {
  kind: "denied",
  reason: "the tenant has no egress policy that allows any request",
};

function headOf(answer: EgressAnswer): FetchAnswer {
  const { status, statusText, headers, url, redirected, body } = answer;
  return { status, statusText, headers, url, redirected, hasBody: body !== null };
}

function errorOf(failure: EgressFailure): Error {
  switch (failure.kind) {
    case "denied":
      return egressError(`fetch is denied: ${failure.reason}`);
    case "over": {
      const { limit, used, allowed } = failure;
      return limitError({ code: "QUOTA_EXCEEDED", limit, used, allowed });
    }
    case "failed":
      return new TypeError(`fetch failed: ${failure.reason}`);
    default:
      return assertNever(failure);
  }
}
