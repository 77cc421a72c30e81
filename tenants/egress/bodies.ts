/**
 * Bodies of answers: decompressed, counted, read at the reader's pace.
 *
 * T54  What is counted, and bounded, is what comes out of decompression.
 */
import { PassThrough, pipeline } from "node:stream";
import type { Readable, Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { EgressBody, EgressFailure, EgressPiece } from "../../engine/ports/egress.ts";
import { failureOf } from "./failures.ts";

/** Read ahead of the reader, so that the connection of a short body is free before it is read. */
const AHEAD_BYTES = 64 * 1024;
const CODINGS_MAX = 3;

export interface BodyRules {
  readonly responseBytesMax: number;
  /** Counts bytes as they are read; not null: they are over what the tenant may use. */
  count(bytes: number): EgressFailure | null;
}

/** The stages that undo a `Content-Encoding`; null: more of them than anyone needs. */
export function decodersOf(contentEncoding: string): Transform[] | null {
  const codings = contentEncoding
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim());
  if (codings.length > CODINGS_MAX) return null;
  const stages: Transform[] = [];
  for (const coding of codings.toReversed()) {
    const stage = decoderOf(coding);
    // As in browsers, a body in an unknown coding is given as it came.
    if (stage === null) return [];
    stages.push(...stage);
  }
  return stages;
}

function decoderOf(coding: string): Transform[] | null {
  // Many servers end a compressed body without its trailer.
  const lenient = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
  switch (coding) {
    case "":
    case "identity":
      return [];
    case "gzip":
    case "x-gzip":
      return [createGunzip(lenient)];
    case "deflate":
      return [createInflate(lenient)];
    case "br":
      return [createBrotliDecompress()];
    default:
      return null;
  }
}

export class ResponseBody implements EgressBody {
  readonly #source: Readable;
  readonly #rules: BodyRules;
  readonly #pieces: AsyncIterator<Uint8Array>;
  #bytes = 0;
  #last: EgressPiece | null = null;

  constructor(source: Readable, decoders: readonly Transform[], rules: BodyRules) {
    this.#source = source;
    this.#rules = rules;
    const out = new PassThrough({ highWaterMark: AHEAD_BYTES });
    // Its errors are those of `out`, which the reader meets.
    pipeline([source, ...decoders, out], () => undefined);
    this.#pieces = out[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  }

  async read(): Promise<EgressPiece> {
    if (this.#last !== null) return this.#last;
    let piece: IteratorResult<Uint8Array>;
    try {
      piece = await this.#pieces.next();
    } catch (error) {
      return this.#end(failureOf(error));
    }
    if (piece.done === true) return this.#end({ kind: "end" });
    const bytes = piece.value;
    const { responseBytesMax } = this.#rules;
    this.#bytes += bytes.length;
    if (this.#bytes > responseBytesMax) {
      const used = this.#bytes;
      return this.#end({
        kind: "over",
        limit: "responseBytesMax",
        used,
        allowed: responseBytesMax,
      });
    }
    const over = this.#rules.count(bytes.length);
    return over === null ? { kind: "bytes", bytes } : this.#end(over);
  }

  close(): void {
    this.#last ??= { kind: "failed", reason: "the body was given up" };
    this.#source.destroy();
  }

  #end(last: EgressPiece): EgressPiece {
    this.#last ??= last;
    this.#source.destroy();
    return this.#last;
  }
}
