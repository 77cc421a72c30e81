/**
 * Signals in the oracle's model: in memory until they leave the run, then tied to a hook of it.
 *
 * Independent of the guest library, as all of the model is: what an abort asks for, in which order,
 * is written down here a second time.
 */

type Told = (reason: unknown) => void;

export class ModelSignal {
  aborted = false;
  reason: unknown = undefined;
  readonly #listeners: (() => void)[] = [];
  readonly #after: Told[] = [];

  addEventListener(_type: string, listener: () => void): void {
    this.#listeners.push(listener);
  }

  after(told: Told): void {
    this.#after.push(told);
  }

  trip(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
    for (const told of this.#after) told(reason);
  }
}

/** What a signal asks of its run. */
export interface SignalParts<H> {
  hook(): H;
  next(hook: H): Promise<unknown>;
  dispose(hook: H): void;
  step(stepName: string): Promise<unknown>;
}

export class ModelSignals<H> {
  readonly #runId: string;
  readonly #parts: SignalParts<H>;
  readonly #left = new WeakSet<ModelSignal>();
  #telling: Promise<unknown>[] = [];

  constructor(runId: string, parts: SignalParts<H>) {
    this.#runId = runId;
    this.#parts = parts;
  }

  made(): ModelSignal {
    return new ModelSignal();
  }

  /** Every signal among the arguments of a step that has not left before gets its hook. */
  leave(value: unknown): void {
    if (value instanceof ModelSignal) {
      if (this.#left.has(value)) return;
      this.#left.add(value);
      if (!value.aborted) this.#connect(value);
    } else if (typeof value === "object" && value !== null) {
      for (const each of Object.values(value)) this.leave(each);
    }
  }

  /** One of another run, which is followed unless it is aborted already. */
  revived(data: Readonly<Record<string, unknown>>): ModelSignal {
    const signal = new ModelSignal();
    this.#left.add(signal);
    if (data["aborted"] === true) {
      signal.trip(data["reason"]);
    } else if (data["runId"] !== this.#runId) {
      const take = this.#connect(signal);
      void this.#parts.step("__builtin_follow_signal").then(
        (found) => {
          if (found !== null) take(found);
        },
        () => undefined,
      );
    }
    return signal;
  }

  /** Resolves once no abort is on its way to others. */
  async told(): Promise<void> {
    while (this.#telling.length > 0) await Promise.all(this.#telling.splice(0));
  }

  #connect(signal: ModelSignal): Told {
    const hook = this.#parts.hook();
    let isFromOutside = false;
    const take = (payload: unknown): void => {
      if (signal.aborted) return;
      isFromOutside = true;
      signal.trip((payload as { readonly reason: unknown }).reason);
    };
    void this.#parts.next(hook).then(take, () => undefined);
    signal.after(() => {
      this.#parts.dispose(hook);
      if (isFromOutside) return;
      const nothing = () => undefined;
      this.#telling.push(this.#parts.step("__builtin_abort").then(nothing, nothing));
    });
    return take;
  }
}
