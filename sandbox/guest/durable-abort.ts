/**
 * AbortController and AbortSignal in a workflow: in memory until they leave it.
 *
 * A signal that goes into a step's arguments gets a system hook, through which a step that holds
 * the controller can abort it, and a name under which the steps that hold it are told. An abort by
 * the workflow itself takes effect at the call, since the code decides it, and a step of the
 * library tells the holders.
 *
 * A signal of another run is followed: it has a system hook here as well, and a step of the library
 * asks that run's side to resume it. Aborting it here tells that run as it tells steps.
 */
import { BUILTIN_STEPS } from "./builtin-steps.ts";
import { SerializationError } from "./errors.ts";
import { runOf } from "./guest.ts";
import type { Guest } from "./guest.ts";
import { HookState } from "./hooks.ts";
import {
  MapConstructor,
  WeakMapConstructor,
  createObject,
  define,
  mapDelete,
  mapGet,
  mapSet,
  own,
  promiseThen,
  weakGet,
  weakSet,
} from "./primordials.ts";
import { addField, noFields } from "./realm.ts";
import type { Fields, Kind } from "./realm.ts";
import type { Steps } from "./steps.ts";
import type { Sleep } from "./waits.ts";
import { GuestAbortController, GuestAbortSignal } from "./web/abort.ts";
import { GuestDOMException } from "./web/dom-exception.ts";

/** Apart from the ids of entities. */
const TOKEN_SPACE = 1;

interface Durable {
  readonly hookToken: string;
  readonly streamName: string;
  /** The run that made it. */
  readonly runId: string;
}

export interface AbortParts {
  readonly guest: Guest;
  readonly steps: Steps;
  readonly sleep: Sleep;
}

export function installDurableAbort(scope: object, parts: AbortParts): readonly Kind[] {
  const signals = new DurableSignals(parts);
  define(
    GuestAbortSignal,
    "timeout",
    (ms: number) => {
      const signal = GuestAbortSignal.make();
      const expire = (): void =>
        signal.trip(new GuestDOMException("The operation timed out", "TimeoutError"));
      void promiseThen(parts.sleep(ms), expire, expire);
      return signal;
    },
    false,
  );
  define(GuestAbortSignal, "name", "AbortSignal", false);
  define(GuestAbortController, "name", "AbortController", false);
  define(scope, "AbortSignal", GuestAbortSignal, false);
  define(scope, "AbortController", GuestAbortController, false);
  return [
    {
      tag: "AbortSignal",
      reduce: (value) =>
        value instanceof GuestAbortSignal
          ? { tag: "AbortSignal", fields: signals.fieldsOf(value) }
          : null,
      revive: (data) => signals.signalFrom(data),
    },
    {
      tag: "AbortController",
      reduce: (value) =>
        value instanceof GuestAbortController
          ? { tag: "AbortController", fields: signals.fieldsOf(value.signal) }
          : null,
      revive(data) {
        const controller = createObject(GuestAbortController.prototype);
        define(controller, "signal", signals.signalFrom(data));
        return controller;
      },
    },
  ];
}

class DurableSignals {
  readonly #parts: AbortParts;
  readonly #durable = new WeakMapConstructor<object, Durable>();
  /** Not aborted yet, of this run or another. */
  readonly #byToken = new MapConstructor<string, GuestAbortSignal>();
  #count = 0;

  constructor(parts: AbortParts) {
    this.#parts = parts;
  }

  fieldsOf(signal: GuestAbortSignal): Fields {
    const durable = weakGet(this.#durable, signal) ?? this.#makeDurable(signal);
    const fields = addField(noFields(true), "streamName", durable.streamName);
    addField(fields, "hookToken", durable.hookToken);
    addField(fields, "runId", durable.runId);
    addField(fields, "aborted", signal.aborted);
    return addField(fields, "reason", signal.reason);
  }

  signalFrom(data: unknown): GuestAbortSignal {
    const fields = typeof data === "object" && data !== null ? data : createObject(null);
    const hookToken = own(fields, "hookToken");
    const streamName = own(fields, "streamName");
    const runId = own(fields, "runId");
    const isNamed = typeof hookToken === "string" && typeof streamName === "string";
    if (!isNamed || typeof runId !== "string") {
      throw new SerializationError("an AbortSignal in a payload has no names");
    }
    const known = mapGet(this.#byToken, hookToken);
    if (known !== undefined) return known;
    const signal = GuestAbortSignal.make();
    const durable = { hookToken, streamName, runId };
    weakSet(this.#durable, signal, durable);
    if (own(fields, "aborted") === true) signal.trip(own(fields, "reason"));
    else if (runId !== runOf(this.#parts.guest).runId) this.#follow(signal, durable);
    return signal;
  }

  #makeDurable(signal: GuestAbortSignal): Durable {
    const { runId } = runOf(this.#parts.guest);
    const name = this.#newName();
    const durable = { hookToken: name, streamName: name, runId };
    weakSet(this.#durable, signal, durable);
    if (!signal.aborted) this.#connect(signal, durable, name);
    return durable;
  }

  #newName(): string {
    const name = `abrt_${this.#parts.guest.operations.ulidOf(TOKEN_SPACE, this.#count)}`;
    this.#count += 1;
    return name;
  }

  /** Hears of the abort of another run's signal, or that it has been. */
  #follow(signal: GuestAbortSignal, durable: Durable): void {
    const token = this.#newName();
    const take = this.#connect(signal, durable, token);
    const asked = this.#parts.steps.callBuiltin(BUILTIN_STEPS.followSignal, [durable, token]);
    const takeEarlier = (found: unknown): void => {
      if (found !== null) take(found);
    };
    void promiseThen(asked, takeEarlier, () => undefined);
  }

  /** Ties the signal to a hook of this run; returns what aborts it in the name of others. */
  #connect(signal: GuestAbortSignal, durable: Durable, token: string): (payload: unknown) => void {
    const { guest, steps } = this.#parts;
    const request = {
      token,
      metadata: null,
      webhook: false,
      system: true,
      force: false,
      retentionMs: 0,
    };
    const hook = new HookState(guest, request, () => null);
    mapSet(this.#byToken, durable.hookToken, signal);
    let isFromOutside = false;
    const take = (payload: unknown): void => {
      if (signal.aborted) return;
      isFromOutside = true;
      const isFields = typeof payload === "object" && payload !== null;
      signal.trip(isFields ? own(payload, "reason") : payload);
    };
    void promiseThen(hook.next(), take, () => undefined);
    signal.afterAbort((reason) => {
      mapDelete(this.#byToken, durable.hookToken);
      hook.dispose();
      // Whoever aborted through the hook has told the holders.
      if (isFromOutside) return;
      const said = guest.farewells.begin();
      const told = steps.callBuiltin(BUILTIN_STEPS.abort, [{ ...durable, reason }]);
      void promiseThen(told, said, said);
    });
    return take;
  }
}
