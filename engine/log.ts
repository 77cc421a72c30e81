/**
 * RunLog: a checked, gap-free prefix of one run's log, folded as it grows.
 *
 * Owns the order of events and the folds over them. Keeps an event only until the guest has
 * consumed it, and a closed entity only that long, so its size follows what is open, not how long
 * the run is. Knows neither World nor heap.
 *
 * E1  Slots are dense: an event is taken only at the slot right above the top.
 * E2  Taking one event costs the same however long the log is.
 * E3  What is inert is decided once, at the event's own position in the log, and by the log alone.
 */
import { assert, assertNever } from "./assert.ts";
import { EMPTY_LOG_DIGEST } from "./events.ts";
import type { RunEvent } from "./events.ts";
import { hookAfter } from "./hooks.ts";
import type { HookState } from "./hooks.ts";
import type { EntityId } from "./ids.ts";
import { RUN_ABSENT, runAfter } from "./run.ts";
import type { RunState } from "./run.ts";
import { SLOT_NONE, nextSlot } from "./slots.ts";
import type { Slot } from "./slots.ts";
import { stepAfter } from "./steps.ts";
import type { StepEvent, StepState } from "./steps.ts";
import { isAskedToWake, waitOf } from "./waits.ts";
import type { WaitState } from "./waits.ts";

/** An event that the guest has not consumed yet. */
export interface LoggedEvent {
  readonly event: RunEvent;
  /** Committed, but without effect. */
  readonly isInert: boolean;
}

/** Everything that a prefix decided and that is still of use, once all of it is consumed. */
export interface FoldedLog {
  readonly topSlot: Slot;
  readonly digest: string;
  readonly run: RunState;
  readonly steps: readonly StepState[];
  readonly waits: readonly WaitState[];
  readonly hooks: readonly HookState[];
}

interface ClosedEntity {
  readonly slot: Slot;
  readonly id: EntityId;
}

export class RunLog {
  #topSlot: Slot = SLOT_NONE;
  #consumedSlot: Slot = SLOT_NONE;
  #digest = EMPTY_LOG_DIGEST;
  #run: RunState = RUN_ABSENT;
  readonly #steps = new Map<EntityId, StepState>();
  readonly #waits = new Map<EntityId, WaitState>();
  readonly #hooks = new Map<EntityId, HookState>();
  readonly #attributes = new Set<EntityId>();
  #unconsumed: LoggedEvent[] = [];
  #closed: ClosedEntity[] = [];

  /** The log as it was when all up to `folded.topSlot` had been consumed. */
  static restore(folded: FoldedLog): RunLog {
    const log = new RunLog();
    log.#topSlot = folded.topSlot;
    log.#consumedSlot = folded.topSlot;
    log.#digest = folded.digest;
    log.#run = folded.run;
    for (const step of folded.steps) log.#steps.set(step.stepId, step);
    for (const wait of folded.waits) log.#waits.set(wait.waitId, wait);
    for (const hook of folded.hooks) log.#hooks.set(hook.hookId, hook);
    return log;
  }

