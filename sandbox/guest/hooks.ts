/**
 * Hooks: durable addresses where payloads arrive, in slot order.
 *
 * A payload goes to the oldest waiter; with none it is buffered, which resumes nobody and so moves
 * no clock.
 */
import { decode } from "./decode.ts";
import { durationMs } from "./duration.ts";
import { HookConflictError, HookForceClaimedError } from "./errors.ts";
import { resolved, rejected, textOfValue } from "./guest.ts";
import type { Guest } from "./guest.ts";
import {
  PromiseConstructor,
  SymbolAsyncIterator,
  TypeErrorConstructor,
  createObject,
  define,
  defineFixed,
  list,
  mapSet,
  promiseThen,
  push,
} from "./primordials.ts";

export const TOKEN_CHARS_MAX = 512;

export interface HookOptions {
  readonly token?: string;
  readonly metadata?: unknown;
  readonly experimental_minRetention?: number | string;
  readonly experimental_force?: boolean;
}

/** What the log is asked for; set when the hook is made. */
export interface HookRequest {
  readonly token: string;
  readonly metadata: string | null;
  readonly webhook: boolean;
  readonly system: boolean;
  readonly force: boolean;
  readonly retentionMs: number;
}

interface Waiter {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
  /** What the waiter sees when the hook is disposed; absent: it waits for ever. */
  readonly end?: () => void;
}

type Stage =
  | { readonly kind: "open" }
  | { readonly kind: "conflict"; readonly runId: string | undefined }
  | { readonly kind: "claimed" };

/** A queue whose front is taken in constant time and whose storage does not grow with its past. */
interface Queue<T> {
  push(value: T): void;
  shift(): T | undefined;
  size(): number;
}

function queue<T>(): Queue<T> {
  let items = list<T>();
  let from = 0;
  return {
    push: (value) => push(items, value),
    shift() {
      if (from === items.length) return undefined;
      const value = items[from]!;
      items[from] = undefined as T;
      from += 1;
      if (from === items.length || from > 1000) {
        const rest = list<T>();
        for (let i = from; i < items.length; i++) push(rest, items[i]!);
        items = rest;
        from = 0;
      }
      return value;
    },
    size: () => items.length - from,
  };
}

/** One hook as the library keeps it; never visible to the tenant. */
export interface HookState {
  readonly request: HookRequest;
  onCreated(): void;
  onReceived(text: string): void;
  onConflict(runId: string | undefined): void;
  onDisposed(wasAsked: boolean): void;
  /** The next payload; `end` settles the wait in its stead once the hook is disposed. */
  next(end?: unknown): Promise<unknown>;
  conflict(): Promise<unknown>;
  dispose(): void;
  isDisposed(): boolean;
  isAwaited(): boolean;
  awaitsConflict(): boolean;
}

/** Makes the handle of another run, for `getConflict()`. */
export type RunHandleOf = (runId: string) => unknown;

