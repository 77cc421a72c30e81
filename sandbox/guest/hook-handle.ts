/** The object that a tenant holds of a hook: thenable, async iterable, disposable. */
import { resolved } from "./guest.ts";
import type { HookState } from "./hooks.ts";
import { SymbolAsyncIterator, define, defineFixed, promiseThen } from "./primordials.ts";

type Fulfilled = (value: unknown) => unknown;
type Rejected = (reason: unknown) => unknown;

export function hookHandle(state: HookState, disposeSymbol: symbol): object {
  const handle = {};
  const dispose = (): void => state.dispose();
  defineFixed(handle, "token", state.request.token);
  define(handle, "getConflict", () => state.conflict());
  define(handle, "dispose", dispose);
  define(handle, disposeSymbol, dispose, false);
  // Thenable on purpose: `await hook` waits for the next payload.
  const then = (fulfilled?: Fulfilled, failed?: Rejected): Promise<unknown> =>
    promiseThen(state.next(), fulfilled, failed);
  define(handle, "then", then, false);
  define(handle, SymbolAsyncIterator, () => iteratorOf(state), false);
  return handle;
}

function iteratorOf(state: HookState): object {
  let ended = false;
  const iterator = {};
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

function result(done: boolean, value: unknown): object {
  const entry = {};
  define(entry, "done", done);
  define(entry, "value", value);
  return entry;
}
