/** Bodies of the steps that the library itself asks for, under the names that workflows use. */
import { BUILTIN_STEPS } from "../builtin-steps.ts";
import { define, mapSet } from "../primordials.ts";
import type { ApiCall } from "./exports.ts";
import { withShortBody } from "./fetch.ts";
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
  add(BUILTIN_STEPS.fetch, async (...args: Parameters<Fetch>) =>
    withShortBody(await fetch(...args)),
  );
  // Workflows of other builds of the SDK pass the response as `this`.
  const addReading = (id: string, read: (body: Readable) => Promise<unknown>): void =>
    add(id, function (this: Readable, given?: Readable) {
      return read(given ?? this);
    });
  addReading(BUILTIN_STEPS.responseJson, (body) => body.json());
  addReading(BUILTIN_STEPS.responseText, (body) => body.text());
  addReading(BUILTIN_STEPS.responseArrayBuffer, (body) => body.arrayBuffer());
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
