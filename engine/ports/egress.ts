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
  readonly body: Uint8Array | null;
  /** An answer with a longer body is refused. */
  readonly responseBytesMax: number;
}

export type EgressResult =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly statusText: string;
      readonly headers: readonly (readonly [string, string])[];
      /** Where the answer came from, after redirects. */
      readonly url: string;
      readonly redirected: boolean;
      readonly body: Uint8Array;
    }
  /** The policy says no; `reason` is for the tenant. */
  | { readonly kind: "denied"; readonly reason: string }
  | { readonly kind: "too_large"; readonly responseBytes: number }
  /** No answer came; `reason` is for the tenant and tells nothing of the host's network. */
  | { readonly kind: "failed"; readonly reason: string };

export interface EgressPort {
  /** Never rejects for what the other side does. Ends early when the signal says so. */
  fetch(request: EgressRequest, signal: AbortSignal): Promise<EgressResult>;
}
