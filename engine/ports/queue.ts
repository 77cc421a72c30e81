/**
 * The queue as the engine sees it: what a message carries, what a delivery knows of itself, and
 * what its handler may answer. The guarantees are in prose in `worlds/world.ts`.
 */
import type { EntityId, MessageId, RunId, TenantId } from "../ids.ts";
import type { Payload } from "../payload.ts";

/** Which wait a timer message is for (spec: "Timers and waits"). */
export interface WaitContinuation {
  readonly correlationId: EntityId;
  /** The wait's deadline, epoch ms; set on every hop of a long wait but the last. */
  readonly resumeAtMs?: number;
  /** This hop's own deadline, epoch ms; set where `resumeAtMs` is. */
  readonly hopAtMs?: number;
  /** 1, or higher on the re-arm of a timer that came before its wait was due. */
  readonly attempt: number;
}

/** What a start message carries so that the first delivery can begin without a load. */
export interface RunInput {
  readonly workflowName: string;
  readonly deploymentId: string;
  readonly input: Payload;
  readonly seed: Payload;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly executionContext?: Readonly<Record<string, string>>;
  /** The `createdAt` of `run_created`, epoch ms. */
  readonly createdAt: number;
}

/** "Look at this run." Carries no decision; whatever it stands for is in the log already. */
export interface OrchestratorMessage {
  readonly kind: "orchestrator";
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly specVersion: number;
  readonly reason: "start" | "wake" | "timer" | "recovery";
  /** Only on the run's first message. */
  readonly runInput?: RunInput;
  /** Only on a timer. */
  readonly waitContinuation?: WaitContinuation;
  /** Queue state was lost: send again what every open step and wait needs. */
  readonly recovery?: true;
}

/** One background step's message, for the step's whole life. */
export interface StepMessage {
  readonly kind: "step";
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly specVersion: number;
  readonly stepId: EntityId;
  readonly stepName: string;
  /** The attempt this message was first sent for; above 1 the handler reads the log first. */
  readonly stepAttempt: number;
  /** Epoch ms of the step's creation event. */
  readonly stepCreatedAt: number;
  readonly deploymentId: string;
  /** Absent when it is too large; then it is read from the creation event. */
  readonly stepInput?: Payload;
  /** Sent again by the re-send rule: the handler reads the log even on a first delivery. */
  readonly stepResent?: true;
}

export type Message = OrchestratorMessage | StepMessage;

export interface SendOptions {
  /** A second send under a key is dropped while the first message lives, wherever it lives. */
  readonly idempotencyKey?: string;
  readonly delayMs?: number;
}

export interface SendResult {
  readonly messageId: MessageId;
  /** True when a living message already held the key; nothing was changed. */
  readonly deduplicated: boolean;
}

/** A message and how to send it. */
export interface Send {
  readonly message: Message;
  readonly options?: SendOptions;
}

/** What one delivery knows of itself. */
export interface DeliveryMeta {
  /** Stable over all deliveries of one message. */
  readonly messageId: MessageId;
  /** 1 only on a message's first delivery; a coalesced re-run counts one more. */
  readonly deliveryCount: number;
  /** `deliveryCount` less handoffs and coalesced re-runs: what the delivery cap counts. */
  readonly attempt: number;
  /** Epoch ms at which the invocation began; the same for all its coalesced re-runs. */
  readonly invocationStartedAt: number;
  /** OR of the flags of all messages that this delivery stands for. */
  readonly recovery: boolean;
  /** Of the timers that were coalesced into this delivery: they reach nobody else. */
  readonly timers: readonly WaitContinuation[];
}

/**
 * What a handler answers. A rejection instead means: deliver again with the queue's own back-off,
 * counted.
 */
export type DeliveryResult =
  /** Nothing is owed; the message is done. */
  | { readonly kind: "ack" }
  /** The same message again at once, as a new invocation and not as an attempt. */
  | { readonly kind: "handoff" }
  /** The same message again after `afterMs`; counted unless the wait is nobody's failure. */
  | { readonly kind: "redeliver"; readonly afterMs: number; readonly counted: boolean };

export interface QueueHandlers {
  orchestrator(message: OrchestratorMessage, meta: DeliveryMeta): Promise<DeliveryResult>;
  step(message: StepMessage, meta: DeliveryMeta): Promise<DeliveryResult>;
}

export interface ConsumeOptions {
  /** Deliveries in flight at once. */
  readonly orchestratorsMax: number;
  readonly stepsMax: number;
  /** Of each kind, how many of one tenant; absent: no share is set. */
  readonly perTenantMax?: number;
  /**
   * Of each kind, one tenant takes a place only while it holds fewer than so many times the places
   * that are free: alone it gets most of them, and some are always left for who comes next. Absent:
   * it may take all.
   */
  readonly timesFreeMax?: number;
}

/** Deliveries of one tenant in flight at once; null: as many as there is room for. */
export interface TenantDeliveries {
  readonly orchestratorsMax: number | null;
  readonly stepsMax: number | null;
}

export interface Consumer {
  /** From now on the tenant has so many at most; its other messages wait in the queue. */
  limitTenant(tenantId: TenantId, limits: TenantDeliveries): void;
  /** No new delivery after this; resolves when those in flight have answered. */
  stop(): Promise<void>;
}

export interface Queue {
  send(message: Message, options?: SendOptions): Promise<SendResult>;
  sendBatch(sends: readonly Send[]): Promise<readonly SendResult[]>;
  consume(handlers: QueueHandlers, options: ConsumeOptions): Consumer;
}
