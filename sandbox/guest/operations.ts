/**
 * The open operations of a run: what its code asked for and has not yet seen settled.
 *
 * Owns the ordinals, so it is the only place that draws ids (P1). Settled operations are dropped:
 * that an id was drawn, and so an event for it is inert, follows from the id itself.
 */
import { NotAvailableError, QuotaExceededError } from "./errors.ts";
import type { IdSource } from "./entity-ids.ts";
import type { EntityKind } from "../../engine/ids.ts";
import type { HookState } from "./hooks.ts";
import {
  MapConstructor,
  list,
  mapDelete,
  mapForEach,
  mapGet,
  mapHas,
  mapSet,
  mapSize,
  push,
} from "./primordials.ts";

/** Gives the caller what an event brought: devalue text of a value, or of an error. */
export interface Settle {
  (ok: boolean, text: string): void;
}

interface Drawn {
  readonly n: number;
  readonly id: string;
  /** The log holds its creation. */
  created: boolean;
}

export type Operation =
  | (Drawn & {
      readonly kind: "step";
      readonly name: string;
      /** Devalue text of the arguments, or null if they could not be encoded. */
      readonly input: string | null;
      readonly error: string | null;
      readonly settle: Settle;
    })
  | (Drawn & { readonly kind: "wait"; at: number; readonly settle: Settle })
  | (Drawn & { readonly kind: "hook"; readonly hook: HookState })
  | (Drawn & {
      readonly kind: "attr";
      readonly changes: readonly AttributeChange[];
      readonly settle: Settle;
    })
  | { readonly kind: "dispose"; readonly id: string };

export interface AttributeChange {
  readonly key: string;
  readonly value: string | null;
}

/** What an operation is opened with; the table adds its ordinal and id. */
export type Asked<K extends EntityKind> = Omit<
  Extract<Operation, { kind: K }>,
  "n" | "id" | "created"
>;

export interface Operations {
  start(ids: IdSource, openMax: number): void;
  /** Draws the next id and opens the operation. Throws where there is no run, or too many. */
  open<K extends EntityKind>(asked: Asked<K>): Extract<Operation, { kind: K }>;
  /** Asks for a hook's disposal. */
  dispose(hookId: string): void;
  isDisposing(hookId: string): boolean;
  find(id: string): Operation | undefined;
  /** Drops an operation, and a disposal of the same hook with it. */
  close(id: string): void;
  /** Whether this run has drawn the id. */
  wasDrawn(id: string): boolean;
  drawn(): number;
  /** A ULID apart from entities' ids. */
  ulidOf(space: number, ordinal: number): string;
  /** What was asked and closed since the last call. */
  takeNew(): { readonly asked: readonly Operation[]; readonly closed: readonly string[] };
  all(): readonly Operation[];
  /** The first operation whose creation the log has not shown yet. */
  firstUncreated(): Operation | null;
}

export function createOperations(): Operations {
  const open = new MapConstructor<string, Operation>();
  let ids: IdSource | null = null;
  let openMax = 0;
  let drawn = 0;
  let asked = list<Operation>();
  let closed = list<string>();

  const disposalKey = (hookId: string): string => `dispose ${hookId}`;

  function started(): IdSource {
    if (ids !== null) return ids;
    throw new NotAvailableError(
      "steps, sleeps and hooks can be used only while a workflow runs, not while a module loads",
    );
  }

  function add(key: string, operation: Operation): void {
    mapSet(open, key, operation);
    push(asked, operation);
  }

  return {
    start(source, max) {
      ids = source;
      openMax = max;
    },
    open(operation) {
      const source = started();
      const used = mapSize(open);
      if (used >= openMax) {
        throw new QuotaExceededError(
          `the run has ${used} open steps, waits and hooks; ${openMax} are allowed at once`,
          { code: "DECISION_LIMIT_EXCEEDED", limit: "openOperationsMax", used, allowed: openMax },
        );
      }
      const made = operation as unknown as Extract<Operation, { n: number }>;
      const id = source.idOf(made.kind, drawn);
      // Assigned on our own literal, which has no setters of its own or inherited for these.
      const entry = { ...made, n: drawn, id, created: false } as Operation;
      drawn += 1;
      add(id, entry);
      return entry as never;
    },
    dispose(hookId) {
      add(disposalKey(hookId), { kind: "dispose", id: hookId });
    },
    isDisposing: (hookId) => mapHas(open, disposalKey(hookId)),
    find: (id) => mapGet(open, id),
    close(id) {
      if (!mapDelete(open, id)) return;
      mapDelete(open, disposalKey(id));
      push(closed, id);
    },
    wasDrawn: (id) => ids !== null && ids.ordinalOf(id, drawn) >= 0,
    drawn: () => drawn,
    ulidOf: (space, ordinal) => started().ulidOf(space, ordinal),
    takeNew() {
      const news = { asked, closed };
      asked = list();
      closed = list();
      return news;
    },
    all() {
      const operations = list<Operation>();
      mapForEach(open, (operation) => push(operations, operation));
      asked = list();
      closed = list();
      return operations;
    },
    firstUncreated() {
      let first: Operation | null = null;
      mapForEach(open, (operation) => {
        if (first === null && (operation.kind === "dispose" || !operation.created)) {
          first = operation;
        }
      });
      return first;
    },
  };
}
