/**
 * Payloads: the encoded values of guests. To the host a payload is bytes.
 *
 * The first four bytes name the form: `devl` is devalue text, `encr` a sealed payload, `zstd` a
 * compressed one. Only guests and host steps look inside a `devl` payload; the engine only writes
 * the few values that it makes itself (an error it raises), and never reads one.
 */
import { BatonError } from "./errors.ts";

export type Payload = Uint8Array & { readonly __payload?: never };

export const PAYLOAD_PREFIXES = ["devl", "encr", "zstd"] as const;
export type PayloadPrefix = (typeof PAYLOAD_PREFIXES)[number];

const text = new TextEncoder();
const latin1 = new TextDecoder("latin1");
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The form that a payload names, or null if it names none that is known. */
export function payloadPrefix(payload: Uint8Array): PayloadPrefix | null {
  const prefix = latin1.decode(payload.subarray(0, 4));
  return PAYLOAD_PREFIXES.find((known) => known === prefix) ?? null;
}

/** A `devl` payload around devalue text. */
export function payloadOfText(devalueText: string): Payload {
  return text.encode(`devl${devalueText}`);
}

/** The devalue text of a `devl` payload; any other form is refused. */
export function textOfPayload(payload: Payload): string {
  if (payloadPrefix(payload) !== "devl") {
    throw new BatonError("PAYLOAD_UNREADABLE", "a payload opens with the prefix `devl`", {
      field: "payload",
    });
  }
  return utf8.decode(payload.subarray(4));
}

/** The payload of an error that the engine raises itself: a name and a message, no cause. */
export function errorPayload(name: string, message: string): Payload {
  // Devalue's flat form: index 0 is [reducer name, index of its data]; the data's fields are
  // indexes in turn.
  const known = ["FatalError", "RetryableError"].includes(name);
  const data = known ? { message: 2 } : { name: 3, message: 2 };
  const values: unknown[] = [[known ? name : "Error", 1], data, message];
  if (!known) values.push(name);
  return payloadOfText(JSON.stringify(values));
}

/**
 * Chunks of streams: `devl` payloads for values, and framed bytes (framed-v1: their length in four
 * bytes, big-endian, then they themselves), so that a reader may go on anywhere. No frame is large
 * enough to begin as a payload does.
 */
export function chunkOfBytes(bytes: Uint8Array): Uint8Array {
  const chunk = new Uint8Array(FRAME_HEAD_BYTES + bytes.length);
  new DataView(chunk.buffer).setUint32(0, bytes.length);
  chunk.set(bytes, FRAME_HEAD_BYTES);
  return chunk;
}

/** The bytes of a framed chunk; null if it holds a value. */
export function bytesOfChunk(chunk: Uint8Array): Uint8Array | null {
  if (payloadPrefix(chunk) === "devl") return null;
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const isWhole = chunk.length >= FRAME_HEAD_BYTES;
  if (isWhole && view.getUint32(0) === chunk.length - FRAME_HEAD_BYTES) {
    return chunk.subarray(FRAME_HEAD_BYTES);
  }
  throw new BatonError("PAYLOAD_UNREADABLE", "a chunk of a stream is a payload or a frame", {
    field: "chunk",
  });
}

const FRAME_HEAD_BYTES = 4;
