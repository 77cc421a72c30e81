/**
 * What the main side and the place where heaps live say to each other. Plain data: it crosses a
 * thread or a process, except in the calling-thread form, where it is only passed.
 *
 * What comes back from a heap comes back as text; only the main side reads it (border.ts).
 */
import { assertNever } from "../engine/assert.ts";
import type { BundleHash, RunId, TenantId } from "../engine/ids.ts";
import type {
  BundleCode,
  BundleFailure,
  GuestEvent,
  HeapLimits,
  LimitExceeded,
  PassUsage,
} from "../engine/ports/sandbox.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import type { SnapshotBinding } from "./snapshot.ts";
import type { StepCommand } from "./step-protocol.ts";
import type { WatchdogOptions } from "./watchdog.ts";

/** Names a heap within the place where it lives; given by the main side. */
export type HeapId = number;

/** One side of one bundle. */
export interface BundleRef {
  readonly tenantId: TenantId;
  readonly hash: BundleHash;
  readonly side: "workflow" | "step";
}

export interface BundleSource extends BundleRef {
  readonly code: string;
  /** The library of that side. */
  readonly guestLibrary: string;
}

/** Names a side of a bundle among all tenants'. */
export function bundleKey({ tenantId, hash, side }: BundleRef): string {
  return `${tenantId}/${hash}/${side}`;
}

export function refOf({ tenantId, hash, side }: BundleRef): BundleRef {
  return { tenantId, hash, side };
}

/** Only what is needed: a caller's object may carry more than may cross. */
export function workflowSide({
  tenantId,
  hash,
  workflowCode,
  guestLibrary,
}: BundleCode): BundleSource {
  return { tenantId, hash, side: "workflow", code: workflowCode, guestLibrary };
}

export interface OpenOrder {
  readonly kind: "open";
  readonly heapId: HeapId;
  readonly bundle: BundleRef;
  readonly runId: RunId;
  readonly workflowName: string;
  readonly seed: Uint8Array;
  readonly createdAt: number;
  readonly baseUrl: string | null;
  readonly limits: HeapLimits;
  readonly image: { readonly bytes: Uint8Array; readonly binding: SnapshotBinding } | null;
}

/** Opens a step heap and runs its body until it waits. */
export interface StepBeginOrder {
  readonly kind: "step_begin";
  readonly heapId: HeapId;
  readonly bundle: BundleRef;
  readonly runId: RunId;
  /** Its thread is to serve no other tenant while it runs. */
  readonly isAlone: boolean;
  readonly init: Extract<StepCommand, { t: "init" }>;
  readonly input: Uint8Array;
  readonly limits: StepLimits;
}

/** One thing that the body waited for. */
export interface StepTurn {
  readonly command: Extract<StepCommand, { t: "settle" | "abort" }>;
  readonly payloadText: string | null;
}

export type Order =
  /** The source of a bundle, before the first order that names it. Answered by nothing. */
  | { readonly kind: "bundle"; readonly source: BundleSource }
  | OpenOrder
  | { readonly kind: "pass"; readonly heapId: HeapId; readonly events: readonly GuestEvent[] }
  | {
      readonly kind: "snapshot";
      readonly heapId: HeapId;
      readonly binding: SnapshotBinding;
    }
  | {
      readonly kind: "inspect";
      readonly heapId: HeapId;
      readonly bundle: BundleRef;
      readonly limits: HeapLimits;
    }
  | StepBeginOrder
  | {
      readonly kind: "step_turns";
      readonly heapId: HeapId;
      readonly now: number;
      readonly turns: readonly StepTurn[];
    }
  /** `isReusable`: nothing went wrong in it, as far as the main side knows. Answered by nothing. */
  | { readonly kind: "close"; readonly heapId: HeapId; readonly isReusable: boolean };

