/**
 * The border between a heap's host code and the guest library inside the heap.
 *
 * The guest library sets `globalThis.__baton_guest = { boot }`; the host calls `boot(hostCall)`,
 * which deletes that global and answers `dispatch`. The host then calls
 * `dispatch(commandJson, payloadText)`; the answer is a string. Nothing else crosses: no guest
 * value is ever walked by the host, and no host object is visible to the guest. Neither text may
 * hold a NUL character. A `dispatch` that throws is a violation of P2.
 *
 * A heap's life: the library is evaluated, `boot`, the bundle is evaluated, `init`, then events.
 * A bundle that read the clock or randomness before `init` gets no image; each of its runs has
 * `init` first and the bundle evaluated after it.
 *
 * P1  The guest draws entity ids itself, as a pure function of the run's seed and an ordinal
 *     (guest/entity-ids.ts, which the host uses as well). An ask names its ordinal; the host
 *     computes the id again and refuses any other. Ordinals are counted from 0 and dense: each ask
 *     is exactly one above the one before, over all kinds, for the heap's life, so the last one is
 *     `drawn - 1`.
 * P2  A report is parsed on the main thread, bounded in bytes, count and depth. Anything that the
 *     guest library would not write is `GUEST_PROTOCOL_VIOLATION`, which ends the run.
 * P3  Payload text is devalue text, without the `devl` prefix.
 * P4  Between two commands the host drains the job queue. `event` itself runs no guest code of the
 *     tenant before it returns, apart from decoding the payload.
 * P5  The wasm clock, which every `Date` path of the engine reads, answers what the guest library
 *     last said with `hostCall("clock_set", ms)`, if it ever does; else `init`'s `createdAt`, and
 *     before that a fixed instant. No way to it gives the time of the machine.
 */
import type { EventType } from "../engine/events.ts";
import type { Divergence } from "../engine/ports/sandbox.ts";

/** Host to guest. Short keys, since one of these crosses for every event. */
export type GuestCommand =
  /** First command of a heap that starts from its bundle's image. Runs no tenant code yet. */
  | {
      readonly t: "init";
      readonly runId: string;
      readonly workflowName: string;
      /** Epoch ms: the guest clock's first reading and the time part of ids. */
      readonly createdAt: number;
      /** Where addresses of webhooks begin; null: they have none. */
      readonly baseUrl: string | null;
      /** 32 bytes as hexadecimal digits. */
      readonly seed: string;
      /** Above it, a value refuses to be encoded. */
      readonly payloadBytesMax: number;
      readonly openOperationsMax: number;
      readonly consoleBytesPerPassMax: number;
    }
  /** One event of the log; `payloadText` beside it. Answered by `EventAnswer`. */
  | {
      readonly t: "event";
      readonly slot: number;
      readonly type: EventType;
      readonly id: string | null;
      /** Epoch ms. */
      readonly at: number;
      readonly asked: { readonly stepName?: string; readonly resumeAt?: number } | null;
      readonly conflictingRunId: string | null;
    }
  /** After the jobs are drained: what is new since the last report. Answered by `Report`. */
  | { readonly t: "report" }
  /** After a restore: everything that is open, as asks. Answered by `Report`. */
  | { readonly t: "open" }
  /** Before `init`: what the bundle registered when it was evaluated. Answered by `Registered`. */
  | { readonly t: "registered" };

/** The empty string: taken. Otherwise JSON of a divergence. */
export type EventAnswer = "" | { readonly diverged: Divergence };

/** A new open operation, as the guest reports it; payloads are devalue text. */
export type Ask =
  | ({ readonly k: "step"; readonly n: number; readonly id: string; readonly name: string } & (
      { readonly input: string } | { readonly error: string }
    ))
  | { readonly k: "wait"; readonly n: number; readonly id: string; readonly at: number }
  | {
      readonly k: "hook";
      readonly n: number;
      readonly id: string;
      readonly token: string;
      readonly metadata: string | null;
      readonly webhook: boolean;
      readonly system: boolean;
      readonly force: boolean;
      readonly retentionMs: number;
      readonly conflict: boolean;
    }
  | {
      readonly k: "attr";
      readonly n: number;
      readonly id: string;
      readonly changes: readonly { readonly key: string; readonly value: string | null }[];
    }
  /** Has no id of its own: it closes the hook `id`. */
  | { readonly k: "dispose"; readonly n: null; readonly id: string };

/** Guest to host, after a drain. */
export interface Report {
  /** Newly asked (on `open`: all that is open), in the order asked. */
  readonly asked: readonly Ask[];
  /** Ids that were open and are no more; read after `asked`, so it may name what that just asked.
   * A disposal's entry is closed by the hook's id too. */
  readonly closed: readonly string[];
  /** Hooks whose next payload the code waits for. */
  readonly awaited: readonly string[];
  /** Hooks whose conflict the code waits for. */
  readonly awaitedConflicts: readonly string[];
  /** Set once the workflow function has settled; `text` is the output or the error. */
  readonly done: null | {
    readonly ok: boolean;
    readonly text: string;
    readonly code: string | null;
  };
  /** At most `consoleBytesPerPassMax` bytes of UTF-8 over all lines, a mark of what was cut off
   * included. */
  readonly console: readonly { readonly level: string; readonly text: string }[];
  /** How many ids the heap has drawn in its life. */
  readonly drawn: number;
}

/** Names of what a bundle registered. */
export interface Registered {
  readonly workflows: readonly string[];
  readonly steps: readonly string[];
}

/** What the guest library may tell the host with `hostCall(name, value)`; the answer is undefined. */
export type HostCallName =
  /** The clock was read before `init`: the bundle cannot share an image. The host sees reads of
   * the wasm clock by itself, so this is for clocks that the library keeps. */
  | "clock_read"
  /** The same for randomness. */
  | "random_read"
  /** Something that only a run may ask for was asked for: `value` says what. The bundle is refused. */
  | "called_early"
  /** The guest clock is `value` (epoch ms) from now on. */
  | "clock_set";