  /** What `restore` takes. Only of a log whose every event is consumed. */
  fold(): FoldedLog {
    assert(this.#consumedSlot === this.#topSlot, "only a log that is consumed whole is put away");
    return {
      topSlot: this.#topSlot,
      digest: this.#digest,
      run: this.#run,
      steps: [...this.#steps.values()],
      waits: [...this.#waits.values()],
      hooks: [...this.#hooks.values()],
    };
  }

  get topSlot(): Slot {
    return this.#topSlot;
  }

  /** The last slot that the guest has consumed, whether or not it was told of each event. */
  get consumedSlot(): Slot {
    return this.#consumedSlot;
  }

  /** Running digest up to the top slot. */
  get digest(): string {
    return this.#digest;
  }

  get run(): RunState {
    return this.#run;
  }

  get isOver(): boolean {
    return this.#run.kind === "over";
  }

  /** In the order of their creation; those closed but not consumed included. */
  get steps(): ReadonlyMap<EntityId, StepState> {
    return this.#steps;
  }

  get waits(): ReadonlyMap<EntityId, WaitState> {
    return this.#waits;
  }

  get hooks(): ReadonlyMap<EntityId, HookState> {
    return this.#hooks;
  }

  /** Attribute writes of the workflow that the guest has not consumed yet. */
  get attributes(): ReadonlySet<EntityId> {
    return this.#attributes;
  }

  get unconsumed(): readonly LoggedEvent[] {
    return this.#unconsumed;
  }

  /** Takes the next event (E1). */
  append(event: RunEvent): void {
    assert(event.slot === nextSlot(this.#topSlot), "a log has no gap");
    const wasOver = this.isOver;
    const next = runAfter(this.#run, event);
    const isLive = wasOver ? false : this.#foldEntity(event) || this.#run !== next;
    this.#run = next;
    this.#topSlot = event.slot;
    this.#digest = event.digest;
    this.#unconsumed.push({ event, isInert: !isLive });
  }

  /** The guest has consumed everything up to and including `slot`. */
  markConsumed(slot: Slot): void {
    assert(slot <= this.#topSlot, "nothing is consumed that is not committed");
    assert(slot >= this.#consumedSlot, "consumption goes forward");
    const keepFrom = this.#unconsumed.findIndex(({ event }) => event.slot > slot);
    for (const { event } of keepFrom < 0 ? this.#unconsumed : this.#unconsumed.slice(0, keepFrom)) {
      if (event.eventType === "attr_set" && event.correlationId !== null) {
        this.#attributes.delete(event.correlationId);
      }
    }
    this.#unconsumed = keepFrom < 0 ? [] : this.#unconsumed.slice(keepFrom);
    this.#consumedSlot = slot;
    this.#dropClosed(slot);
  }

  /**
   * An entity that the guest has seen closed is not asked for again, so its closed entry tells
   * nothing: from then on an event under its id is inert because nothing open has that id.
   */
  #dropClosed(slot: Slot): void {
    const keepFrom = this.#closed.findIndex((closed) => closed.slot > slot);
    const gone = keepFrom < 0 ? this.#closed : this.#closed.slice(0, keepFrom);
    for (const { id } of gone) {
      this.#steps.delete(id);
      this.#waits.delete(id);
      this.#hooks.delete(id);
    }
    this.#closed = keepFrom < 0 ? [] : this.#closed.slice(keepFrom);
  }

  /** Whether the event had an effect on an entity. */
  #foldEntity(event: RunEvent): boolean {
    switch (event.eventType) {
      case "step_created":
      case "step_started":
      case "step_retrying":
      case "step_completed":
      case "step_failed":
        return this.#foldStep(event);
      case "wait_created":
      case "wait_completed":
        return this.#foldWait(event);
      case "hook_created":
      case "hook_received":
      case "hook_conflict":
      case "hook_disposed": {
        const id = event.correlationId as EntityId;
        const next = hookAfter(this.#hooks.get(id) ?? null, event);
        if (next === null) return false;
        this.#hooks.set(id, next);
        if (next.closedSlot !== null) this.#closed.push({ slot: event.slot, id });
        return true;
      }
      case "attr_set": {
        if (event.correlationId === null || this.#attributes.has(event.correlationId)) return false;
        this.#attributes.add(event.correlationId);
        return true;
      }
      case "wake_requested": {
        for (const [id, wait] of this.#waits) {
          if (isAskedToWake(wait, event)) this.#waits.set(id, { ...wait, isWoken: true });
        }
        return true;
      }
      case "noop":
      case "run_created":
      case "run_started":
      case "run_completed":
      case "run_failed":
      case "run_cancelled":
        return false;
      default:
        return assertNever(event);
    }
  }

  #foldStep(event: StepEvent): boolean {
    const id = event.correlationId as EntityId;
    const next = stepAfter(this.#steps.get(id) ?? null, event);
    if (next === null) return false;
    this.#steps.set(id, next);
    if (next.outcome !== null) this.#closed.push({ slot: event.slot, id });
    return true;
  }

  #foldWait(event: Extract<RunEvent, { eventType: "wait_created" | "wait_completed" }>): boolean {
    const id = event.correlationId as EntityId;
    const wait = this.#waits.get(id);
    if (event.eventType === "wait_created") {
      if (wait !== undefined) return false;
      this.#waits.set(id, waitOf(event));
      return true;
    }
    if (wait === undefined || wait.completedSlot !== null) return false;
    this.#waits.set(id, { ...wait, completedSlot: event.slot });
    this.#closed.push({ slot: event.slot, id });
    return true;
  }
}
