/**
 * Events: what a run's log is made of.
 *
 * Owns the event types, their data fields and the schema that every event passes on its way in or
 * out of a World. Payload fields are bytes here; sealing them for storage is the tenants' part.
 *
 * The types and fields are the Workflow SDK's, plus `wake_requested`, and plus `seed` and
 * `tokenHash`, which the SDK has no need of.
 */
import { z } from "zod";
import type { EntityId, RunId } from "./ids.ts";
import { entityIdOf } from "./ids.ts";
import type { Slot } from "./slots.ts";

/** The version every run, event and message of this build carries. */
export const SPEC_VERSION = 9;

/** The in-band count of a log that holds only `run_created`. */
export const IN_BAND_SEQ_AT_RUN_CREATION = 1;

const payload = z.custom<Uint8Array>((value) => value instanceof Uint8Array, "must be bytes");
const epochMs = z.number().int().min(0).max(8.64e15);
const attempt = z.number().int().min(1);
const name = z.string().min(1).max(1024);
const attributeChange = z.strictObject({
  key: z.string().min(1).max(256),
  value: z.string().nullable(),
});

/** The data of each event type. Payload fields are named in `PAYLOAD_FIELDS`. */
export const eventDataSchemas = {
  run_created: z.strictObject({
    /** The bundle's hash; a run keeps its bundle for life. */
    deploymentId: z.string().min(1).max(128),
    workflowName: name,
    input: payload,
    /** 32 bytes; ids, randomness and tokens of the run come from it. Sealed like a payload. */
    seed: payload,
    attributes: z.record(z.string(), z.string()).optional(),
    executionContext: z.record(z.string(), z.string()).optional(),
  }),
  run_started: z.strictObject({}),
  run_completed: z.strictObject({ output: payload }),
  run_failed: z.strictObject({ error: payload, errorCode: z.string().min(1).max(64) }),
  run_cancelled: z.strictObject({ cancelReason: z.string().max(4096).optional() }),
  step_created: z.strictObject({
    stepName: name,
    input: payload,
    /** Fixes who runs the step: the orchestrator in place, or the step's own message. */
    inline: z.boolean(),
    creatorMessageId: z.string().max(64).optional(),
  }),
  step_started: z.strictObject({
    stepName: name,
    attempt,
    /** Only on an inline step's first start, which is also its creation. */
    input: payload.optional(),
    inline: z.literal(true).optional(),
    startReason: z.string().max(64).optional(),
  }),
  step_retrying: z.strictObject({
    stepName: name,
    attempt,
    error: payload,
    /** Not before this time, epoch ms. */
    retryAfter: epochMs,
    /** Set when the orchestrator moves an inline step's retry to its own message. */
    creatorMessageId: z.string().max(64).optional(),
    /** The attempt was cut short by something that was not its own doing; it does not count. */
    interrupted: z.literal(true).optional(),
  }),
  step_completed: z.strictObject({ stepName: name, result: payload }),
  step_failed: z.strictObject({ stepName: name, error: payload, attempt: attempt.optional() }),
  wait_created: z.strictObject({
    resumeAt: epochMs,
    /** The message whose delivery wrote it; all waits of one message form a chain. */
    creatorMessageId: z.string().max(64).optional(),
  }),
  wait_completed: z.strictObject({}),
  hook_created: z.strictObject({
    /** The token's text, as a payload, since it is a secret. */
    token: payload,
    /** What look-ups by token use. */
    tokenHash: z.string().regex(/^[0-9a-f]{64}$/),
    metadata: payload.optional(),
    isWebhook: z.boolean().optional(),
    isSystem: z.boolean().optional(),
    tokenRetentionUntil: epochMs.optional(),
    /** Take the token even from a run that holds it. */
    force: z.literal(true).optional(),
  }),
  hook_received: z.strictObject({ payload }),
  hook_conflict: z.strictObject({
    tokenHash: z.string().regex(/^[0-9a-f]{64}$/),
    conflictingRunId: z.string().max(64),
  }),
  hook_disposed: z.strictObject({
    /** Another run took the token by force; written by the World into the victim's log. */
    forceClaimedBy: z.string().max(64).optional(),
  }),
  attr_set: z.strictObject({
    changes: z.array(attributeChange).min(1).max(64),
    writer: z.union([
      z.strictObject({ kind: z.literal("workflow") }),
      z.strictObject({ kind: z.literal("step"), stepId: z.string().max(64), attempt }),
      z.strictObject({ kind: z.literal("client") }),
    ]),
  }),
  noop: z.strictObject({ sealed: z.literal(true) }),
  wake_requested: z.strictObject({
    /** The waits to complete now; absent means those open below this event's slot. */
    waitIds: z.array(z.string().max(64)).max(5000).optional(),
  }),
} as const;

