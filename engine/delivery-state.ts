/**
 * The state of one delivery: what its stages share, and how they say that it ends.
 *
 * Owns no rule. One delivery has one of these and nothing of it outlives the delivery, except a
 * heap that is put into the cache at the end.
 */
import type { InlineBodies } from "./inline-bodies.ts";
import type { EntityId, RunRef } from "./ids.ts";
import type { LiveFeed } from "./feed.ts";
import type { FoldedLog, RunLog } from "./log.ts";
import type { Engine } from "./parts.ts";
import type { Payload } from "./payload.ts";
import type { Log } from "./ports/host.ts";
import type { DeliveryMeta, DeliveryResult, OrchestratorMessage } from "./ports/queue.ts";
import type { Heap, HeapImage, PassResult } from "./ports/sandbox.ts";
import type { StepTraits } from "./ports/steps.ts";
import type { TenantLimits } from "./ports/tenants.ts";
import type { TenantStore } from "./ports/world.ts";
import type { RunBirth } from "./run.ts";
import type { Progress } from "./progress.ts";
import type { Slot } from "./slots.ts";
import type { StepState } from "./steps.ts";
import type { Pacing } from "./reads.ts";
import type { InBandWriter } from "./writer.ts";

export type QuietPass = Extract<PassResult, { kind: "quiet" }>;

/** What one queue message is about, before anything is read. */
export interface Arrival {
  readonly engine: Engine;
  readonly run: RunRef;
  readonly message: OrchestratorMessage;
  readonly meta: DeliveryMeta;
  readonly store: TenantStore;
  readonly logger: Log;
}

/** A message that committed writes owe, until it is out. */
export interface OwedStep {
  /** As the committed write left it, whether or not that has joined the log yet. */
  readonly step: StepState;
  /** Absent: the step's delivery reads the creation event. */
  readonly input?: Payload;
  /** Its handler is to read the log even on a first delivery. */
  readonly isResend?: true;
}

/** What run-ahead of one delivery keeps. */
export interface AheadState {
  /** A stop turned it off for the rest of the delivery. */
  isOff: boolean;
  /** The run's first delivery, and its code has asked for no hook and no wait yet (turbo.ts). */
  isTurbo: boolean;
  /** Where a roll-back goes to, with all of it committed; null: what the World has. */
  image: RolledBack | null;
}

/** A heap with the log that it has consumed. */
export interface RolledBack {
  readonly image: HeapImage;
  readonly folded: FoldedLog;
}

export interface DeliveryCounts {
  passes: number;
  eventsCommitted: number;
  messagesSent: number;
  divergences: number;
  lostHeaps: number;
  /** Heaps that broke at the run's own code. */
  traps: number;
  /** Heaps that this delivery opened, by what from; a live one was not opened. */
  restores: number;
  coldStarts: number;
  refusedPasses: number;
  /** Heaps that were told what did not come true. */
  rollBacks: number;
  eventWarnings: number;
}

export interface DeliveryState extends Arrival {
  readonly limits: TenantLimits;
  /** The log's top slot when the delivery began. */
  readonly loadedSlot: Slot;
  /** Epoch ms at which the invocation has to end. */
  deadlineMs: number;
  readonly progress: Progress;
  readonly bodies: InlineBodies;
  readonly feed: LiveFeed;
  readonly counts: DeliveryCounts;
  readonly ahead: AheadState;
  /** From the log, or from the start message while nothing is read. */
  readonly birth: RunBirth;
  log: RunLog;
  writer: InBandWriter;
  /** Null until it is opened, and after it was lost. */
  heap: Heap | null;
  /** What to open the heap from; null: cold. */
  image: HeapImage | null;
  snapshotSlot: number;
  pacing: Pacing;
  /** What comes once, before the first decision, is done. */
  hasBegun: boolean;
  /** This delivery wrote the run's end. */
  wroteEnding: boolean;
  /** A body's writes to streams go on behind its outcome. */
  isFlushing: boolean;
  /** What the heap last said, at the log's consumed position. */
  report: QuietPass | null;
  /** Whether this delivery compares with a cold replay is settled. */
  isReplayChecked: boolean;
  /** Chains whose timers this delivery sends. */
  readonly ownedChains: Set<string>;
  readonly timedWaits: Set<EntityId>;
  readonly owedSteps: Map<EntityId, OwedStep>;
  /** By step name; null: nothing here can run it. */
  readonly traits: Map<string, StepTraits | null>;
}

/** How a delivery ends. */
export type Ending =
  /** The guest waits for others: everything is committed and every message is out. */
  | { readonly kind: "suspended" }
  /** The log holds a terminal event. */
  | { readonly kind: "over" }
  /** The invocation's time is up. */
  | { readonly kind: "handoff" }
  | { readonly kind: "superseded" }
  /** The start of a fresh run was refused: its log is to be read. */
  | { readonly kind: "start refused" }
  /** A write without an answer. */
  | { readonly kind: "unknown"; readonly error: unknown }
  | {
      readonly kind: "parked";
      readonly code: string;
      readonly message: string;
      /** The message has had its attempts: it is not kept, and unparking sends another. */
      readonly isSpent?: true;
    }
  /** Not now: the same message again later. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly afterMs: number;
      readonly counted: boolean;
    };

export const ACK: DeliveryResult = { kind: "ack" };

export function nowMs(arrival: Arrival): number {
  return arrival.engine.parts.clock.now();
}

/** When the invocation has to end: at once while the process is stopping. */
export function isPastDeadline(state: DeliveryState): boolean {
  return state.engine.memory.stopping.hasBegun || nowMs(state) >= state.deadlineMs;
}

/** Too close to the deadline for a body to be started (spec: "Inline-start margin"). */
export function isPastMargin(state: DeliveryState): boolean {
  return isPastDeadline(state) || nowMs(state) >= marginStartMs(state);
}

/** From when on no body is started, epoch ms. */
export function marginStartMs(state: DeliveryState): number {
  const { inlineMarginMs, inlineWindowMs } = state.engine.parts.settings;
  // A margin as long as the window would start nothing ever.
  return state.deadlineMs - Math.min(inlineMarginMs, inlineWindowMs / 2);
}
