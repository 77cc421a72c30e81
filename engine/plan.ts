/**
 * The plan: open operations minus the committed log, as events to commit.
 *
 * Owns which operations are decisions still, their order, each new step's mode, and how creations
 * are cut into batches (spec: "Fan-out", "Step ownership and data"). Pure.
 *
 * E30  What the log holds is never planned again, so a refused item or a crash before a commit is
 *      simply planned at the next pass.
 * E31  Starts of inline steps go first, so that their bodies run while the rest commits.
 * E32  A run's completion is planned only behind everything else its code asked for.
 */
import { assertNever, present } from "./assert.ts";
import { SPEC_VERSION } from "./events.ts";
import type { EventType, EventDataOf, NewEvent, NewEventOf } from "./events.ts";
import type { EntityId } from "./ids.ts";
import {
  BATCH_EVENT_ALLOWANCE_BYTES,
  CREATION_BATCH_BYTES_MAX,
  CREATION_BATCH_EVENTS_MAX,
} from "./limits.ts";
import type { RunLog } from "./log.ts";
import { payloadOfText } from "./payload.ts";
import type { Completion, OpenOperation } from "./ports/sandbox.ts";
import type { TimedWait } from "./timers.ts";

type Operation<K extends OpenOperation["kind"]> = Extract<OpenOperation, { kind: K }>;
/** What is read of a log to plan. */
export type PlannedLog = Pick<RunLog, "steps" | "waits" | "hooks" | "attributes">;

export interface PlanInput {
  readonly operations: readonly OpenOperation[];
  readonly completion: Completion | null;
  readonly log: PlannedLog;
  /** How many new steps may run in place. */
  readonly inlineSlots: number;
  /** Names of steps that this process can run; others go to the queue. */
  readonly runnableHere: ReadonlySet<string>;
  /** Hash of each new hook's token. */
  readonly tokenHashes: ReadonlyMap<string, string>;
  /** The message whose delivery plans: recorded on background steps and waits. */
  readonly creatorMessageId: string;
  readonly nowMs: number;
}

export interface Plan {
  /** Hooks, disposals and attributes, one write each, in the order asked. */
  readonly singles: readonly NewEvent[];
  /** Creations of steps and waits, in the order of their commit. */
  readonly batches: readonly (readonly NewEvent[])[];
  readonly newWaits: readonly TimedWait[];
  /** The run's terminal event, to be written behind all the others. */
  readonly ending: NewEvent | null;
  /** How many events the plan comes to. */
  readonly eventCount: number;
}

/** What stands in the log for arguments that could not be encoded. */
const NO_INPUT = payloadOfText("[[]]");

/** Steps that are asked for and not in the log. */
export function newStepsOf(
  operations: readonly OpenOperation[],
  log: Pick<PlannedLog, "steps">,
): readonly Operation<"step">[] {
  return operations
    .filter((operation) => operation.kind === "step")
    .filter((step) => !log.steps.has(step.correlationId));
}

/** Hooks that are asked for and not in the log. */
export function newHooksOf(
  operations: readonly OpenOperation[],
  log: Pick<PlannedLog, "hooks">,
): readonly Operation<"hook">[] {
  return operations
    .filter((operation) => operation.kind === "hook")
    .filter((hook) => !log.hooks.has(hook.correlationId));
}

export interface InlineSlotsInput {
  readonly inlineStepsMax: number;
  /** Inline steps that are open in the log. */
  readonly openInlineSteps: number;
  /** Too close to the end of the invocation. */
  readonly isPastMargin: boolean;
  /** A hook is about to be created whose conflict the code waits for. */
  readonly awaitsConflict: boolean;
  readonly isCompleting: boolean;
}

/** How many new steps may run in place. */
export function inlineSlots(input: InlineSlotsInput): number {
  if (input.isPastMargin || input.awaitsConflict || input.isCompleting) return 0;
  return Math.max(0, input.inlineStepsMax - input.openInlineSteps);
}

export function planOf(input: PlanInput): Plan {
  const singles = singlesOf(input);
  const { creations, newWaits } = creationsOf(input);
  const ending = input.completion === null ? null : endingOf(input.completion);
  const eventCount = singles.length + creations.length + (ending === null ? 0 : 1);
  return { singles, batches: batchesOf(creations), newWaits, ending, eventCount };
}

function singlesOf(input: PlanInput): NewEvent[] {
  const { log, completion } = input;
  const newHooks = new Map(newHooksOf(input.operations, log).map((h) => [h.correlationId, h]));
  let hooksLeft = newHooks.size;
  const singles: NewEvent[] = [];
  for (const operation of input.operations) {
    const id = operation.correlationId;
    switch (operation.kind) {
      case "hook":
        if (!newHooks.has(id)) break;
        hooksLeft -= 1;
        // Nothing could resume an internal hook of a run that is ending.
        if (completion !== null && operation.isSystem) break;
        singles.push(hookCreated(operation, input));
        break;
      case "dispose_hook":
        if (isDisposalDue(input, { id, creation: newHooks.get(id), claimsLater: hooksLeft > 0 })) {
          singles.push(newEvent("hook_disposed", id, {}));
        }
        break;
      case "set_attributes":
        if (log.attributes.has(id)) break;
        singles.push(
          newEvent("attr_set", id, {
            changes: [...operation.changes],
            writer: { kind: "workflow" },
          }),
        );
        break;
      case "step":
      case "unserializable_step":
      case "wait":
        break;
      default:
        assertNever(operation);
    }
  }
  return singles;
}

