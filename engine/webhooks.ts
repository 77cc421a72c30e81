/**
 * Webhooks: an HTTP request becomes the payload of the hook that its token names, and is answered as
 * the workflow said when it made the webhook.
 *
 * Owns the three answers: 202 at once, a fixed response, or the one that the workflow gives to this
 * very request, which comes through a stream of its run.
 *
 * E98  A request is answered only once it is in the log.
 * E99  A token of a hook that is no webhook is not found: such hooks have no public address.
 */
import { BatonError } from "./errors.ts";
import type { TenantId } from "./ids.ts";
import { hookByToken, resumeHook } from "./intake.ts";
import type { Engine } from "./parts.ts";
import type { StreamPlace } from "./ports/access.ts";
import { PLAIN_REALM } from "./ports/steps.ts";
import type { HookRow } from "./ports/world.ts";
import { readableOf } from "./readable.ts";

type Data = Readonly<Record<string, unknown>>;

const ACCEPTED = 202;
const NO_ANSWER = 500;
const ANSWER_ID_BYTES = 16;

export async function resumeWebhook(
  engine: Engine,
  to: { readonly tenantId: TenantId; readonly token: string },
  request: Request,
): Promise<Response> {
  const { parts } = engine;
  const { tenantId, token } = to;
  const hook = await hookByToken(parts, tenantId, token);
  if (!hook.isWebhook) {
    const message = "the tenant has no open webhook of this token";
    throw new BatonError("HOOK_NOT_FOUND", message, { field: "token" });
  }
  const respondWith = respondWithOf(engine, hook);
  const answerTo = respondWith === "manual" ? answerPlace(engine, hook) : null;
  const payload = parts.codec.encode(
    await requestValue(engine, tenantId, request, answerTo),
    "webhook request",
    PLAIN_REALM,
  );
  await resumeHook(parts, { tenantId, token, payload });
  if (answerTo !== null) return answerFrom(engine, tenantId, answerTo, request.signal);
  return responseOf(engine, tenantId, respondWith) ?? new Response(null, { status: ACCEPTED });
}

function respondWithOf({ parts }: Engine, hook: HookRow): unknown {
  if (hook.metadata === null) return undefined;
  const options = parts.codec.decode(hook.metadata, PLAIN_REALM) as Data | null;
  return options?.["respondWith"];
}

/** A name that nobody can guess, since any step of the tenant may write to streams of its runs. */
function answerPlace({ parts }: Engine, { runId }: HookRow): StreamPlace {
  const id = [...parts.random.bytes(ANSWER_ID_BYTES)];
  const hex = id.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { runId, name: `strm_${runId.slice("wrun_".length)}_answer_${hex}` };
}

async function requestValue(
  { parts }: Engine,
  tenantId: TenantId,
  request: Request,
  answerTo: StreamPlace | null,
): Promise<unknown> {
  const { codec } = parts;
  const standing = await parts.tenants.standingOf(tenantId);
  const bytesMax = standing?.limits.heap.payloadBytesMax ?? 0;
  const bytes = await bytesOf(request, bytesMax);
  const body = bytes.length === 0 ? null : codec.tagged("ReadableStream", { bodyInit: bytes });
  const { method, url, headers } = request;
  return codec.tagged("Request", {
    method,
    url,
    headers: new Headers(headers),
    ...(answerTo === null
      ? {}
      : { responseWritable: codec.tagged("WritableStream", { ...answerTo }) }),
    body,
  });
}

/** The body, read no further than a payload may be long. */
async function bytesOf({ body }: Request, bytesMax: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let used = 0;
  if (body !== null) {
    for await (const part of body as unknown as AsyncIterable<Uint8Array>) {
      used += part.length;
      if (used > bytesMax) {
        throw new BatonError("PAYLOAD_LIMIT_EXCEEDED", "the request's body is too long", {
          field: "body",
          used,
          allowed: bytesMax,
        });
      }
      parts.push(part);
    }
  }
  const bytes = new Uint8Array(used);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

async function answerFrom(
  engine: Engine,
  tenantId: TenantId,
  place: StreamPlace,
  signal: AbortSignal,
): Promise<Response> {
  const page = await engine.memory.streams.forTenant(tenantId).read(place, 0, signal);
  const [chunk] = page.chunks;
  const answer = chunk === undefined ? null : engine.parts.codec.decode(chunk, PLAIN_REALM);
  // The run ended without a word, or with something that is no response.
  return responseOf(engine, tenantId, answer) ?? new Response(null, { status: NO_ANSWER });
}

/** The response that the workflow's value stands for; null if it is none. */
function responseOf(engine: Engine, tenantId: TenantId, value: unknown): Response | null {
  const { codec } = engine.parts;
  const data = codec.carried("Response", value);
  if (data === null) return null;
  const { status, statusText, headers } = data;
  try {
    return new Response(bodyOf(engine, tenantId, data), {
      status: Number(status),
      statusText: typeof statusText === "string" ? statusText : "",
      headers: headers instanceof Headers ? headers : new Headers(),
    });
  } catch (error) {
    // A status that no response can have: the tenant's mistake, which the caller is not told of.
    engine.parts.log.warn({ tenantId, error: String(error) }, "a webhook's response has no form");
    return new Response(null, { status: NO_ANSWER });
  }
}

function bodyOf(
  engine: Engine,
  tenantId: TenantId,
  response: Data,
): ConstructorParameters<typeof Response>[0] | null {
  const { codec } = engine.parts;
  const data = codec.carried("ReadableStream", response["body"]);
  if (data === null) return null;
  const { bodyInit, name, runId } = data;
  if (bodyInit instanceof Uint8Array) return bodyInit as Uint8Array<ArrayBuffer>;
  if (bodyInit instanceof ArrayBuffer) return bodyInit;
  if (typeof name !== "string" || typeof runId !== "string") return null;
  const streams = engine.memory.streams.forTenant(tenantId);
  const place = { runId, name } as StreamPlace;
  return readableOf({ streams, codec }, place) as ReadableStream<Uint8Array<ArrayBuffer>>;
}
