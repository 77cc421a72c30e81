/** How web types cross in payloads. Data under each tag is the Workflow SDK's. */
import { SerializationError } from "../errors.ts";
import {
  WeakMapConstructor,
  define,
  getter,
  own,
  unbound,
  weakGet,
  weakSet,
} from "../primordials.ts";
import { EMPTY_TEXT, addField, noFields } from "../realm.ts";
import type { Fields, Kind } from "../realm.ts";
import { bodyTools } from "./body.ts";
import type { BodyContent } from "./body.ts";
import { domExceptionKind } from "./dom-exception.ts";
import { GuestRequest, GuestResponse } from "./fetch-classes.ts";
import { GuestHeaders } from "./headers.ts";
import { GuestURL, GuestURLSearchParams } from "./url.ts";

function invalid(tag: string): Error {
  return new SerializationError(`a ${tag} in a payload has no valid data`);
}

function textFrom(data: unknown, tag: string): string {
  if (typeof data !== "string") throw invalid(tag);
  return data === EMPTY_TEXT ? "" : data;
}

const hrefOf = getter<(self: object) => string>(GuestURL.prototype, "href");

const urlKind: Kind = {
  tag: "URL",
  reduce: (value) => (value instanceof GuestURL ? { tag: "URL", text: hrefOf(value) } : null),
  revive: (data) => new GuestURL(textFrom(data, "URL")),
};

const paramsText = unbound<(self: object) => string>(
  own(GuestURLSearchParams.prototype, "toString"),
);

const searchParamsKind: Kind = {
  tag: "URLSearchParams",
  reduce(value) {
    if (!(value instanceof GuestURLSearchParams)) return null;
    const text = paramsText(value);
    return { tag: "URLSearchParams", text: text === "" ? EMPTY_TEXT : text };
  },
  revive: (data) => new GuestURLSearchParams(textFrom(data, "URLSearchParams")),
};

const headersKind: Kind = {
  tag: "Headers",
  reduce: (value) =>
    value instanceof GuestHeaders ? { tag: "Headers", items: [...value.entries()] } : null,
  revive(data) {
    if (!Array.isArray(data)) throw invalid("Headers");
    return new GuestHeaders(data as [string, string][]);
  },
};

function addBody(fields: Fields, content: BodyContent): Fields {
  const isBytes = content instanceof Uint8Array;
  const stream = isBytes ? bodyTools().streamOf(content) : (content?.stream ?? null);
  return addField(fields, "body", stream);
}

function contentFrom(body: unknown): BodyContent {
  return bodyTools().isStream(body) ? { stream: body } : null;
}

/** The field of a Request whose webhook waits for the workflow's own answer. */
const RESPONSE_WRITABLE = "responseWritable";
const responders = new WeakMapConstructor<object, object>();

const requestKind: Kind = {
  tag: "Request",
  reduce(value) {
    if (!(value instanceof GuestRequest)) return null;
    const fields = addField(noFields(), "method", value.method);
    addField(fields, "url", value.url);
    addField(fields, "headers", value.headers);
    const writable = weakGet(responders, value);
    if (writable !== undefined) addField(fields, RESPONSE_WRITABLE, writable);
    return { tag: "Request", fields: addBody(fields, value.content) };
  },
  revive(data) {
    if (typeof data !== "object" || data === null) throw invalid("Request");
    const request = new GuestRequest(own(data, "url") as string, {
      method: own(data, "method") as string,
      headers: own(data, "headers") as GuestHeaders,
    });
    const writable = own(data, RESPONSE_WRITABLE);
    if (typeof writable === "object" && writable !== null) {
      weakSet(responders, request, writable);
      define(request, "respondWith", (response: unknown) =>
        bodyTools().respond(writable, response),
      );
    }
    return request.withContent(contentFrom(own(data, "body")));
  },
};

const responseKind: Kind = {
  tag: "Response",
  reduce(value) {
    if (!(value instanceof GuestResponse)) return null;
    const fields = addField(noFields(), "type", value.type);
    addField(fields, "url", value.url);
    addField(fields, "status", value.status);
    addField(fields, "statusText", value.statusText);
    addField(fields, "headers", value.headers);
    addField(fields, "redirected", value.redirected);
    return { tag: "Response", fields: addBody(fields, value.content) };
  },
  revive(data) {
    if (typeof data !== "object" || data === null) throw invalid("Response");
    const response = new GuestResponse(null, {
      status: own(data, "status") as number,
      statusText: own(data, "statusText") as string,
      headers: own(data, "headers") as GuestHeaders,
    });
    const [type, url] = [own(data, "type"), own(data, "url")];
    return response.withContent(contentFrom(own(data, "body"))).withOrigin({
      type: typeof type === "string" ? type : "default",
      url: typeof url === "string" ? url : "",
      redirected: own(data, "redirected") === true,
    });
  },
};

export const WEB_KINDS: readonly Kind[] = [
  domExceptionKind,
  urlKind,
  searchParamsKind,
  headersKind,
  requestKind,
  responseKind,
];
