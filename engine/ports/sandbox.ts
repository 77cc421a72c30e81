/**
 * The sandbox as the engine sees it: heaps that hold one run each. Strings and bytes cross the
 * border, guest values never do.
 *
 * A heap is a function of the events it was fed: the same bundle, seed and events give the same
 * open operations, on any machine, in any process, fed at once or one at a time.
 */
import type { BundleHash, EntityId, RunRef, TenantId } from "../ids.ts";
import type { ErrorCode, RunErrorCode } from "../errors.ts";
import type { EventType } from "../events.ts";
import type { Payload } from "../payload.ts";
import type { Slot } from "../slots.ts";

/** What the guest asked for and has not yet seen settled, with the id it drew for it. */
export type OpenOperation =
  | {
      readonly kind: "step";
      readonly correlationId: EntityId;
      readonly stepName: string;
      readonly input: Payload;
    }
  | {
      /** Its arguments could not be encoded; `error` is what the workflow has to see. */
      readonly kind: "unserializable_step";
      readonly correlationId: EntityId;
      readonly stepName: string;
      readonly error: Payload;
    }
  | {
      readonly kind: "wait";
      readonly correlationId: EntityId;
      /** Epoch ms on the guest clock. */
      readonly resumeAt: number;
    }
  | {
      readonly kind: "hook";
      readonly correlationId: EntityId;
      readonly token: string;
      readonly metadata: Payload | null;
      readonly isWebhook: boolean;
      readonly isSystem: boolean;
      readonly force: boolean;
      /** How long the token stays taken after disposal, ms. */
      readonly retentionMs: number;
      /** Whether the workflow's code waits for a conflict to be known. */
      readonly awaitsConflict: boolean;
    }
  | { readonly kind: "dispose_hook"; readonly correlationId: EntityId }
  | {
      readonly kind: "set_attributes";
      readonly correlationId: EntityId;
      readonly changes: readonly { readonly key: string; readonly value: string | null }[];
    };

/** How the workflow function ended. */
export type Completion =
  | { readonly kind: "completed"; readonly output: Payload }
  | { readonly kind: "failed"; readonly error: Payload; readonly errorCode: RunErrorCode };

/** An event as it is fed to a heap. Only what the guest needs. */
export interface GuestEvent {
  readonly slot: Slot;
  readonly eventType: EventType;
  readonly correlationId: EntityId | null;
  /** Epoch ms; what the guest clock may move to. */
  readonly createdAt: number;
  /** The result, error or payload that the event brings. */
  readonly payload: Payload | null;
  /** On creations: what the log says was asked for, to be compared with what the guest asked. */
  readonly asked: { readonly stepName?: string; readonly resumeAt?: number } | null;
  /** On `hook_conflict`. */
  readonly conflictingRunId: string | null;
}

export interface ConsoleLine {
  readonly level: "debug" | "log" | "info" | "warn" | "error";
  readonly text: string;
}

/** What the log contradicts. */
export interface Divergence {
  readonly slot: Slot;
  /** What the log holds there. */
  readonly found: string;
  /** What the code asked for, or that it asked for nothing. */
  readonly expected: string;
}

export interface LimitExceeded {
  readonly code: Extract<ErrorCode, RunErrorCode>;
  /** The limit's name, with its unit at the end, as in `HeapLimits`. */
  readonly limit: string;
  readonly used: number;
  readonly allowed: number;
}

export interface PassUsage {
  /** CPU time of the guest thread for this pass, ms. */
  readonly cpuMs: number;
  /** Linear memory of the heap after it. */
  readonly heapBytes: number;
}

export type PassResult =
  | {
      /** The guest is quiet: it has consumed all events and waits for others. */
      readonly kind: "quiet";
      /** All of them, in the order asked. */
      readonly operations: readonly OpenOperation[];
      readonly completion: Completion | null;
      /** Hooks whose next payload the code waits for right now. */
      readonly awaitedHooks: readonly EntityId[];
      readonly console: readonly ConsoleLine[];
      readonly usage: PassUsage;
    }
  | { readonly kind: "diverged"; readonly divergence: Divergence }
  /** The run is to fail. The heap is gone. */
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded; readonly usage: PassUsage }
  /**
   * The heap is gone: open it again from snapshot or log. `isTrap`: it broke at this very work, so
   * again from the log alone; otherwise through no fault of the run.
   */
  | { readonly kind: "lost"; readonly reason: string; readonly isTrap?: true };

