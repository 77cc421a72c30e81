/**
 * Writes that run ahead of their answers: queued in the order decided, sent one group at a time
 * through the delivery's one in-band writer, and checked as they commit.
 *
 * Owns the predicted slots, the groups, and what an answer means for what was decided without it
 * (spec: "Serialization and batches", "A clean run-ahead"). Knows no heap: it says how far the guest
 * was told, and nothing else.
 *
 * E112 Writes leave in the order they were decided; nothing leaves behind a stop.
 * E113 What landed below a write, the slot it got and the time it was stored under are checked on
 *      every answer, before anything further is sent.
 * E114 Below an outcome that is not committed nothing counts as consumed.
 */
import { assert } from "./assert.ts";
import { BatonError } from "./errors.ts";
import type { EventType, NewEvent, PlacedEvent, RunEvent } from "./events.ts";
import type { EntityId, RunId } from "./ids.ts";
import { RUN_AHEAD_GROUP_EVENTS_MAX } from "./limits.ts";
import type { RunLog } from "./log.ts";
import { batchesOf } from "./plan.ts";
import { isHazard, placedEvent } from "./run-ahead.ts";
import { SLOT_NONE, nextSlot } from "./slots.ts";
import type { Slot } from "./slots.ts";
import { isStepEvent, stepAfter } from "./steps.ts";
import type { StepState } from "./steps.ts";
import type { InBandWriter, WriteResult, WriterStop } from "./writer.ts";

/** Why nothing more is sent. */
export type AheadStop =
  | WriterStop
  | { readonly kind: "refused"; readonly result: WriteResult }
  /** Another writer could have changed what is committed by now. */
  | { readonly kind: "hazard"; readonly event: RunEvent }
  /** The World keeps times of its own. */
  | { readonly kind: "other time"; readonly event: RunEvent }
  /** What landed below is not known yet. */
  | { readonly kind: "behind" }
  | { readonly kind: "over" };

export interface AheadOptions {
  readonly writer: InBandWriter;
  readonly log: RunLog;
  readonly runId: RunId;
  readonly now: () => number;
  /** Whether this delivery runs that step's body, or has its outcome at hand. */
  readonly runsHere: (stepId: EntityId) => boolean;
  readonly onCommitted: (events: readonly RunEvent[]) => void;
  /** An answer came, or nothing is in flight any more. */
  readonly onAnswer: () => void;
}

interface AheadWrite {
  readonly event: NewEvent;
  readonly placed: PlacedEvent;
}

const OUTCOMES: ReadonlySet<EventType> = new Set<EventType>(["step_completed", "step_failed"]);

export class AheadWrites {
  readonly #options: AheadOptions;
  #queue: AheadWrite[] = [];
  #sent: readonly AheadWrite[] = [];
  /** Placed, and not told to the guest. */
  #untold: PlacedEvent[] = [];
  /** An event of another writer that is where it was foreseen: a fresh run's creation. */
  #foreseen: PlacedEvent | null = null;
  #topSlot: Slot;
  #toldSlot: Slot = SLOT_NONE;
  #sending: Promise<void> | null = null;
  #stop: AheadStop | null = null;
  #isDisplaced = false;
  readonly #sensitive = new Set<EntityId>();
  readonly #unstarted = new Set<EntityId>();
  #startCount = 0;
  #settleFirst: { resolve(): void; reject(error: Error): void } | null = null;
  /** Resolves once the first write is committed; rejects if it never is. */
  readonly firstCommit: Promise<void>;