/**
 * A hook that is not open has nothing to dispose of. At the run's end its terminal event releases
 * every token but a retained one, and but one that a later creation of the same end claims again.
 */
function isDisposalDue(
  input: PlanInput,
  hook: {
    readonly id: EntityId;
    readonly creation: Operation<"hook"> | undefined;
    readonly claimsLater: boolean;
  },
): boolean {
  const held = input.log.hooks.get(hook.id);
  if (held === undefined && hook.creation === undefined) return false;
  if (held !== undefined && held.closedSlot !== null) return false;
  if (input.completion === null) return true;
  if (held === undefined && hook.creation?.isSystem === true) return false;
  const isRetained = held?.isRetained === true || (hook.creation?.retentionMs ?? 0) > 0;
  return isRetained || hook.claimsLater;
}

function hookCreated(hook: Operation<"hook">, input: PlanInput): NewEvent {
  const tokenHash = present(input.tokenHashes.get(hook.token), "a new hook's token is hashed");
  return newEvent("hook_created", hook.correlationId, {
    token: payloadOfText(JSON.stringify([hook.token])),
    tokenHash,
    isWebhook: hook.isWebhook,
    isSystem: hook.isSystem,
    ...(hook.metadata === null ? {} : { metadata: hook.metadata }),
    ...(hook.retentionMs > 0 ? { tokenRetentionUntil: input.nowMs + hook.retentionMs } : {}),
    ...(hook.force ? { force: true as const } : {}),
  });
}

function creationsOf(input: PlanInput): { creations: NewEvent[]; newWaits: TimedWait[] } {
  const { log, creatorMessageId } = input;
  const inline: NewEvent[] = [];
  const rest: NewEvent[] = [];
  const newWaits: TimedWait[] = [];
  let slots = input.inlineSlots;
  for (const operation of input.operations) {
    if (operation.kind === "step" && !log.steps.has(operation.correlationId)) {
      const runsInline = slots > 0 && input.runnableHere.has(operation.stepName);
      if (runsInline) {
        slots -= 1;
        inline.push(inlineStart(operation));
      } else {
        rest.push(backgroundCreation(operation, creatorMessageId));
      }
    }
    if (operation.kind === "unserializable_step") {
      rest.push(...unserializable(operation, input));
    }
    // A sleep that the run's code no longer waits for is not begun at the run's end.
    if (operation.kind === "wait" && input.completion === null) {
      const { correlationId: waitId, resumeAt } = operation;
      if (log.waits.has(waitId)) continue;
      newWaits.push({ waitId, resumeAt, chain: creatorMessageId });
      rest.push(newEvent("wait_created", waitId, { resumeAt, creatorMessageId }));
    }
  }
  return { creations: [...inline, ...rest], newWaits };
}

function inlineStart(step: Operation<"step">): NewEvent {
  const { stepName, input } = step;
  return newEvent("step_started", step.correlationId, {
    stepName,
    attempt: 1,
    input,
    inline: true,
  });
}

function backgroundCreation(step: Operation<"step">, creatorMessageId: string): NewEvent {
  const { stepName, input } = step;
  return newEvent("step_created", step.correlationId, {
    stepName,
    input,
    inline: false,
    creatorMessageId,
  });
}

/** Created and failed at once, so that the workflow sees the error where it made the call. */
function unserializable(step: Operation<"unserializable_step">, input: PlanInput): NewEvent[] {
  const held = input.log.steps.get(step.correlationId);
  if (held !== undefined && held.outcome !== null) return [];
  const { stepName, error } = step;
  const failed = newEvent("step_failed", step.correlationId, { stepName, error });
  if (held !== undefined) return [failed];
  const created = newEvent("step_created", step.correlationId, {
    stepName,
    input: NO_INPUT,
    inline: true,
    creatorMessageId: input.creatorMessageId,
  });
  return [created, failed];
}

function endingOf(completion: Completion): NewEvent {
  if (completion.kind === "completed") {
    return newEvent("run_completed", null, { output: completion.output });
  }
  return newEvent("run_failed", null, { error: completion.error, errorCode: completion.errorCode });
}

/** Cuts creations into batches that a World takes; a creation over the byte budget goes alone. */
export function batchesOf(creations: readonly NewEvent[]): NewEvent[][] {
  const batches: NewEvent[][] = [];
  let current: NewEvent[] = [];
  let bytes = 0;
  for (const event of creations) {
    const weight = weightOf(event);
    const isFull =
      current.length >= CREATION_BATCH_EVENTS_MAX || bytes + weight > CREATION_BATCH_BYTES_MAX;
    if (isFull && current.length > 0) {
      batches.push(current);
      current = [];
      bytes = 0;
    }
    current.push(event);
    bytes += weight;
  }
  if (current.length > 0) batches.push(current);
  return batches;
}

function weightOf(event: NewEvent): number {
  let bytes = BATCH_EVENT_ALLOWANCE_BYTES;
  for (const value of Object.values(event.eventData)) {
    if (value instanceof Uint8Array) bytes += value.length;
  }
  return bytes;
}

/** An event of this build's version, still to be written. */
export function newEvent<T extends EventType>(
  eventType: T,
  correlationId: EntityId | null,
  eventData: EventDataOf<T>,
): NewEvent {
  const event: NewEventOf<T> = {
    eventType,
    correlationId,
    eventData,
    specVersion: SPEC_VERSION,
  };
  return event as unknown as NewEvent;
}
