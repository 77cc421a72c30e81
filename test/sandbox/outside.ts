/**
 * Everything outside of a heap, for tests: commits what it asks for and answers it, as events.
 *
 * What is answered next, and how many events come in one pass, is the caller's choice, so the same
 * program can be led along any order that a log may have.
 */
import { assertNever } from "../../engine/assert.ts";
import type { EventType } from "../../engine/events.ts";
import type { EntityId } from "../../engine/ids.ts";
import type { GuestEvent, OpenOperation, PassResult } from "../../engine/ports/sandbox.ts";
import { payloadOfText } from "../../engine/payload.ts";
import type { Slot } from "../../engine/slots.ts";

export type Quiet = Extract<PassResult, { kind: "quiet" }>;

export interface Answers {
  /** Devalue text that a step brings; `fails` makes it the step's error. */
  step(
    name: string,
    input: string,
    nth: number,
  ): { readonly text: string; readonly fails?: boolean };
  /** Devalue text of the next payload of a hook, or null for no more. */
  hook(token: string, nth: number): string | null;
}

export interface OutsideOptions {
  /** Epoch ms of the first event. */
  readonly startedAt: number;
  /** Devalue text of the workflow's arguments. */
  readonly args?: string;
  readonly answers: Answers;
  /** A whole number from 0 up to, not including, `bound`. */
  readonly choose: (bound: number) => number;
}

/** Steps give back how often they ran, hooks bring three payloads. */
export const PLAIN_ANSWERS: Answers = {
  step: (_name, _input, nth) => ({ text: `[${nth}]` }),
  hook: (_token, nth) => (nth < 3 ? `[{"nth":1},${nth}]` : null),
};

export class Outside {
  readonly #options: OutsideOptions;
  readonly #created = new Set<string>();
  readonly #settled = new Set<string>();
  readonly #payloadCount = new Map<string, number>();
  readonly #log: GuestEvent[] = [];
  #steps = 0;
  #nowMs: number;

  constructor(options: OutsideOptions) {
    this.#options = options;
    this.#nowMs = options.startedAt;
  }

  /** Every event so far, in slot order. */
  get log(): readonly GuestEvent[] {
    return this.#log;
  }

  begin(): GuestEvent[] {
    return [
      this.#event("run_created", null, { payload: this.#options.args ?? "[[]]" }),
      this.#event("run_started", null, {}),
    ];
  }

  /** The events that follow from what a heap has open; none: nothing more will happen to it. */
  next(quiet: Quiet): GuestEvent[] {
    const events = quiet.operations.flatMap((operation) => this.#creation(operation));
    const settleable = quiet.operations.filter((operation) => this.#canSettle(operation, quiet));
    const count = settleable.length === 0 ? 0 : 1 + this.#options.choose(settleable.length);
    for (let i = 0; i < count; i++) {
      const [operation] = settleable.splice(this.#options.choose(settleable.length), 1);
      if (operation !== undefined) events.push(...this.#settlement(operation));
    }
    return events;
  }

  #creation(operation: OpenOperation): GuestEvent[] {
    const { correlationId: id } = operation;
    if (operation.kind === "dispose_hook" || operation.kind === "set_attributes") return [];
    if (this.#created.has(id)) return [];
    this.#created.add(id);
    switch (operation.kind) {
      case "step":
      case "unserializable_step":
        return [this.#event("step_created", id, { asked: { stepName: operation.stepName } })];
      case "wait":
        return [this.#event("wait_created", id, { asked: { resumeAt: operation.resumeAt } })];
      case "hook":
        return [this.#event("hook_created", id, {})];
      default:
        return assertNever(operation);
    }
  }

  #canSettle(operation: OpenOperation, quiet: Quiet): boolean {
    const { kind, correlationId: id } = operation;
    if (kind === "hook") {
      const isAwaited = quiet.awaitedHooks.includes(id);
      const isDisposed = quiet.operations.some(
        (other) => other.kind === "dispose_hook" && other.correlationId === id,
      );
      const nth = this.#payloadCount.get(id) ?? 0;
      const { token } = operation;
      return isAwaited && !isDisposed && this.#options.answers.hook(token, nth) !== null;
    }
    return !this.#settled.has(`${kind} ${id}`);
  }

  #settlement(operation: OpenOperation): GuestEvent[] {
    const { kind, correlationId: id } = operation;
    if (kind !== "hook") this.#settled.add(`${kind} ${id}`);
    switch (operation.kind) {
      case "step": {
        const input = Buffer.from(operation.input).toString();
        const answer = this.#options.answers.step(operation.stepName, input, this.#steps++);
        const type = answer.fails === true ? "step_failed" : "step_completed";
        return [
          this.#event("step_started", id, {}),
          this.#event(type, id, { payload: answer.text }),
        ];
      }
      case "unserializable_step":
        return [this.#event("step_failed", id, { payload: textOf(operation.error) })];
      case "wait":
        this.#nowMs = Math.max(this.#nowMs, operation.resumeAt);
        return [this.#event("wait_completed", id, {})];
      case "hook": {
        const nth = this.#payloadCount.get(id) ?? 0;
        this.#payloadCount.set(id, nth + 1);
        const payload = this.#options.answers.hook(operation.token, nth) ?? "-1";
        return [this.#event("hook_received", id, { payload })];
      }
      case "dispose_hook":
        return [this.#event("hook_disposed", id, {})];
      case "set_attributes":
        return [this.#event("attr_set", id, {})];
      default:
        return assertNever(operation);
    }
  }

  #event(
    eventType: EventType,
    correlationId: EntityId | null,
    more: { readonly payload?: string; readonly asked?: GuestEvent["asked"] },
  ): GuestEvent {
    this.#nowMs += 7;
    const event: GuestEvent = {
      slot: (this.#log.length + 1) as Slot,
      eventType,
      correlationId,
      createdAt: this.#nowMs,
      payload: more.payload === undefined ? null : payloadOfText(more.payload),
      asked: more.asked ?? null,
      conflictingRunId: null,
    };
    this.#log.push(event);
    return event;
  }
}

function textOf(payload: Uint8Array): string {
  return Buffer.from(payload.subarray(4)).toString();
}

/** All that crossed in a pass, byte for byte, without what it cost. */
export function decisionsOf(result: PassResult): string {
  const readable = (_key: string, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value;
  if (result.kind !== "quiet") {
    const { kind } = result;
    if (kind === "limit") {
      const { code, limit, allowed } = result.exceeded;
      return JSON.stringify({ kind, code, limit, allowed });
    }
    return JSON.stringify(result, readable);
  }
  const { operations, completion, awaitedHooks, console } = result;
  return JSON.stringify({ operations, completion, awaitedHooks, console }, readable);
}