export function createHookState(
  guest: Guest,
  request: HookRequest,
  runHandleOf: RunHandleOf,
): { readonly id: string; readonly state: HookState } {
  const buffer = queue<string>();
  const waiters = queue<Waiter>();
  const conflictWaiters = queue<Waiter>();
  let stage: Stage = { kind: "open" };
  let created = false;
  let disposed = false;

  function failure(): Error | null {
    switch (stage.kind) {
      case "conflict":
        return new HookConflictError(request.token, stage.runId);
      case "claimed":
        return new HookForceClaimedError("another run has claimed the hook's token");
      default:
        return null;
    }
  }

  function rejectAll(): void {
    const reason = failure();
    for (let waiter = waiters.shift(); waiter !== undefined; waiter = waiters.shift()) {
      waiter.reject(reason);
    }
  }

  function answerConflicts(): void {
    for (
      let waiter = conflictWaiters.shift();
      waiter !== undefined;
      waiter = conflictWaiters.shift()
    ) {
      if (stage.kind === "conflict" && stage.runId === undefined) waiter.reject(failure());
      else waiter.resolve(conflictingRun());
    }
  }

  /** Null: the token is this run's. */
  function conflictingRun(): unknown {
    const runId = stage.kind === "conflict" ? stage.runId : undefined;
    return runId === undefined ? null : runHandleOf(runId);
  }

  function wait(on: Queue<Waiter>, ending?: unknown): Promise<unknown> {
    mapSet(guest.watched, entry.id, state);
    return new PromiseConstructor((resolve, reject) => {
      if (ending === undefined) on.push({ resolve, reject });
      else on.push({ resolve, reject, end: () => resolve(ending) });
    });
  }

  const state: HookState = {
    request,
    onCreated() {
      created = true;
      answerConflicts();
    },
    onReceived(text) {
      const waiter = waiters.shift();
      if (waiter === undefined) {
        buffer.push(text);
        return;
      }
      try {
        waiter.resolve(decode(text, guest.realm));
      } catch (error) {
        waiter.reject(error);
      }
    },
    onConflict(runId) {
      stage = { kind: "conflict", runId };
      answerConflicts();
      rejectAll();
    },
    onDisposed(wasAsked) {
      if (wasAsked) return;
      stage = { kind: "claimed" };
      rejectAll();
    },
    next(end) {
      const text = buffer.shift();
      if (text !== undefined) {
        try {
          return resolved(decode(text, guest.realm));
        } catch (error) {
          return rejected(error);
        }
      }
      const reason = failure();
      if (reason !== null) return rejected(reason);
      return disposed ? new PromiseConstructor(() => undefined) : wait(waiters, end);
    },
    conflict() {
      const pending = wait(conflictWaiters);
      if (created || stage.kind === "conflict") answerConflicts();
      return pending;
    },
    dispose() {
      if (disposed) return;
      disposed = true;
      // Nobody will send to it again: loops over it end, and who awaits it waits for ever.
      for (let waiter = waiters.shift(); waiter !== undefined; waiter = waiters.shift()) {
        waiter.end?.();
      }
      if (stage.kind === "open") guest.operations.dispose(entry.id);
    },
    isDisposed: () => disposed,
    isAwaited: () => stage.kind === "open" && !disposed && waiters.size() > 0,
    awaitsConflict: () => stage.kind === "open" && !created && conflictWaiters.size() > 0,
  };
  const entry = guest.operations.open<"hook">({ kind: "hook", hook: state });
  return { id: entry.id, state };
}

/** The object that the tenant holds. `hookName` is for messages. */
export function hookHandle(state: HookState, disposeSymbol: symbol): object {
  const handle = {};
  const dispose = (): void => state.dispose();
  defineFixed(handle, "token", state.request.token);
  define(handle, "getConflict", () => state.conflict());
  define(handle, "dispose", dispose);
  define(handle, disposeSymbol, dispose, false);
  // Thenable on purpose: `await hook` waits for the next payload.
  define(
    handle,
    "then",
    (fulfilled?: (value: unknown) => unknown, failed?: (reason: unknown) => unknown) =>
      promiseThen(state.next(), fulfilled, failed),
    false,
  );
  define(handle, SymbolAsyncIterator, () => iteratorOf(state), false);
  return handle;
}

function iteratorOf(state: HookState): object {
  let ended = false;
  const iterator = {};
  const result = (done: boolean, value: unknown): object => {
    const entry = {};
    define(entry, "done", done);
    define(entry, "value", value);
    return entry;
  };
  define(iterator, "next", () => {
    const end = result(true, undefined);
    if (ended || state.isDisposed()) return resolved(end);
    return promiseThen(state.next(end), (value) => (value === end ? end : result(false, value)));
  });
  define(iterator, "return", (value: unknown) => {
    ended = true;
    return resolved(result(true, value));
  });
  define(iterator, SymbolAsyncIterator, () => iterator, false);
  return iterator;
}

export type CreateHook = (options?: HookOptions) => object;

export function createCreateHook(
  guest: Guest,
  disposeSymbol: symbol,
  runHandleOf: RunHandleOf,
): CreateHook {
  return function createHook(options = createObject(null) as HookOptions) {
    const token = options.token ?? guest.random.token();
    if (typeof token !== "string" || token.length === 0 || token.length > TOKEN_CHARS_MAX) {
      throw new TypeErrorConstructor(
        `createHook: a token is a text of 1 to ${TOKEN_CHARS_MAX} characters; leave it out for a random one`,
      );
    }
    const retention = options.experimental_minRetention;
    const retentionMs =
      retention === undefined ? 0 : durationMs(retention, "experimental_minRetention");
    if (retentionMs < 0 || retentionMs % 1 !== 0) {
      throw new TypeErrorConstructor("experimental_minRetention is a whole time of 0 or more");
    }
    const metadata =
      options.metadata === undefined ? null : textOfValue(guest, options.metadata, "hook metadata");
    const request: HookRequest = {
      token,
      metadata,
      webhook: false,
      system: false,
      force: options.experimental_force === true,
      retentionMs,
    };
    return hookHandle(createHookState(guest, request, runHandleOf).state, disposeSymbol);
  };
}
