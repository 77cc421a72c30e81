/** The one attempt of a step heap: its body found, called, and its outcome told. */
import { exhaustionText } from "../../../engine/ports/steps.ts";
import { decode } from "../decode.ts";
import { FatalError, StepNotRegisteredError } from "../errors.ts";
import { textOfThrown, textOfValue } from "../guest.ts";
import type { Guest } from "../guest.ts";
import {
  apply,
  createObject,
  dateValue,
  isArray,
  isError,
  isFiniteNumber,
  jsonOf,
  mapGet,
  own,
} from "../primordials.ts";
import type { StepSignals } from "./abort.ts";

export interface Attempt {
  readonly stepId: string;
  readonly stepName: string;
  readonly attempt: number;
  readonly isLast: boolean;
  readonly stepStartedAt: number;
  readonly runStartedAt: number;
}

export interface StepDone {
  readonly ok: boolean;
  readonly text: string;
  readonly isFatal: boolean;
  readonly retryAt: number | null;
}

/** What nested steps read their captured variables from, as the transformer writes it. */
export interface ContextStore {
  closureVars: unknown;
}

type Body = (this: unknown, ...args: unknown[]) => unknown;

export interface StepBodyParts {
  readonly guest: Guest;
  readonly registered: Map<string, unknown>;
  readonly store: ContextStore;
  readonly signals: StepSignals;
}

export class StepBody {
  readonly #guest: Guest;
  readonly #registered: Map<string, unknown>;
  readonly #store: ContextStore;
  readonly #signals: StepSignals;
  #done: StepDone | null = null;

  constructor({ guest, registered, store, signals }: StepBodyParts) {
    this.#guest = guest;
    this.#registered = registered;
    this.#store = store;
    this.#signals = signals;
  }

  get done(): StepDone | null {
    return this.#done;
  }

  async run(attempt: Attempt, inputText: string): Promise<void> {
    let value: unknown;
    try {
      value = await this.#call(attempt, inputText);
    } catch (thrown) {
      this.#done ??= this.#failure(attempt, thrown);
      return;
    }
    try {
      const text = textOfValue(this.#guest, value, "step return value");
      this.#done ??= { ok: true, text, isFatal: false, retryAt: null };
    } catch (error) {
      this.#done ??= this.#failed(error, true, null);
    }
  }

  #call(attempt: Attempt, inputText: string): unknown {
    const body = mapGet(this.#registered, attempt.stepName);
    if (typeof body !== "function") {
      throw new StepNotRegisteredError(`no step ${jsonOf(attempt.stepName)} is registered`);
    }
    const decoded = decode(inputText, this.#guest.realm);
    const input = typeof decoded === "object" && decoded !== null ? decoded : createObject(null);
    const args = own(input, "args");
    this.#store.closureVars = own(input, "closureVars") ?? {};
    return apply(body as Body, own(input, "thisVal"), isArray(args) ? args : []);
  }

  #failure(attempt: Attempt, thrown: unknown): StepDone {
    const name = nameOf(thrown);
    // An abort is what was asked for: trying again would only abort again.
    const isFatal =
      name === "FatalError" ||
      name === "AbortError" ||
      name === "StepNotRegisteredError" ||
      this.#signals.isReason(thrown);
    if (isFatal) return this.#failed(thrown, true, null);
    if (attempt.isLast) return this.#failed(exhausted(attempt, thrown), false, null);
    return this.#failed(thrown, false, name === "RetryableError" ? retryAtOf(thrown) : null);
  }

  #failed(thrown: unknown, isFatal: boolean, retryAt: number | null): StepDone {
    return { ok: false, text: textOfThrown(this.#guest, thrown), isFatal, retryAt };
  }
}

function exhausted(attempt: Attempt, cause: unknown): Error {
  return new FatalError(exhaustionText(attempt.stepName, attempt.attempt, messageOf(cause)), {
    cause,
  });
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  try {
    if (isError(thrown) && typeof thrown.message === "string") return thrown.message;
  } catch {
    // Its own getter threw.
  }
  return `a thrown ${typeof thrown}`;
}

function nameOf(thrown: unknown): string {
  try {
    return isError(thrown) && typeof thrown.name === "string" ? thrown.name : "";
  } catch {
    return "";
  }
}

function retryAtOf(thrown: unknown): number | null {
  try {
    const at = dateValue((thrown as { retryAfter: Date }).retryAfter);
    return isFiniteNumber(at) ? at : null;
  } catch {
    return null;
  }
}
