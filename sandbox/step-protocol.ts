/**
 * The border between a step heap's host code and the step side of the guest library.
 *
 * A step heap runs one attempt of one step and is then thrown away. As in protocol.ts, the library
 * sets `globalThis.__baton_guest = { boot }`, `boot(hostCall)` answers `dispatch`, and only texts
 * cross. What the body wants of the outside is a call with a number; the host carries it out in its
 * own time, under the tenant's limits, and settles it by a later command.
 *
 * A heap's life: the library is evaluated, `boot`, the bundle's step side is evaluated as a script,
 * `init`, `run`; then, until the report has `done`, the host drains jobs, asks for a report, does
 * what it asks, and settles.
 *
 * P10  Calls are numbered from 0, densely. The host settles a call at most once, and only one that
 *     it was told of and that was not cancelled.
 * P11  Every command brings the time, whole milliseconds, which is all that the body can read.
 * P12  A call that the host does not offer is settled with an error; it never stays open.
 */
import type { StepOutcome } from "../engine/ports/steps.ts";

export type StepCommand =
  | {
      readonly t: "init";
      /** Epoch ms. */
      readonly now: number;
      readonly runId: string;
      readonly workflowName: string;
      /** Epoch ms. */
      readonly runStartedAt: number;
      readonly stepId: string;
      readonly stepName: string;
      /** From 1. */
      readonly attempt: number;
      /** A failure of this attempt is final. */
      readonly isLast: boolean;
      /** Epoch ms of the first attempt's start. */
      readonly stepStartedAt: number;
      /** 32 fresh random bytes as hexadecimal digits: never the run's seed. */
      readonly seed: string;
      readonly payloadBytesMax: number;
      /** Open host calls at once. */
      readonly callsOpenMax: number;
      readonly consoleBytesPerPassMax: number;
      /** What `process.env` shows: the secrets that the tenant was granted. */
      readonly env: Readonly<Record<string, string>>;
    }
  /** `payloadText`: devalue text of `{ args, closureVars?, thisVal? }`. */
  | { readonly t: "run"; readonly now: number }
  /** `payloadText` is as the call says; if not `ok`, devalue text of an error. */
  | { readonly t: "settle"; readonly now: number; readonly n: number; readonly ok: boolean }
  /** The attempt is to end: signals fire, open calls are cancelled. */
  | { readonly t: "abort"; readonly now: number }
  /** Answered by `StepReport`. */
  | { readonly t: "report"; readonly now: number }
  /** Before `init`. Answered by `RegisteredSteps`. */
  | { readonly t: "registered"; readonly now: number };

/** What the body asks of the host. */
export type StepCall =
  /** Settled, with no payload, once so many ms have passed. */
  | { readonly k: "timer"; readonly n: number; readonly ms: number }
  /** Settled with JSON of a `FetchAnswer`. */
  | {
      readonly k: "fetch";
      readonly n: number;
      readonly url: string;
      readonly method: string;
      readonly headers: readonly (readonly [string, string])[];
      readonly redirect: string;
      /** Base64. */
      readonly body: string | null;
      /** The body comes by `fetch_send` instead. */
      readonly uploads: boolean;
    }
  /** The next piece of the body of the fetch `of`, base64; null: its end. Settled once it is taken. */
  | {
      readonly k: "fetch_send";
      readonly n: number;
      readonly of: number;
      readonly bytes: string | null;
    }
  /** Settled with JSON of a `FetchPiece`: the next of the body of the answer to the fetch `of`. */
  | { readonly k: "fetch_read"; readonly n: number; readonly of: number }
  /** Nobody reads the rest of that body. Settled with no payload. */
  | { readonly k: "fetch_drop"; readonly n: number; readonly of: number }
  /** One chunk: base64 of bytes, or devalue text of another value. Settled with no payload. */
  | {
      readonly k: "stream_write";
      readonly n: number;
      readonly stream: string;
      readonly bytes: string | null;
      readonly text: string | null;
    }
  /** `error`: devalue text, if the stream was aborted. Settled with no payload. */
  | {
      readonly k: "stream_close";
      readonly n: number;
      readonly stream: string;
      readonly error: string | null;
    }
  /** Settled with JSON of a `StreamChunk`, once there is one. */
  | {
      readonly k: "stream_read";
      readonly n: number;
      readonly stream: string;
      readonly index: number;
    }
  /** A function of `workflow/api`, by name; `args`: devalue text of a list. Settled with devalue. */
  | { readonly k: "api"; readonly n: number; readonly op: string; readonly args: string }
  | {
      readonly k: "attributes";
      readonly n: number;
      readonly changes: readonly { readonly key: string; readonly value: string | null }[];
    }
  /** Settled once the named signal of that run is aborted, with devalue text of the reason. */
  | {
      readonly k: "watch_abort";
      readonly n: number;
      readonly stream: string;
      readonly run: string;
    };

export interface FetchAnswer {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly url: string;
  readonly redirected: boolean;
  /** It is read by `fetch_read`. */
  readonly hasBody: boolean;
}

/** `bytes` (base64) null: the body has ended. */
export interface FetchPiece {
  readonly bytes: string | null;
}

/** `bytes` (base64) and `text` null: the stream has ended. */
export interface StreamChunk {
  readonly bytes: string | null;
  readonly text: string | null;
  /** The index to ask for next, since one below 0 was asked from the tail. */
  readonly next: number;
}

export interface StepReport {
  /** New since the last report, in the order asked. */
  readonly calls: readonly StepCall[];
  /** Calls that the body no longer waits for. */
  readonly cancelled: readonly number[];
  /** Set once the body has settled; `text` is the result or the error, as devalue text. */
  readonly done: null | {
    readonly ok: boolean;
    readonly text: string;
    readonly isFatal: Extract<StepOutcome, { kind: "failed" }>["isFatal"];
    readonly retryAt: Extract<StepOutcome, { kind: "failed" }>["retryAt"];
  };
  readonly console: readonly { readonly level: string; readonly text: string }[];
}

export interface RegisteredSteps {
  readonly steps: readonly { readonly id: string; readonly maxRetries: number | null }[];
}