export type EventType = keyof typeof eventDataSchemas;
export type EventDataOf<T extends EventType> = z.infer<(typeof eventDataSchemas)[T]>;

export const EVENT_TYPES = Object.keys(eventDataSchemas) as EventType[];

/** The fields of each event type that hold tenants' bytes, and are sealed before a World sees them. */
export const PAYLOAD_FIELDS: { readonly [T in EventType]?: readonly string[] } = {
  run_created: ["input", "seed"],
  run_completed: ["output"],
  run_failed: ["error"],
  step_created: ["input"],
  step_started: ["input"],
  step_retrying: ["error"],
  step_completed: ["result"],
  step_failed: ["error"],
  hook_created: ["token", "metadata"],
  hook_received: ["payload"],
};

/** Types that open, move or close an entity and so carry its `correlationId`. */
export const ENTITY_EVENT_TYPES: ReadonlySet<EventType> = new Set<EventType>([
  "step_created",
  "step_started",
  "step_retrying",
  "step_completed",
  "step_failed",
  "wait_created",
  "wait_completed",
  "hook_created",
  "hook_received",
  "hook_conflict",
  "hook_disposed",
]);

export const RUN_TERMINAL_TYPES: ReadonlySet<EventType> = new Set<EventType>([
  "run_completed",
  "run_failed",
  "run_cancelled",
]);

/** What a run that is over still takes; the rest of the step and wait events is refused. */
export const REFUSED_ON_TERMINAL_RUN: ReadonlySet<EventType> = new Set<EventType>([
  "step_created",
  "step_started",
  "step_retrying",
  "wait_created",
  "hook_received",
  "wake_requested",
  "run_started",
]);

/** What `events.createBatch` takes. */
export const BATCHABLE_TYPES: ReadonlySet<EventType> = new Set<EventType>([
  "step_created",
  "step_started",
  "step_retrying",
  "step_completed",
  "step_failed",
  "wait_created",
  "wait_completed",
]);

/** An event that is still to be written. */
export type NewEventOf<T extends EventType> = {
  readonly eventType: T;
  readonly eventData: EventDataOf<T>;
  /** The entity it belongs to; null for the run's own events. */
  readonly correlationId: EntityId | null;
  /** When its writer says it happened, epoch ms; an in-band event is stored under this time. */
  readonly occurredAt?: number;
  readonly specVersion: number;
};

/** An event with a position: the World's, or one that is foreseen (run-ahead.ts). */
export type PlacedEventOf<T extends EventType> = {
  readonly runId: RunId;
  readonly slot: Slot;
  /** `evnt_` and the slot in 26 digits. */
  readonly eventId: string;
  readonly eventType: T;
  readonly eventData: EventDataOf<T>;
  readonly correlationId: EntityId | null;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly specVersion: number;
};

/** An event that the World has accepted. */
export type RunEventOf<T extends EventType> = PlacedEventOf<T> & {
  /** Running digest of the log up to and including this event, 64 hexadecimal digits. */
  readonly digest: string;
};

export type NewEvent = { [T in EventType]: NewEventOf<T> }[EventType];
export type PlacedEvent = { [T in EventType]: PlacedEventOf<T> }[EventType];
export type RunEvent = { [T in EventType]: RunEventOf<T> }[EventType];

/** The digest of a log that holds nothing. */
export const EMPTY_LOG_DIGEST = "0".repeat(64);

const newEventSchema = z.discriminatedUnion(
  "eventType",
  EVENT_TYPES.map((eventType) =>
    z.strictObject({
      eventType: z.literal(eventType),
      eventData: eventDataSchemas[eventType],
      correlationId: ENTITY_EVENT_TYPES.has(eventType)
        ? z.string().transform(entityIdOf)
        : eventType === "attr_set"
          ? z.string().transform(entityIdOf).nullable()
          : z.null(),
      occurredAt: epochMs.optional(),
      specVersion: z.number().int().min(1),
    }),
  ) as unknown as Parameters<typeof z.discriminatedUnion>[1],
);

/** Checks an event on its way into a World. Throws `ZodError`, which the World's border translates. */
export function parseNewEvent(value: unknown): NewEvent {
  return newEventSchema.parse(value) as NewEvent;
}
