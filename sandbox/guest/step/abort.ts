/** AbortController and AbortSignal of a step's body: local ones, and those of the workflow. */
import { SerializationError } from "../errors.ts";
import { decode } from "../decode.ts";
import { textOfValue } from "../guest.ts";
import type { Guest } from "../guest.ts";
import { createObject, define, jsonOf, own } from "../primordials.ts";
import { addField, noFields } from "../realm.ts";
import type { Fields, Kind } from "../realm.ts";
import { GuestAbortController, GuestAbortSignal } from "../web/abort.ts";
import { GuestDOMException } from "../web/dom-exception.ts";
import type { HostCalls } from "./host-calls.ts";

export class StepSignals {
  readonly #guest: Guest;
  readonly #calls: HostCalls;
  /** Names of the signals that came from the workflow. */
  readonly #names = new WeakMap<object, object>();
  #arrived: GuestAbortSignal[] = [];
  readonly #fromWorkflow: GuestAbortSignal[] = [];

  constructor(guest: Guest, calls: HostCalls) {
    this.#guest = guest;
    this.#calls = calls;
  }

  install(scope: object, timeout: (fire: () => void, ms: number) => unknown): void {
    const afterMs = (ms: number): GuestAbortSignal => {
      const signal = GuestAbortSignal.make();
      const error = (): Error => new GuestDOMException("The operation timed out", "TimeoutError");
      timeout(() => signal.trip(error()), ms);
      return signal;
    };
    define(GuestAbortSignal, "timeout", afterMs, false);
    define(GuestAbortSignal, "name", "AbortSignal", false);
    define(GuestAbortController, "name", "AbortController", false);
    define(scope, "AbortSignal", GuestAbortSignal, false);
    define(scope, "AbortController", GuestAbortController, false);
  }

  /** The attempt ends: every signal that the body was given fires. */
  tripAll(reason: unknown): void {
    const signals = this.#arrived;
    this.#arrived = [];
    for (const signal of signals) signal.trip(reason);
  }

  /** Whether it is what a signal of the workflow was aborted with. */
  isReason(thrown: unknown): boolean {
    return this.#fromWorkflow.some((signal) => signal.aborted && signal.reason === thrown);
  }

  get kinds(): readonly Kind[] {
    return [
      {
        tag: "AbortSignal",
        reduce: (value) =>
          value instanceof GuestAbortSignal
            ? { tag: "AbortSignal", fields: this.#fieldsOf(value) }
            : null,
        revive: (data) => this.#signalFrom(data),
      },
      {
        tag: "AbortController",
        reduce: (value) =>
          value instanceof GuestAbortController
            ? { tag: "AbortController", fields: this.#fieldsOf(value.signal) }
            : null,
        revive: (data) => this.#controllerFrom(data),
      },
    ];
  }

  #fieldsOf(signal: GuestAbortSignal): Fields {
    const names = this.#names.get(signal);
    if (names === undefined) {
      throw new SerializationError("an AbortSignal made in a step cannot leave it");
    }
    const fields = noFields(true);
    for (const [key, item] of Object.entries(names)) addField(fields, key, item);
    addField(fields, "aborted", signal.aborted);
    return addField(fields, "reason", signal.reason);
  }

  #signalFrom(data: unknown): GuestAbortSignal {
    const fields = typeof data === "object" && data !== null ? data : createObject(null);
    const streamName = own(fields, "streamName");
    const hookToken = own(fields, "hookToken");
    const runId = own(fields, "runId");
    const isNamed = typeof streamName === "string" && typeof hookToken === "string";
    if (!isNamed || typeof runId !== "string") {
      throw new SerializationError("an AbortSignal in a payload has no names");
    }
    const signal = GuestAbortSignal.make();
    this.#names.set(signal, { streamName, hookToken, runId });
    this.#fromWorkflow.push(signal);
    if (own(fields, "aborted") === true) {
      signal.trip(own(fields, "reason"));
      return signal;
    }
    this.#arrived.push(signal);
    const { n, answer } = this.#calls.ask({
      kind: "watch_abort",
      members: `"stream":${jsonOf(streamName)},"run":${jsonOf(runId)}`,
    });
    signal.afterAbort(() => this.#calls.cancel(n));
    const fire = (text: string): void => signal.trip(decode(text, this.#guest.realm));
    answer.then(fire, () => undefined);
    return signal;
  }

  #controllerFrom(data: unknown): object {
    const signal = this.#signalFrom(data);
    const controller = createObject(GuestAbortController.prototype);
    define(controller, "signal", signal);
    define(controller, "abort", (reason?: unknown) => {
      if (signal.aborted) return;
      signal.trip(reason);
      const told = { ...this.#names.get(signal), reason: signal.reason };
      const args = textOfValue(this.#guest, [told], "a reason");
      const members = `"op":"abort","args":${jsonOf(args)}`;
      const { answer } = this.#calls.ask({ kind: "api", members });
      this.#calls.landing(answer).catch(() => undefined);
    });
    return controller;
  }
}
