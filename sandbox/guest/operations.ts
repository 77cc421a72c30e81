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

function disposalKey(hookId: string): string {
  return `dispose ${hookId}`;
}

export class Operations {
  readonly #open = new MapConstructor<string, Operation>();
  #ids: IdSource | null = null;
  #openMax = 0;
  #drawn = 0;
  #asked = list<Operation>();
  #closed = list<string>();
  readonly #calledEarly: (what: string) => void;

  /** `calledEarly` hears of what is asked for before there is a run. */
  constructor(calledEarly: (what: string) => void) {
    this.#calledEarly = calledEarly;
  }

  start(ids: IdSource, openMax: number): void {
    this.#ids = ids;
    this.#openMax = openMax;
  }

  /** Draws the next id and opens the operation. Throws where there is no run, or too many. */
  open<K extends EntityKind>(operation: Asked<K>): Extract<Operation, { kind: K }> {
    const ids = this.#started();
    const used = mapSize(this.#open);
    if (used >= this.#openMax) throw tooMany(used, this.#openMax);
    const asked = operation as unknown as Extract<Operation, { n: number }>;
    const id = ids.idOf(asked.kind, this.#drawn);
    const entry = { ...asked, n: this.#drawn, id, created: false };
    this.#drawn += 1;
    this.#add(id, entry);
    return entry as never;
  }

  /** Asks for a hook's disposal. */
  dispose(hookId: string): void {
    this.#add(disposalKey(hookId), { kind: "dispose", id: hookId });
  }

  isDisposing(hookId: string): boolean {
    return mapHas(this.#open, disposalKey(hookId));
  }

  find(id: string): Operation | undefined {
    return mapGet(this.#open, id);
  }

  /** Drops an operation, and a disposal of the same hook with it. */
  close(id: string): void {
    if (!mapDelete(this.#open, id)) return;
    mapDelete(this.#open, disposalKey(id));
    push(this.#closed, id);
  }

  /** Whether this run has drawn the id. */
  wasDrawn(id: string): boolean {
    return this.#ids !== null && this.#ids.ordinalOf(id, this.#drawn) >= 0;
  }

  /** A ULID apart from the ids of entities; `space` is not 0. */
  ulidOf(space: number, ordinal: number): string {
    return this.#started().ulidOf(space, ordinal);
  }

  get drawn(): number {
    return this.#drawn;
  }

  /** What was asked and closed since the last call. */
  takeNew(): { readonly asked: readonly Operation[]; readonly closed: readonly string[] } {
    const news = { asked: this.#asked, closed: this.#closed };
    this.#asked = list();
    this.#closed = list();
    return news;
  }

  all(): readonly Operation[] {
    const operations = list<Operation>();
    mapForEach(this.#open, (operation) => push(operations, operation));
    this.takeNew();
    return operations;
  }

  /** The first operation whose creation the log has not shown yet. */
  firstUncreated(): Operation | null {
    let first: Operation | null = null;
    mapForEach(this.#open, (operation) => {
      if (first === null && (operation.kind === "dispose" || !operation.created)) {
        first = operation;
      }
    });
    return first;
  }

  #started(): IdSource {
    if (this.#ids !== null) return this.#ids;
    this.#calledEarly("a step, sleep or hook");
    throw new NotAvailableError(
      "steps, sleeps and hooks can be used only while a workflow runs, not while a module loads",
    );
  }

  #add(key: string, operation: Operation): void {
    mapSet(this.#open, key, operation);
    push(this.#asked, operation);
  }
}

function tooMany(used: number, allowed: number): Error {
  return new QuotaExceededError(
    `the run has ${used} open steps, waits and hooks; ${allowed} are allowed at once`,
    { code: "DECISION_LIMIT_EXCEEDED", limit: "openOperationsMax", used, allowed },
  );
}