  constructor(options: AheadOptions) {
    this.#options = options;
    this.#topSlot = options.log.topSlot;
    this.firstCommit = new Promise((resolve, reject) => (this.#settleFirst = { resolve, reject }));
    // Whether anybody waits for it or not.
    this.firstCommit.catch(() => undefined);
  }

  get stop(): AheadStop | null {
    return this.#stop;
  }

  /** The guest was told of a slot at which something else stands. */
  get isDisplaced(): boolean {
    return this.#isDisplaced;
  }

  get isBusy(): boolean {
    return this.#sending !== null;
  }

  /** Steps created so far. */
  get startCount(): number {
    return this.#startCount;
  }

  /** The last slot that is taken, by what is committed or is under way. */
  get topSlot(): Slot {
    return this.#topSlot;
  }

  get outcomeCount(): number {
    return this.#unconfirmed.filter(({ event }) => OUTCOMES.has(event.eventType)).length;
  }

  /** Steps that were started ahead and whose start is not committed. */
  get unstarted(): ReadonlySet<EntityId> {
    return this.#unstarted;
  }

  hasOutcome(stepId: EntityId): boolean {
    return this.#unconfirmed.some(
      ({ event }) => event.correlationId === stepId && OUTCOMES.has(event.eventType),
    );
  }

  /** The log's steps as they will be once all of this has committed. */
  steps(): ReadonlyMap<EntityId, StepState> {
    const steps = new Map(this.#options.log.steps);
    for (const { placed } of this.#unconfirmed) {
      if (!isStepEvent(placed) || placed.correlationId === null) continue;
      const next = stepAfter(steps.get(placed.correlationId) ?? null, placed);
      if (next !== null) steps.set(placed.correlationId, next);
    }
    return steps;
  }

  /** What the guest is not told yet, in slot order. */
  takeUntold(): readonly PlacedEvent[] {
    const untold = this.#untold;
    this.#untold = [];
    return untold;
  }

  /** The guest has consumed everything up to `slot`, committed or not. */
  noteTold(slot: Slot): void {
    this.#toldSlot = slot;
    this.#markConsumed();
  }

  /** Hooks that the guest would notice where it is told of an outcome. */
  noteSensitive(hooks: Iterable<EntityId>): void {
    for (const hook of hooks) this.#sensitive.add(hook);
  }

  /** An event that the log holds, though it is not read yet. */
  foresee(event: NewEvent): PlacedEvent {
    assert(this.#topSlot === SLOT_NONE, "only a log's first event is known unread");
    this.#foreseen = this.#place(event);
    return this.#foreseen;
  }

  /** Queues a write behind all others, at the slot it is to get. */
  push(event: NewEvent): PlacedEvent {
    assert(this.#stop === null, "nothing is decided behind a stop");
    const timed = { ...event, occurredAt: event.occurredAt ?? this.#options.now() };
    const placed = this.#place(timed);
    this.#queue.push({ event: timed, placed });
    if (event.eventType === "step_started" && event.correlationId !== null) {
      this.#unstarted.add(event.correlationId);
      this.#startCount += 1;
    }
    return placed;
  }

  /** Lets what is queued go out; it goes on by itself until nothing is left. */
  send(): void {
    if (this.#sending !== null || this.#queue.length === 0) return;
    this.#sending = this.#sendAll().finally(() => {
      this.#sending = null;
      this.#options.onAnswer();
    });
  }

  /** Everything that was queued has been answered, or will never be sent. */
  async idle(): Promise<void> {
    this.send();
    while (this.#sending !== null) await this.#sending;
  }

  /** Nothing that is not sent yet is sent. */
  drop(): void {
    this.#queue = [];
  }

  get #unconfirmed(): readonly AheadWrite[] {
    return [...this.#sent, ...this.#queue];
  }

  #place(event: NewEvent): PlacedEvent {
    const { runId, now } = this.#options;
    const placed = placedEvent(event, { runId, slot: nextSlot(this.#topSlot), nowMs: now() });
    this.#topSlot = placed.slot;
    this.#untold.push(placed);
    return placed;
  }

  async #sendAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#nextGroup();
      this.#queue = this.#queue.slice(group.length);
      this.#sent = group;
      const result = await this.#write(group.map(({ event }) => event));
      this.#take(group, result);
      this.#sent = [];
      if (result.kind === "committed") this.#settleFirst?.resolve();
      else this.#settleFirst?.reject(new BatonError("RUN_EXPIRED", "the run was not started"));
      if (this.#stop !== null) this.drop();
      this.#options.onAnswer();
    }
  }

  /** What goes out as one write: the run's start alone, steps up to a group. */
  #nextGroup(): readonly AheadWrite[] {
    const [head] = this.#queue;
    if (head !== undefined && head.event.correlationId === null) return [head];
    const next = this.#queue.slice(0, RUN_AHEAD_GROUP_EVENTS_MAX);
    const [batch] = batchesOf(next.map(({ event }) => event));
    return next.slice(0, batch?.length);
  }

  #write(events: readonly NewEvent[]): Promise<WriteResult> {
    const { writer } = this.#options;
    const [first] = events;
    return first !== undefined && first.correlationId === null
      ? writer.create(first)
      : writer.createBatch(events);
  }

  #take(group: readonly AheadWrite[], result: WriteResult): void {
    if (result.kind === "superseded" || result.kind === "unknown") {
      this.#stop = result;
      return;
    }
    if (result.kind === "refused") {
      this.#stop = { kind: "refused", result };
      return;
    }
    for (const event of result.events) {
      if (event.eventType === "step_started" && event.correlationId !== null) {
        this.#unstarted.delete(event.correlationId);
      }
    }
    this.#options.onCommitted(result.events);
    this.#stop = this.#checked(group, result);
    this.#markConsumed();
  }

  /** Holds what was committed against what was foreseen (E113). */
  #checked(
    group: readonly AheadWrite[],
    result: Extract<WriteResult, { kind: "committed" }>,
  ): AheadStop | null {
    const { log, writer, runsHere } = this.#options;
    const placedOf = new Map(group.map(({ placed }) => [keyOf(placed), placed]));
    for (const event of result.events) {
      const placed = placedOf.get(keyOf(event));
      if (event.slot !== placed?.slot) this.#isDisplaced = true;
      if (event.createdAt !== placed?.createdAt) return { kind: "other time", event };
    }
    for (const event of result.below) {
      if (event.slot === this.#foreseen?.slot) {
        if (event.createdAt !== this.#foreseen.createdAt) return { kind: "other time", event };
        continue;
      }
      this.#isDisplaced = true;
      if (log.unconsumed.some((one) => one.isInert && one.event.slot === event.slot)) continue;
      if (isHazard(event, { sensitive: this.#sensitive, runsHere })) {
        return { kind: "hazard", event };
      }
    }
    if (log.isOver) return { kind: "over" };
    if (result.refused.length > 0) return { kind: "refused", result };
    return writer.isBehind ? { kind: "behind" } : null;
  }

  #markConsumed(): void {
    const { log, writer } = this.#options;
    if (this.#isDisplaced || this.#stop !== null || writer.isBehind) return;
    const slot = this.#toldSlot < log.topSlot ? this.#toldSlot : log.topSlot;
    if (slot > log.consumedSlot) log.markConsumed(slot);
  }
}

function keyOf(event: PlacedEvent): string {
  return `${event.eventType} ${event.correlationId ?? ""}`;
}
