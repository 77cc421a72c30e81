/** Calls of a step's body to the host: numbered, open until the host settles them or they end. */
import { decode } from "../decode.ts";
import { NotAvailableError, QuotaExceededError } from "../errors.ts";
import {
  MapConstructor,
  PromiseConstructor,
  isError,
  list,
  mapDelete,
  mapForEach,
  mapGet,
  mapSet,
  mapSize,
  push,
} from "../primordials.ts";
import type { Realm } from "../realm.ts";

/** What a call says beyond its kind and number, as JSON members: `"ms":5`. */
export interface CallText {
  readonly kind: string;
  readonly members: string;
}

interface OpenCall {
  readonly resolve: (text: string) => void;
  readonly reject: (reason: unknown) => void;
}

export class HostCalls {
  readonly #realm: Realm;
  readonly #open = new MapConstructor<number, OpenCall>();
  readonly #calledEarly: (kind: string) => void;
  /** Null until there is a step. */
  #openMax: number | null = null;
  #landing = 0;
  #count = 0;
  #asked = list<string>();
  #cancelled = list<number>();

  /** `calledEarly` hears of calls before there is a step. */
  constructor(realm: Realm, calledEarly: (kind: string) => void) {
    this.#realm = realm;
    this.#calledEarly = calledEarly;
  }

  start(openMax: number): void {
    this.#openMax = openMax;
  }

  /** The call's number and the text that settles it. */
  ask(call: CallText): { readonly n: number; readonly answer: Promise<string> } {
    const allowed = this.allowedFor(call.kind);
    const used = mapSize(this.#open);
    if (used >= allowed) {
      throw new QuotaExceededError(
        `the step waits for ${used} timers, requests and streams; ${allowed} are allowed`,
        { code: "QUOTA_EXCEEDED", limit: "callsOpenMax", used, allowed },
      );
    }
    const n = this.#count;
    this.#count += 1;
    push(
      this.#asked,
      `{"k":"${call.kind}","n":${n}${call.members === "" ? "" : ","}${call.members}}`,
    );
    const answer = new PromiseConstructor<string>((resolve, reject) => {
      mapSet(this.#open, n, { resolve, reject });
    });
    return { n, answer };
  }

  /** How many calls may be open at once. Throws while there is no step that may call. */
  allowedFor(kind: string): number {
    if (this.#openMax !== null) return this.#openMax;
    this.#calledEarly(kind);
    throw new NotAvailableError(
      "timers, requests and streams can be used only in a step, not while a module loads",
    );
  }

  /** Work that has to land before the body counts as done, whether or not it waits for it. */
  async landing<T>(work: Promise<T>): Promise<T> {
    this.#landing += 1;
    try {
      return await work;
    } finally {
      this.#landing -= 1;
    }
  }

  /** Jobs are drained before each report, so a write that waits behind another is counted with it. */
  get isLanding(): boolean {
    return this.#landing > 0;
  }

  settle(n: number, ok: boolean, text: string): void {
    const call = mapGet(this.#open, n);
    if (call === undefined) return;
    mapDelete(this.#open, n);
    if (ok) call.resolve(text);
    else call.reject(this.#errorOf(text));
  }

  /** Ends a call; with a reason, its waiter sees that. */
  cancel(n: number, reason?: unknown): void {
    const call = mapGet(this.#open, n);
    if (call === undefined) return;
    mapDelete(this.#open, n);
    push(this.#cancelled, n);
    if (reason !== undefined) call.reject(reason);
  }

  cancelAll(reason: unknown): void {
    const numbers = list<number>();
    mapForEach(this.#open, (_, n) => push(numbers, n));
    for (let i = 0; i < numbers.length; i++) this.cancel(numbers[i]!, reason);
  }

  takeNew(): { readonly asked: readonly string[]; readonly cancelled: readonly number[] } {
    const news = { asked: this.#asked, cancelled: this.#cancelled };
    this.#asked = list();
    this.#cancelled = list();
    return news;
  }

  #errorOf(text: string): unknown {
    try {
      return decode(text, this.#realm);
    } catch (error) {
      return isError(error) ? error : new Error("a host call failed");
    }
  }
}
