/**
 * Messages over a byte stream to and from a guest host: JSON beside the bytes that it refers to.
 *
 * The other end may be in a tenant's hands, so nothing but JSON and bytes is read, and no more of
 * either than is allowed. A frame is two lengths (32 bits, little-endian), the JSON, the bytes; in
 * the JSON, bytes are `{"$bytes": [from, to]}`.
 */
import { z } from "zod";

const HEAD_BYTES = 8;
const BYTES_KEY = "$bytes";
/** A report is at most 32 MiB; as a JSON string within JSON it may double. */
const JSON_BYTES_MAX = 80 << 20;
/** An image of the largest heap, before it is compressed. */
const BINARY_BYTES_MAX = 144 << 20;

/** The other end sent what no end of ours sends. */
export class FrameRefused extends Error {
  override readonly name = "FrameRefused";
}

export function frameOf(message: unknown): Buffer {
  const parts: Uint8Array[] = [];
  let binaryBytes = 0;
  const json = Buffer.from(
    JSON.stringify(message, (_key, value: unknown) => {
      if (!(value instanceof Uint8Array)) return value;
      parts.push(value);
      binaryBytes += value.length;
      return { [BYTES_KEY]: [binaryBytes - value.length, binaryBytes] };
    }),
  );
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(json.length, 0);
  head.writeUInt32LE(binaryBytes, 4);
  return Buffer.concat([head, json, ...parts]);
}

const bytesRange = z.strictObject({ [BYTES_KEY]: z.tuple([z.int().min(0), z.int().min(0)]) });

/** Puts frames together from chunks of a stream. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #held = 0;

  /** The messages that are complete with this chunk. Throws `FrameRefused`. */
  push(chunk: Buffer): unknown[] {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    const messages: unknown[] = [];
    for (;;) {
      const lengths = this.#lengths();
      if (lengths === null || this.#held < HEAD_BYTES + lengths.json + lengths.binary)
        return messages;
      const all = this.#joined();
      const jsonEnd = HEAD_BYTES + lengths.json;
      const end = jsonEnd + lengths.binary;
      messages.push(parsed(all.toString("utf8", HEAD_BYTES, jsonEnd), all.subarray(jsonEnd, end)));
      this.#chunks = [all.subarray(end)];
      this.#held = all.length - end;
    }
  }

  #lengths(): { json: number; binary: number } | null {
    if (this.#held < HEAD_BYTES) return null;
    const first = this.#chunks[0] as Buffer;
    const head = first.length >= HEAD_BYTES ? first : this.#joined();
    const lengths = { json: head.readUInt32LE(0), binary: head.readUInt32LE(4) };
    if (lengths.json > JSON_BYTES_MAX || lengths.binary > BINARY_BYTES_MAX) {
      throw new FrameRefused("a frame is no longer than is allowed");
    }
    return lengths;
  }

  #joined(): Buffer {
    const all =
      this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    this.#chunks = [all];
    return all;
  }
}

function parsed(json: string, binary: Buffer): unknown {
  try {
    return JSON.parse(json, (_key, value: unknown) => {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, BYTES_KEY)) {
        return value;
      }
      const [from, to] = bytesRange.parse(value)[BYTES_KEY];
      if (from > to || to > binary.length) throw new FrameRefused("bytes lie inside their frame");
      return new Uint8Array(binary.subarray(from, to));
    });
  } catch (error) {
    throw new FrameRefused("a frame holds JSON that refers to its bytes", { cause: error });
  }
}
