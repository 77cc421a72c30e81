/** AbortController and AbortSignal in memory; what makes them durable lies on top. */
import { GuestDOMException } from "./dom-exception.ts";
import { GuestEvent, GuestEventTarget } from "./events.ts";

const KEY = Symbol("signals are made by controllers");

/** Called after a signal has aborted and its listeners have run. */
type AfterAbort = (reason: unknown) => void;

export class GuestAbortSignal extends GuestEventTarget {
  onabort: ((event: GuestEvent) => unknown) | null = null;
  #aborted = false;
  #reason: unknown = undefined;
  #followers: AfterAbort[] = [];

  constructor(key?: unknown) {
    super();
    if (key !== KEY) throw new TypeError("an AbortSignal is made by an AbortController");
  }

  static make(): GuestAbortSignal {
    return new GuestAbortSignal(KEY);
  }

  static abort(reason?: unknown): GuestAbortSignal {
    const signal = GuestAbortSignal.make();
    signal.trip(reason);
    return signal;
  }

  static any(signals: Iterable<GuestAbortSignal>): GuestAbortSignal {
    const result = GuestAbortSignal.make();
    for (const signal of signals) {
      if (signal.aborted) {
        result.trip(signal.reason);
        break;
      }
      signal.afterAbort((reason) => result.trip(reason));
    }
    return result;
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  /** @internal */
  afterAbort(follow: AfterAbort): void {
    if (this.#aborted) follow(this.#reason);
    else this.#followers.push(follow);
  }

  /** @internal Aborts once; later calls do nothing. */
  trip(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason ?? new GuestDOMException("This operation was aborted", "AbortError");
    const event = new GuestEvent("abort");
    if (typeof this.onabort === "function") this.onabort.call(this, event);
    this.dispatchEvent(event);
    const followers = this.#followers;
    this.#followers = [];
    for (const follow of followers) follow(this.#reason);
  }
}

export class GuestAbortController {
  readonly signal: GuestAbortSignal;

  constructor() {
    this.signal = GuestAbortSignal.make();
  }

  abort(reason?: unknown): void {
    this.signal.trip(reason);
  }
}
