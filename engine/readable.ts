/**
 * A run's stream as clients read it: a web stream of its chunks, from an index on, live.
 *
 * Owns the name that a namespace stands for, and how chunks become what was written.
 */
import type { RunRef } from "./ids.ts";
import { bytesOfChunk } from "./payload.ts";
import type { StepStreams, StreamPlace } from "./ports/access.ts";
import { PLAIN_REALM } from "./ports/steps.ts";
import type { HostCodec } from "./ports/steps.ts";

export interface ReadableOptions {
  /** Which of the run's streams; the one without a namespace by default. */
  readonly namespace?: string;
  /** The first chunk's index; below 0 it counts from the tail. 0 by default. */
  readonly startIndex?: number;
}

/** What `getWritable({namespace})` writes to in steps of the run. */
export function userStreamOf({ runId }: RunRef, namespace?: string): StreamPlace {
  const suffix = namespace === undefined ? "" : `_${namespace}`;
  return { runId, name: `strm_${runId.slice("wrun_".length)}_user${suffix}` };
}

/** Bytes as bytes, other values decoded. Ends with the stream. */
export function readableOf(
  { streams, codec }: { readonly streams: StepStreams; readonly codec: HostCodec },
  place: StreamPlace,
  startIndex = 0,
): ReadableStream<unknown> {
  const left = new AbortController();
  let index = startIndex;
  return new ReadableStream<unknown>({
    async pull(controller) {
      const page = await streams.read(place, index, left.signal);
      index = page.startIndex + page.chunks.length;
      for (const chunk of page.chunks) {
        controller.enqueue(bytesOfChunk(chunk) ?? codec.decode(chunk, PLAIN_REALM));
      }
      if (page.done) controller.close();
    },
    cancel: () => left.abort(),
  });
}