export interface HeapLimits {
  /** Linear memory of the heap, whole: 5.4 MB of it are taken before any code runs. */
  readonly heapBytesMax: number;
  /** CPU per consumed event after which the guest is interrupted. */
  readonly cpuSoftMs: number;
  /** CPU per consumed event after which the thread is killed. */
  readonly cpuHardMs: number;
  readonly stackBytesMax: number;
  readonly jobsPerEventMax: number;
  /** Open steps, waits and hooks at once. */
  readonly openOperationsMax: number;
  readonly payloadBytesMax: number;
  readonly consoleBytesPerPassMax: number;
}

/** The code that heaps of a bundle run. */
export interface BundleCode {
  readonly tenantId: TenantId;
  readonly hash: BundleHash;
  readonly workflowCode: string;
  readonly guestLibrary: string;
}

/** What a snapshot is bound to besides its run: it is refused where any of these differs. */
export interface SnapshotPosition {
  readonly slot: Slot;
  readonly digest: string;
}

/** A heap put away. `image` is compressed, not yet sealed; `logState` is the engine's own. */
export interface HeapImage extends SnapshotPosition {
  readonly fingerprint: string;
  readonly image: Uint8Array;
}

export interface HeapRequest {
  readonly run: RunRef;
  readonly bundle: BundleCode;
  readonly workflowName: string;
  /** 32 bytes. */
  readonly seed: Uint8Array;
  /** The `createdAt` of `run_created`: the time part of the run's ids. */
  readonly createdAt: number;
  /** Where addresses of webhooks begin; absent: they have none. */
  readonly baseUrl?: string;
  readonly limits: HeapLimits;
  /** Of the CPU, next to other tenants' heaps; 1 if absent. */
  readonly cpuWeight?: number;
  /** Go on from here; absent: start from the bundle's image with nothing consumed. */
  readonly image?: HeapImage;
}

export type OpenResult =
  | { readonly kind: "opened"; readonly heap: Heap }
  /** The image does not fit this build, bundle or limits, or is damaged: go cold. */
  | { readonly kind: "image_refused"; readonly reason: string }
  /** The bundle's own top level is at fault; `error` is for the tenant. */
  | { readonly kind: "bundle_failed"; readonly error: BundleFailure }
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded }
  | { readonly kind: "lost"; readonly reason: string; readonly isTrap?: true };

export interface BundleFailure {
  readonly message: string;
  readonly stack: string;
}

export interface Heap {
  /** The last slot that this heap has consumed. */
  readonly consumedSlot: Slot;
  /**
   * Feeds events in slot order, draining all jobs between one and the next. With no events it only
   * reports (as after a restore).
   */
  pass(events: readonly GuestEvent[]): Promise<PassResult>;
  /** The heap as it is now, which the caller says is the log's state at `position`. */
  snapshot(position: SnapshotPosition): Promise<HeapImage | null>;
  close(): void;
}

/** What a bundle registers and does when it is evaluated, for admission. */
export type AdmissionReport =
  | {
      readonly kind: "admitted";
      readonly workflows: readonly string[];
      readonly steps: readonly string[];
      /** False: it reads the clock or randomness at top level, so each run evaluates it itself. */
      readonly sharesImage: boolean;
      readonly notes: readonly string[];
    }
  | { readonly kind: "refused"; readonly reason: string };

export type StepAdmissionReport =
  | Omit<Extract<AdmissionReport, { kind: "admitted" }>, "workflows">
  | Extract<AdmissionReport, { kind: "refused" }>;

/** The step side of a bundle, as it was uploaded. */
export interface StepCode {
  readonly tenantId: TenantId;
  readonly hash: BundleHash;
  readonly stepCode: string;
  /** Where it imports Node's modules, which no heap has. */
  readonly nodeBuiltins: readonly {
    readonly module: string;
    readonly file: string;
    readonly line: number;
  }[];
}

/** What admission asks beside `Sandbox.inspect`. */
export interface StepInspector {
  /** Evaluates a step side with nothing granted; `steps` are those that it has bodies of. */
  inspectSteps(code: StepCode, limits: HeapLimits): Promise<StepAdmissionReport>;
}

export interface Sandbox {
  inspect(bundle: BundleCode, limits: HeapLimits): Promise<AdmissionReport>;
  open(request: HeapRequest): Promise<OpenResult>;
  close(): Promise<void>;
}
