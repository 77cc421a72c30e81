/** `fetch` of a step's body: the host sends, under the tenant's egress policy. */
import { base64Of, bytesOfBase64 } from "../base64.ts";
import { jsonOf } from "../primordials.ts";
import type { FetchAnswer } from "../../step-protocol.ts";
import { GuestRequest, GuestResponse } from "../web/fetch-classes.ts";
import type { RequestInit } from "../web/fetch-classes.ts";
import { GuestHeaders } from "../web/headers.ts";
import type { HostCalls } from "./host-calls.ts";

export type Fetch = (input: GuestRequest | string, init?: RequestInit) => Promise<GuestResponse>;

export function createFetch(calls: HostCalls): Fetch {
  return async function fetch(input, init) {
    const request = new GuestRequest(input, init);
    request.signal.throwIfAborted();
    const bytes = request.content === null ? null : await request.bytes();
    request.signal.throwIfAborted();
    const headers = [...request.headers].map(
      ([name, value]) => `[${jsonOf(name)},${jsonOf(value)}]`,
    );
    const { n, answer } = calls.ask({
      kind: "fetch",
      members:
        `"url":${jsonOf(request.url)},"method":${jsonOf(request.method)}` +
        `,"headers":[${headers.join(",")}],"redirect":${jsonOf(request.redirect)}` +
        `,"body":${jsonOf(bytes === null ? null : base64Of(bytes, bytes.length))}`,
    });
    request.signal.afterAbort((reason) => calls.cancel(n, reason));
    return responseOf(JSON.parse(await answer) as FetchAnswer);
  };
}

function responseOf(answer: FetchAnswer): GuestResponse {
  const { status, statusText, url, redirected } = answer;
  const headers = new GuestHeaders(answer.headers);
  const bytes = bytesOfBase64(answer.body) ?? new Uint8Array(0);
  return new GuestResponse(null, { status, statusText, headers })
    .withContent(bytes.length === 0 ? null : bytes)
    .withOrigin({ type: "basic", url, redirected });
}
