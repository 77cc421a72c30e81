/** `fetch` of a step's body: the host sends, under the tenant's egress policy. */
import { ReadableStream } from "web-streams-polyfill";
import { base64Of, bytesOfBase64 } from "../base64.ts";
import { jsonOf } from "../primordials.ts";
import type { FetchAnswer, FetchPiece } from "../../step-protocol.ts";
import { bytesOfPart } from "../web/blob.ts";
import type { BlobPart } from "../web/blob.ts";
import type { BodyContent } from "../web/body.ts";
import { GuestRequest, GuestResponse } from "../web/fetch-classes.ts";
import type { RequestInit } from "../web/fetch-classes.ts";
import { GuestHeaders } from "../web/headers.ts";
import type { HostCalls } from "./host-calls.ts";

export type Fetch = (input: GuestRequest | string, init?: RequestInit) => Promise<GuestResponse>;

const SHORT_BODY_BYTES_MAX = 64 * 1024;

export function createFetch(calls: HostCalls): Fetch {
  return async function fetch(input, init) {
    const request = new GuestRequest(input, init);
    request.signal.throwIfAborted();
    const content = request.takeContent();
    const bytes = content instanceof Uint8Array ? content : null;
    const upload = content === null || content instanceof Uint8Array ? null : content.stream;
    const headers = [...request.headers].map(
      ([name, value]) => `[${jsonOf(name)},${jsonOf(value)}]`,
    );
    const { n, answer } = calls.ask({
      kind: "fetch",
      members:
        `"url":${jsonOf(request.url)},"method":${jsonOf(request.method)}` +
        `,"headers":[${headers.join(",")}],"redirect":${jsonOf(request.redirect)}` +
        `,"body":${jsonOf(bytes === null ? null : base64Of(bytes, bytes.length))}` +
        `,"uploads":${upload !== null}`,
    });
    request.signal.afterAbort((reason) => calls.cancel(n, reason));
    if (upload !== null) send(calls, n, upload as ReadableStream<BlobPart>);
    const head = JSON.parse(await answer) as FetchAnswer;
    return responseOf(head, head.hasBody ? bodyOf(calls, n, request) : null);
  };
}

/** A response whose body is short carries it, so that a workflow reads it without a further step. */
export async function withShortBody(response: GuestResponse): Promise<GuestResponse> {
  const { status, statusText, headers, url, redirected } = response;
  const length = headers.get("content-length");
  if (length === null || headers.has("content-encoding")) return response;
  if (!(Number(length) <= SHORT_BODY_BYTES_MAX) || response.content === null) return response;
  return new GuestResponse(null, { status, statusText, headers })
    .withContent(await response.bytes())
    .withOrigin({ type: "basic", url, redirected });
}

/** Sends the pieces one after the other; the request ends where one of them fails. */
function send(calls: HostCalls, of: number, upload: ReadableStream<BlobPart>): void {
  const piece = async (bytes: string | null): Promise<void> => {
    const members = `"of":${of},"bytes":${jsonOf(bytes)}`;
    await calls.ask({ kind: "fetch_send", members }).answer;
  };
  const sending = async (): Promise<void> => {
    for await (const part of upload) {
      const bytes = bytesOfPart(part);
      if (bytes.length > 0) await piece(base64Of(bytes, bytes.length));
    }
    await piece(null);
  };
  sending().catch((error: unknown) => calls.cancel(of, error));
}

function bodyOf(calls: HostCalls, of: number, { signal }: GuestRequest): BodyContent {
  const drop = (): void => {
    void calls.ask({ kind: "fetch_drop", members: `"of":${of}` }).answer;
  };
  let isOver = false;
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        signal.afterAbort((reason) => {
          if (isOver) return;
          isOver = true;
          controller.error(reason);
          drop();
        });
      },
      async pull(controller) {
        const { answer } = calls.ask({ kind: "fetch_read", members: `"of":${of}` });
        const { bytes } = JSON.parse(await answer) as FetchPiece;
        if (isOver) return;
        if (bytes !== null) controller.enqueue(bytesOfBase64(bytes) ?? new Uint8Array(0));
        else {
          isOver = true;
          controller.close();
        }
      },
      cancel() {
        if (!isOver) drop();
        isOver = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream };
}

function responseOf(head: FetchAnswer, content: BodyContent): GuestResponse {
  const { status, statusText, url, redirected } = head;
  const headers = new GuestHeaders(head.headers);
  return new GuestResponse(null, { status, statusText, headers })
    .withContent(content)
    .withOrigin({ type: "basic", url, redirected });
}
