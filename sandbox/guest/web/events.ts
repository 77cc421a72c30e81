/** Event and EventTarget, without a tree: what AbortSignal and tenants' own emitters need. */
import { StringOf } from "../primordials.ts";

export interface EventInit {
  readonly bubbles?: boolean;
  readonly cancelable?: boolean;
  readonly composed?: boolean;
}

export class GuestEvent {
  readonly type: string;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  /** Epoch-independent: events carry no clock of their own. */
  readonly timeStamp = 0;
  readonly isTrusted = false;
  readonly eventPhase = 2;
  target: object | null = null;
  currentTarget: object | null = null;
  #isStopped = false;
  #isPrevented = false;

  constructor(type: string, init: EventInit = {}) {
    this.type = StringOf(type);
    this.bubbles = init.bubbles === true;
    this.cancelable = init.cancelable === true;
    this.composed = init.composed === true;
  }

  get defaultPrevented(): boolean {
    return this.#isPrevented;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  preventDefault(): void {
    if (this.cancelable) this.#isPrevented = true;
  }

  stopImmediatePropagation(): void {
    this.#isStopped = true;
  }

  stopPropagation(): void {
    // There is no tree to propagate through.
  }

  composedPath(): object[] {
    return this.currentTarget === null ? [] : [this.currentTarget];
  }
}

export class GuestCustomEvent extends GuestEvent {
  readonly detail: unknown;
  constructor(type: string, init: EventInit & { readonly detail?: unknown } = {}) {
    super(type, init);
    this.detail = init.detail ?? null;
  }
}

type Listener = ((event: GuestEvent) => unknown) | { handleEvent(event: GuestEvent): unknown };
interface ListenerOptions {
  readonly once?: boolean;
  readonly capture?: boolean;
  readonly signal?: { readonly aborted: boolean; addEventListener: GuestEventTarget["on"] };
}
interface Registration {
  readonly type: string;
  readonly listener: Listener;
  readonly capture: boolean;
  readonly once: boolean;
}

/** Told of what a listener throws, which must not reach who dispatches. */
export type ReportThrown = (error: unknown) => void;

let reportThrown: ReportThrown = () => undefined;

export function setReportThrown(report: ReportThrown): void {
  reportThrown = report;
}

export class GuestEventTarget {
  #registrations: Registration[] = [];

  addEventListener(
    type: string,
    listener: Listener | null,
    options?: ListenerOptions | boolean,
  ): void {
    this.on(type, listener, options);
  }

  protected on(
    type: string,
    listener: Listener | null,
    options: ListenerOptions | boolean = {},
  ): void {
    const { once = false, capture = false, signal } = typeof options === "object" ? options : {};
    const isCapture = options === true || capture;
    if (listener === null || signal?.aborted === true) return;
    const isKnown = this.#registrations.some(
      (known) => known.type === type && known.listener === listener && known.capture === isCapture,
    );
    if (isKnown) return;
    this.#registrations = [
      ...this.#registrations,
      { type: StringOf(type), listener, capture: isCapture, once },
    ];
    signal?.addEventListener("abort", () => this.removeEventListener(type, listener, options), {
      once: true,
    });
  }

  removeEventListener(
    type: string,
    listener: Listener | null,
    options: ListenerOptions | boolean = {},
  ): void {
    const isCapture = typeof options === "object" ? options.capture === true : options;
    this.#registrations = this.#registrations.filter(
      (known) => known.type !== type || known.listener !== listener || known.capture !== isCapture,
    );
  }

  dispatchEvent(event: GuestEvent): boolean {
    event.target = this;
    event.currentTarget = this;
    for (const known of this.#registrations) {
      if (known.type !== event.type || event.isStopped) continue;
      if (!this.#registrations.includes(known)) continue;
      if (known.once) this.#registrations = this.#registrations.filter((each) => each !== known);
      try {
        if (typeof known.listener === "function") known.listener.call(this, event);
        else known.listener.handleEvent(event);
      } catch (error) {
        reportThrown(error);
      }
    }
    event.currentTarget = null;
    return !event.defaultPrevented;
  }
}
