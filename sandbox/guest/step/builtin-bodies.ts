/** Bodies of the steps that the library itself asks for, under the names that workflows use. */
import { BUILTIN_STEPS } from "../builtin-steps.ts";
import { define, mapSet } from "../primordials.ts";
import type { ApiCall } from "./exports.ts";
import type { Fetch } from "./fetch.ts";

type Readable = Pick<Response, "json" | "text" | "arrayBuffer">;

export function registerBuiltins(
  registered: Map<string, unknown>,
  { fetch, call }: { readonly fetch: Fetch; readonly call: ApiCall },
): void {
  const add = (id: string, body: (this: never, ...args: never[]) => unknown): void => {
    define(body, "stepId", id, false);
    mapSet(registered, id, body);
  };
  add(BUILTIN_STEPS.fetch, (...args: Parameters<Fetch>) => fetch(...args));
  add(BUILTIN_STEPS.responseJson, function (this: Readable) {
    return this.json();
  });
  add(BUILTIN_STEPS.responseText, function (this: Readable) {
    return this.text();
  });
  add(BUILTIN_STEPS.responseArrayBuffer, function (this: Readable) {
    return this.arrayBuffer();
  });
  // Done by the platform, which sees from the arguments what is meant.
  for (const op of [
    "start",
    "runField",
    "runCancel",
    "runWakeUp",
    "abort",
    "respondWith",
  ] as const) {
    add(BUILTIN_STEPS[op], (...args: unknown[]) => call(op, args));
  }
}
