/**
 * The way out of sandboxed steps. Sandboxed code opens no socket; it asks, and who is behind this
 * port decides by the tenant's policy and does it.
 */
import type { RunRef } from "../ids.ts";

export interface EgressRequest {
  readonly run: RunRef;
  readonly url: string;
  readonly method: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly redirect: "follow" | "error" | "manual";
  /** Pieces are sent as they come; what was sent so cannot be sent again after a redirect. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | null;
  /** An answer whose body is longer, counted after decompression, is cut off with a failure. */
  readonly responseBytesMax: number;
}

export type EgressFailure =
  /** The policy says no; `reason` is for the tenant. */
  | { readonly kind: "denied"; readonly reason: string }
  | {
      readonly kind: "over";
      readonly limit: "responseBytesMax" | "socketsMax" | "egressBytesPerMinuteMax";
      readonly used: number;
      readonly allowed: number;
    }
  /** No answer came; `reason` is for the tenant and tells nothing of the host's network. */
  | { readonly kind: "failed"; readonly reason: string };

export interface EgressAnswer {
  readonly kind: "answered";
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [string, string])[];
  /** Where the answer came from, after redirects. */
  readonly url: string;
  readonly redirected: boolean;
  /** Null: an answer of this kind has no body. */
  readonly body: EgressBody | null;
}

export type EgressPiece =
  { readonly kind: "bytes"; readonly bytes: Uint8Array } | { readonly kind: "end" } | EgressFailure;

/** The body of an answer, read as fast as its reader wants it. */
export interface EgressBody {
  /** The next bytes, at least one; one call at a time. After an end or a failure, the same again. */
  read(): Promise<EgressPiece>;
  /** Lets go of the connection, whatever was not read. */
  close(): void;
}

export interface EgressPort {
  /**
   * Never rejects for what the other side does. The signal ends the request early, and its answer's
   * body too.
   */
  fetch(request: EgressRequest, signal: AbortSignal): Promise<EgressAnswer | EgressFailure>;
}
