/** What the parts of the workflow-side library share: one of it per heap, made at boot. */
import type { Clock } from "./clock.ts";
import type { Console } from "./console.ts";
import { decode } from "./decode.ts";
import { encode } from "./encode.ts";
import { NotAvailableError, SerializationError } from "./errors.ts";
import type { Farewells } from "./farewells.ts";
import type { HookState } from "./hooks.ts";
import type { Operations, Settle } from "./operations.ts";
import { PromiseConstructor, isError, stringSlice } from "./primordials.ts";
import type { Random } from "./random.ts";
import type { Realm } from "./realm.ts";

export interface RunFacts {
  readonly runId: string;
  readonly workflowName: string;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly payloadBytesMax: number;
  /** Where addresses of webhooks begin; null: they have none. */
  readonly baseUrl: string | null;
}

export interface Guest {
  readonly clock: Clock;
  readonly random: Random;
  readonly operations: Operations;
  readonly console: Console;
  readonly realm: Realm;
  /** Hooks that some code waited on at the last report or since, by id. */
  readonly watched: Map<string, HookState>;
  readonly farewells: Farewells;
  /** Null until the heap has its run. */
  run: RunFacts | null;
}

export function runOf(guest: Guest): RunFacts {
  if (guest.run !== null) return guest.run;
  throw new NotAvailableError("there is no run yet: this works only while a workflow runs");
}

/** Devalue text of a value; `what` names it in the error. */
export function textOfValue(guest: Guest, value: unknown, what: string): string {
  return encode(value, what, guest.realm, { bytesMax: runOf(guest).payloadBytesMax });
}

/** Devalue text of anything that was thrown; what cannot be encoded becomes an error about that. */
export function textOfThrown(guest: Guest, thrown: unknown): string {
  try {
    return textOfValue(guest, thrown, "an error");
  } catch (error) {
    return textOfUnserializable(guest, error);
  }
}

/** Says why a thrown value could not be encoded. Whatever happens, a run that failed has to end. */
function textOfUnserializable(guest: Guest, error: unknown): string {
  try {
    const why = isError(error) && typeof error.message === "string" ? error.message : "";
    return textOfValue(guest, new SerializationError(stringSlice(why, 0, 2000)), "an error");
  } catch {
    return UNSERIALIZABLE;
  }
}

/** Devalue text of an error that takes no encoding. */
const UNSERIALIZABLE =
  '[["Error",1],{"name":2,"message":3},"SerializationError","Failed to serialize an error"]';

export interface Settlement<T> {
  readonly promise: Promise<T>;
  readonly settle: Settle;
}

/** A promise that an event settles with the text it brings. */
export function settlement<T>(guest: Guest): Settlement<T> {
  let resolve: (value: T) => void;
  let reject: (reason: unknown) => void;
  const promise = new PromiseConstructor<T>((fulfil, fail) => {
    resolve = fulfil;
    reject = fail;
  });
  return {
    promise,
    settle(ok, text) {
      let value: unknown;
      try {
        value = decode(text, guest.realm);
      } catch (error) {
        reject(error);
        return;
      }
      if (ok) resolve(value as T);
      else reject(value);
    },
  };
}

export function rejected<T>(reason: unknown): Promise<T> {
  return new PromiseConstructor<T>((_, reject) => reject(reason));
}

export function resolved<T>(value: T): Promise<T> {
  return new PromiseConstructor<T>((resolve) => resolve(value));
}
