/**
 * Events of the log, given to the code that waits for them.
 *
 * Each event either settles something, or is compared with what the code asked for, or is inert:
 * an entity's events after its terminal one do nothing, whatever their type. The clock moves with
 * an event exactly if that event resumes the tenant's code.
 */
import type { EventType } from "../../engine/events.ts";
import type { Guest } from "./guest.ts";
import type { Operation } from "./operations.ts";
import { jsonOf } from "./primordials.ts";
import type { WorkflowRun } from "./workflow-run.ts";

export interface ConsumedEvent {
  readonly slot: number;
  readonly type: EventType;
  readonly id: string | null;
  /** Epoch ms. */
  readonly at: number;
  readonly stepName: string | null;
  readonly resumeAt: number | null;
  readonly conflictingRunId: string | undefined;
  /** Devalue text of what the event brings. */
  readonly payload: string;
}

type OperationOf<K extends Operation["kind"]> = Extract<Operation, { kind: K }>;
type EntityEvent = ConsumedEvent & { readonly id: string };

/** What the log contradicts, in words; null: consumed. */
export type Contradiction = { readonly found: string; readonly expected: string } | null;

export class Consumer {
  readonly #guest: Guest;
  readonly #run: WorkflowRun;

  constructor(guest: Guest, run: WorkflowRun) {
    this.#guest = guest;
    this.#run = run;
  }

  consume(event: ConsumedEvent): Contradiction {
    switch (event.type) {
      case "run_created":
        // The code starts at the clock's first reading: nothing moves.
        this.#run.begin(event.payload);
        return null;
      case "run_started":
      case "run_completed":
      case "run_failed":
      case "run_cancelled":
      case "noop":
      case "wake_requested":
        return null;
      default:
        // An attribute that a step or a client has set belongs to no one here.
        return event.id === null ? null : this.#consumeEntity(event as EntityEvent);
    }
  }

  #consumeEntity(event: EntityEvent): Contradiction {
    const { operations } = this.#guest;
    const operation = operations.find(event.id);
    if (operation === undefined) {
      if (operations.wasDrawn(event.id)) return null;
      return contradiction(event, operations.firstUncreated());
    }
    switch (operation.kind) {
      case "step":
        return this.#consumeStep(operation, event);
      case "wait":
        return this.#consumeWait(operation, event);
      case "hook":
        return this.#consumeHook(operation, event);
      case "attr":
        if (event.type !== "attr_set") return contradiction(event, operation);
        operations.close(operation.id);
        operation.settle(true, "-1");
        return null;
      default:
        return contradiction(event, operation);
    }
  }

  #consumeStep(operation: OperationOf<"step">, event: EntityEvent): Contradiction {
    switch (event.type) {
      case "step_created":
      case "step_started":
      case "step_retrying":
        if (event.stepName !== null && event.stepName !== operation.name) {
          return contradiction(event, operation);
        }
        operation.created = true;
        return null;
      case "step_completed":
      case "step_failed":
        this.#guest.operations.close(operation.id);
        this.#guest.clock.moveTo(event.at);
        operation.settle(event.type === "step_completed", event.payload);
        return null;
      default:
        return contradiction(event, operation);
    }
  }

  #consumeWait(operation: OperationOf<"wait">, event: EntityEvent): Contradiction {
    switch (event.type) {
      case "wait_created":
        operation.created = true;
        // The recorded deadline wins over what the code computed this time.
        if (event.resumeAt !== null) operation.at = event.resumeAt;
        return null;
      case "wait_completed":
        this.#guest.operations.close(operation.id);
        this.#guest.clock.moveTo(event.at);
        operation.settle(true, "-1");
        return null;
      default:
        return contradiction(event, operation);
    }
  }

  #consumeHook(operation: OperationOf<"hook">, event: EntityEvent): Contradiction {
    const { clock, operations } = this.#guest;
    const { hook, id } = operation;
    switch (event.type) {
      case "hook_created":
        operation.created = true;
        hook.onCreated();
        return null;
      case "hook_received":
        // Moved before the payload is decoded: a class that is revived may read the clock.
        if (hook.isAwaited()) clock.moveTo(event.at);
        hook.onReceived(event.payload);
        return null;
      case "hook_conflict":
        if (hook.isAwaited() || hook.awaitsConflict()) clock.moveTo(event.at);
        operations.close(id);
        hook.onConflict(event.conflictingRunId);
        return null;
      case "hook_disposed": {
        const wasAsked = operations.isDisposing(id);
        if (!wasAsked && hook.isAwaited()) clock.moveTo(event.at);
        operations.close(id);
        hook.onDisposed(wasAsked);
        return null;
      }
      default:
        return contradiction(event, operation);
    }
  }
}

function contradiction(event: EntityEvent, expected: Operation | null): Contradiction {
  const name = event.stepName === null ? "" : ` of the step ${jsonOf(event.stepName)}`;
  return {
    found: `${event.type}${name} for ${event.id}`,
    expected: expected === null ? "nothing: the code asked for nothing more" : described(expected),
  };
}

function described(operation: Operation): string {
  switch (operation.kind) {
    case "step":
      return `the step ${jsonOf(operation.name)}, ${operation.id}`;
    case "wait":
      return `a sleep, ${operation.id}`;
    case "hook":
      return `a hook, ${operation.id}`;
    case "attr":
      return `attributes, ${operation.id}`;
    default:
      return `the disposal of ${operation.id}`;
  }
}
