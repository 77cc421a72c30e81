/**
 * Requests as they go out: which headers a tenant may set, and what a redirect makes of one. Pure.
 *
 * T53  Credentials given for one origin are not sent to another.
 */
import type { EgressRequest } from "../../engine/ports/egress.ts";

/** One request to one place. */
export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: EgressRequest["body"];
}

export const REDIRECTS_MAX = 20;

const METHOD = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}$/;
const METHODS_REFUSED = ["CONNECT", "TRACE", "TRACK"];

/** Said by the connection, or to the wrong party: set by nobody, as in browsers. */
const HEADERS_OF_THE_CONNECTION = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
const CREDENTIALS = new Set(["authorization", "cookie"]);
const OF_A_BODY = new Set([
  "content-encoding",
  "content-language",
  "content-location",
  "content-type",
]);
const DEFAULTS = [
  ["accept", "*/*"],
  ["accept-encoding", "gzip, br"],
  ["user-agent", "baton"],
] as const;

/** Null: the method is none that a step may use. */
export function firstHop(request: EgressRequest, url: URL): Hop | null {
  const { method, body } = request;
  if (!METHOD.test(method) || METHODS_REFUSED.includes(method.toUpperCase())) return null;
  const given = request.headers.filter(
    ([name]) => !HEADERS_OF_THE_CONNECTION.has(name.toLowerCase()),
  );
  const has = (wanted: string) => given.some(([name]) => name.toLowerCase() === wanted);
  const added = DEFAULTS.filter(([name]) => !has(name));
  return { url, method, headers: [...given, ...added], body };
}

export function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status);
}

/** The request that a redirect asks for; null if its body cannot be sent again. */
export function redirected(hop: Hop, status: number, url: URL): Hop | null {
  const isOtherOrigin = url.origin !== hop.url.origin;
  const becomesGet =
    (status === 303 && hop.method !== "GET" && hop.method !== "HEAD") ||
    ((status === 301 || status === 302) && hop.method === "POST");
  if (!becomesGet && hop.body !== null && !(hop.body instanceof Uint8Array)) return null;
  const headers = hop.headers.filter(([name]) => {
    const lower = name.toLowerCase();
    if (isOtherOrigin && CREDENTIALS.has(lower)) return false;
    return !(becomesGet && OF_A_BODY.has(lower));
  });
  if (becomesGet) return { url, method: "GET", headers, body: null };
  return { ...hop, url, headers };
}

/** What a hop puts on the wire beside a body that streams. */
export function bytesOf({ url, headers, body }: Hop): number {
  const head = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return url.href.length + head + (body instanceof Uint8Array ? body.length : 0);
}
