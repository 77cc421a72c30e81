/**
 * Hooks: durable addresses where payloads arrive, in slot order.
 *
 * A payload goes to the oldest waiter; with none it is buffered, which resumes nobody and so moves
 * no clock.
 */
import { decode } from "./decode.ts";
import { durationMs } from "./duration.ts";
import { HookConflictError, HookForceClaimedError } from "./errors.ts";
import { rejected, resolved, textOfValue } from "./guest.ts";
import type { Guest } from "./guest.ts";
import { hookHandle } from "./hook-handle.ts";
import { PromiseConstructor, TypeErrorConstructor, createObject, mapSet } from "./primordials.ts";
import { Queue } from "./queue.ts";

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

/** Makes the handle of another run, for `getConflict()`. */
export type RunHandleOf = (runId: string) => unknown;

/** One hook as the library keeps it; never visible to the tenant. */
export class HookState {
  readonly request: HookRequest;
  readonly #guest: Guest;
  readonly #runHandleOf: RunHandleOf;
  readonly #id: string;
  readonly #buffer = new Queue<string>();
  readonly #waiters = new Queue<Waiter>();
  readonly #conflictWaiters = new Queue<Waiter>();
  #stage: Stage = { kind: "open" };
  #created = false;
  #disposed = false;

  /** Opens the hook. Throws if the run has too much open. */
  constructor(guest: Guest, request: HookRequest, runHandleOf: RunHandleOf) {
    this.request = request;
    this.#guest = guest;
    this.#runHandleOf = runHandleOf;
    this.#id = guest.operations.open<"hook">({ kind: "hook", hook: this }).id;
  }

  onCreated(): void {
    this.#created = true;
    this.#answerConflicts();
  }

  onReceived(text: string): void {
    const waiter = this.#waiters.take();
    if (waiter === undefined) {
      this.#buffer.add(text);
      return;
    }
    try {
      waiter.resolve(decode(text, this.#guest.realm));
    } catch (error) {
      waiter.reject(error);
    }
  }

  onConflict(runId: string | undefined): void {
    this.#stage = { kind: "conflict", runId };
    this.#answerConflicts();
    this.#rejectAll();
  }

  onDisposed(wasAsked: boolean): void {
    if (wasAsked) return;
    this.#stage = { kind: "claimed" };
    this.#rejectAll();
  }

  /** The next payload; `end` settles the wait in its stead once the hook is disposed. */
  next(end?: unknown): Promise<unknown> {
    const text = this.#buffer.take();
    if (text !== undefined) {
      try {
        return resolved(decode(text, this.#guest.realm));
      } catch (error) {
        return rejected(error);
      }
    }
    const reason = this.#failure();
    if (reason !== null) return rejected(reason);
    if (this.#disposed) return new PromiseConstructor(() => undefined);
    return this.#wait(this.#waiters, end);
  }

  /** The run that holds the token, or null once it is this one. */
  conflict(): Promise<unknown> {
    const pending = this.#wait(this.#conflictWaiters);
    if (this.#created || this.#stage.kind === "conflict") this.#answerConflicts();
    return pending;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    // Nobody will send to it again: loops over it end, and who awaits it waits for ever.
    for (let waiter = this.#waiters.take(); waiter !== undefined; waiter = this.#waiters.take()) {
      waiter.end?.();
    }
    if (this.#stage.kind === "open") this.#guest.operations.dispose(this.#id);
  }

  isDisposed(): boolean {
    return this.#disposed;
  }

  isAwaited(): boolean {
    return this.#stage.kind === "open" && !this.#disposed && this.#waiters.size > 0;
  }

  awaitsConflict(): boolean {
    return this.#stage.kind === "open" && !this.#created && this.#conflictWaiters.size > 0;
  }

  #wait(on: Queue<Waiter>, ending?: unknown): Promise<unknown> {
    mapSet(this.#guest.watched, this.#id, this);
    return new PromiseConstructor((resolve, reject) => {
      if (ending === undefined) on.add({ resolve, reject });
      else on.add({ resolve, reject, end: () => resolve(ending) });
    });
  }

  #failure(): Error | null {
    switch (this.#stage.kind) {
      case "conflict":
        return new HookConflictError(this.request.token, this.#stage.runId);
      case "claimed":
        return new HookForceClaimedError("another run has claimed the hook's token");
      default:
        return null;
    }
  }

  #rejectAll(): void {
    const reason = this.#failure();
    for (let waiter = this.#waiters.take(); waiter !== undefined; waiter = this.#waiters.take()) {
      waiter.reject(reason);
    }
  }

  #answerConflicts(): void {
    const stage = this.#stage;
    const waiters = this.#conflictWaiters;
    for (let waiter = waiters.take(); waiter !== undefined; waiter = waiters.take()) {
      if (stage.kind !== "conflict") waiter.resolve(null);
      else if (stage.runId === undefined) waiter.reject(this.#failure());
      else waiter.resolve(this.#runHandleOf(stage.runId));
    }
  }
}

export type CreateHook = (options?: HookOptions) => object;

export function createCreateHook(
  guest: Guest,
  disposeSymbol: symbol,
  runHandleOf: RunHandleOf,
): CreateHook {
  return function createHook(options: HookOptions = createObject(null)) {
    const token = options.token ?? guest.random.token();
    if (typeof token !== "string" || token.length === 0 || token.length > TOKEN_CHARS_MAX) {
      throw new TypeErrorConstructor(
        `createHook: a token has 1 to ${TOKEN_CHARS_MAX} characters; leave it out for a random one`,
      );
    }
    const { metadata } = options;
    const request: HookRequest = {
      token,
      metadata: metadata === undefined ? null : textOfValue(guest, metadata, "hook metadata"),
      webhook: false,
      system: false,
      force: options.experimental_force === true,
      retentionMs: retentionMsOf(options.experimental_minRetention),
    };
    return hookHandle(new HookState(guest, request, runHandleOf), disposeSymbol);
  };
}

function retentionMsOf(retention: number | string | undefined): number {
  if (retention === undefined) return 0;
  const ms = durationMs(retention, "experimental_minRetention");
  if (ms < 0 || ms % 1 !== 0) {
    throw new TypeErrorConstructor("experimental_minRetention is a whole time of 0 or more");
  }
  return ms;
}