export type OpenAnswer =
  | { readonly kind: "opened"; readonly consumedSlot: number; readonly heapBytes: number }
  | { readonly kind: "image_refused"; readonly reason: string }
  | { readonly kind: "bundle_failed"; readonly error: BundleFailure }
  /** The place no longer has the bundle's source; send it and ask again. */
  | { readonly kind: "bundle_unknown" }
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded }
  | { readonly kind: "lost"; readonly reason: string; readonly isTrap?: true };

export type PassAnswer =
  | {
      readonly kind: "report";
      /** A `Report` as the guest wrote it. */
      readonly text: string;
      /** It lists all that is open, not only what is new. */
      readonly isFull: boolean;
      readonly usage: PassUsage;
    }
  /** `text`: an `EventAnswer` as the guest wrote it. */
  | { readonly kind: "diverged"; readonly slot: number; readonly text: string }
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded; readonly usage: PassUsage }
  /** A payload among the events is no devalue text. The heap is gone. */
  | { readonly kind: "unreadable"; readonly slot: number }
  | { readonly kind: "lost"; readonly reason: string; readonly isTrap?: true };

export type SnapshotAnswer =
  | { readonly kind: "image"; readonly fingerprint: string; readonly bytes: Uint8Array }
  | { readonly kind: "none" };

export type InspectAnswer =
  | {
      readonly kind: "inspected";
      /** A `Registered` as the guest wrote it. */
      readonly text: string;
      readonly sharesImage: boolean;
      readonly notes: readonly string[];
    }
  | Exclude<OpenAnswer, { kind: "opened" | "image_refused" }>;

export type StepTurnsAnswer =
  | {
      readonly kind: "step_report";
      /** A `StepReport` as the guest wrote it. */
      readonly text: string;
      readonly usage: PassUsage;
    }
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded }
  | { readonly kind: "lost"; readonly reason: string; readonly isTrap?: true };

export type StepBeginAnswer =
  | StepTurnsAnswer
  /** The input is no devalue text. */
  | { readonly kind: "input_unreadable" }
  | Extract<OpenAnswer, { kind: "bundle_failed" | "bundle_unknown" }>;

export type Answer = StepBeginAnswer | OpenAnswer | PassAnswer | SnapshotAnswer | InspectAnswer;

/** Which answer an order gets. */
export type AnswerTo<T extends Order["kind"]> = T extends "open"
  ? OpenAnswer
  : T extends "pass"
    ? PassAnswer
    : T extends "snapshot"
      ? SnapshotAnswer
      : T extends "inspect"
        ? InspectAnswer
        : T extends "step_begin"
          ? StepBeginAnswer
          : T extends "step_turns"
            ? StepTurnsAnswer
            : null;

/** What a guest thread starts with. */
export interface ThreadData {
  readonly module: WebAssembly.Module;
  readonly progress: SharedArrayBuffer;
}

/** The first message of a guest thread; `threadId` as the system numbers threads. */
export interface ThreadHello {
  readonly threadId: number | null;
}

/** The first message to a guest host. */
export interface HostHello {
  readonly threads: number;
  readonly heapBytesMax: number;
  readonly stepThreads: number;
  readonly stepHeapBytesMax: number;
  readonly watchdog: WatchdogOptions;
}

export interface NumberedOrder {
  readonly number: number;
  readonly order: Order;
}

export interface NumberedAnswer {
  readonly number: number;
  readonly answer: Answer | null;
}

/** A guest thread's answer, with the CPU ms that it took. */
export interface CostedAnswer extends NumberedAnswer {
  readonly cpuMs: number;
}

/** The answer to an order whose place is gone. */
export function lostAnswer(order: Order, reason: string): Answer | null {
  switch (order.kind) {
    case "open":
    case "pass":
    case "inspect":
    case "step_begin":
    case "step_turns":
      return { kind: "lost", reason };
    case "snapshot":
      return { kind: "none" };
    case "bundle":
    case "close":
      return null;
    default:
      return assertNever(order);
  }
}
