/** Puts the web types on the global; the streams and AbortSignal of each side come beside it. */
import { define } from "../primordials.ts";
import { GuestBlob, GuestFile, GuestFormData } from "./blob.ts";
import { setBodyTools } from "./body.ts";
import type { BodyTools } from "./body.ts";
import { GuestCustomEvent, GuestEvent, GuestEventTarget, setReportThrown } from "./events.ts";
import type { ReportThrown } from "./events.ts";
import { GuestRequest, GuestResponse } from "./fetch-classes.ts";
import { GuestHeaders } from "./headers.ts";
import { structuredClone } from "./structured-clone.ts";
import { GuestURL, GuestURLSearchParams } from "./url.ts";

export function installWebTypes(scope: object, body: BodyTools, report: ReportThrown): void {
  setBodyTools(body);
  setReportThrown(report);
  const types: Readonly<Record<string, unknown>> = {
    Blob: GuestBlob,
    CustomEvent: GuestCustomEvent,
    Event: GuestEvent,
    EventTarget: GuestEventTarget,
    File: GuestFile,
    FormData: GuestFormData,
    Headers: GuestHeaders,
    Request: GuestRequest,
    Response: GuestResponse,
    URL: GuestURL,
    URLSearchParams: GuestURLSearchParams,
  };
  for (const [name, type] of Object.entries(types)) {
    define(type as object, "name", name, false);
    define(scope, name, type, false);
  }
  define(scope, "structuredClone", structuredClone, false);
  if (!("fromAsync" in Array)) define(Array, "fromAsync", fromAsync, false);
}

async function fromAsync(
  items: AsyncIterable<unknown> | Iterable<unknown>,
  map?: (item: unknown, index: number) => unknown,
): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const item of items) {
    found.push(map === undefined ? item : await map(item, found.length));
  }
  return found;
}
