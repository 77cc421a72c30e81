/** Request and Response, as in the Fetch standard where it makes sense without a browser. */
import { StringOf } from "../primordials.ts";
import { GuestAbortSignal } from "./abort.ts";
import { GuestBody, contentOf } from "./body.ts";
import type { BodyContent } from "./body.ts";
import { GuestHeaders } from "./headers.ts";
import type { HeadersInit } from "./headers.ts";
import { GuestURL } from "./url.ts";

const METHOD = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NORMALIZED = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"];
const REDIRECTS = [301, 302, 303, 307, 308];
const WITHOUT_BODY = [101, 103, 204, 205, 304];

export interface RequestInit {
  readonly method?: string;
  readonly headers?: HeadersInit;
  readonly body?: unknown;
  readonly signal?: GuestAbortSignal | null;
  readonly redirect?: string;
}

export class GuestRequest extends GuestBody {
  readonly method: string;
  readonly url: string;
  readonly headers: GuestHeaders;
  readonly signal: GuestAbortSignal;
  readonly redirect: string;

  constructor(input: GuestRequest | GuestURL | string, init: RequestInit = {}) {
    super();
    const base = input instanceof GuestRequest ? input : null;
    this.url = base === null ? new GuestURL(StringOf(input)).href : base.url;
    this.method = methodOf(init.method ?? base?.method ?? "GET");
    this.headers = new GuestHeaders(init.headers ?? base?.headers);
    this.signal = init.signal ?? base?.signal ?? GuestAbortSignal.make();
    this.redirect = init.redirect ?? base?.redirect ?? "follow";
    if (init.body !== undefined && init.body !== null) {
      if (this.method === "GET" || this.method === "HEAD") {
        throw new TypeError(`a request with the method ${this.method} has no body`);
      }
      const { content, type } = contentOf(init.body);
      this.setContent(content);
      if (type !== null && !this.headers.has("content-type")) {
        this.headers.set("content-type", type);
      }
    } else if (base !== null) this.setContent(base.copyContent());
  }

  clone(): GuestRequest {
    return new GuestRequest(this);
  }

  /** @internal */
  withContent(content: BodyContent): this {
    this.setContent(content);
    return this;
  }

  get [Symbol.toStringTag](): string {
    return "Request";
  }
}

export interface ResponseInit {
  readonly status?: number;
  readonly statusText?: string;
  readonly headers?: HeadersInit;
}

/** What only the library can say of a response. */
export interface ResponseOrigin {
  readonly type: string;
  readonly url: string;
  readonly redirected: boolean;
}

const MADE_HERE: ResponseOrigin = { type: "default", url: "", redirected: false };

export class GuestResponse extends GuestBody {
  readonly status: number;
  readonly statusText: string;
  readonly headers: GuestHeaders;
  #origin: ResponseOrigin = MADE_HERE;

  constructor(body?: unknown, init: ResponseInit = {}) {
    super();
    const status = init.status ?? 200;
    if (!Number.isInteger(status) || status < 200 || status > 599) {
      throw new RangeError("a response's status is 200 to 599");
    }
    this.status = status;
    this.statusText = StringOf(init.statusText ?? "");
    this.headers = new GuestHeaders(init.headers);
    if (body === undefined || body === null) return;
    if (WITHOUT_BODY.includes(status)) {
      throw new TypeError(`a response with the status ${status} has no body`);
    }
    const { content, type } = contentOf(body);
    this.setContent(content);
    if (type !== null && !this.headers.has("content-type")) this.headers.set("content-type", type);
  }

  static json(data: unknown, init: ResponseInit = {}): GuestResponse {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError("Response.json was given what JSON cannot write");
    const headers = new GuestHeaders(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new GuestResponse(text, { ...init, headers });
  }

  static redirect(url: string, status = 302): GuestResponse {
    if (!REDIRECTS.includes(status)) throw new RangeError(`${status} is no redirect`);
    const location = new GuestURL(StringOf(url)).href;
    return new GuestResponse(null, { status, headers: { location } });
  }

  static error(): GuestResponse {
    return new GuestResponse(null).withOrigin({ ...MADE_HERE, type: "error" });
  }

  get ok(): boolean {
    return this.status < 300;
  }

  get type(): string {
    return this.#origin.type;
  }

  get url(): string {
    return this.#origin.url;
  }

  get redirected(): boolean {
    return this.#origin.redirected;
  }

  clone(): GuestResponse {
    const { status, statusText, headers } = this;
    const copy = new GuestResponse(null, { status, statusText, headers });
    return copy.withContent(this.copyContent()).withOrigin(this.#origin);
  }

  /** @internal */
  withContent(content: BodyContent): this {
    this.setContent(content);
    return this;
  }

  /** @internal */
  withOrigin(origin: ResponseOrigin): this {
    this.#origin = origin;
    return this;
  }

  get [Symbol.toStringTag](): string {
    return "Response";
  }
}

function methodOf(method: string): string {
  const text = StringOf(method);
  if (!METHOD.test(text)) throw new TypeError(`"${text.slice(0, 60)}" is no method`);
  const upper = text.toUpperCase();
  if (upper === "CONNECT" || upper === "TRACE" || upper === "TRACK") {
    throw new TypeError(`the method ${upper} is not allowed`);
  }
  return NORMALIZED.includes(upper) ? upper : text;
}
