/** Bodies in a workflow: carried bytes are read here, streams elsewhere by a step. */
import { BUILTIN_STEPS } from "./builtin-steps.ts";
import { BufferConstructor, Bytes } from "./primordials.ts";
import type { Steps } from "./steps.ts";
import type { Streams } from "./streams.ts";
import { bytesOfPart } from "./web/blob.ts";
import type { BlobPart } from "./web/blob.ts";
import type { BodyTools } from "./web/body.ts";
import { GuestResponse } from "./web/fetch-classes.ts";

export function workflowBodies(streams: Streams, steps: Steps): BodyTools {
  return {
    isStream: streams.isStream,
    streamOf: streams.streamOf,
    respond: (writable, response) =>
      steps.callBuiltin(BUILTIN_STEPS.respondWith, [writable, response]),
    async read(stream) {
      const carried = streams.carriedBy(stream);
      if (carried !== undefined) return bytesOfPart(carried as BlobPart);
      const response = new GuestResponse(stream);
      const read = await steps.callBuiltin(BUILTIN_STEPS.responseArrayBuffer, [response]);
      return read instanceof BufferConstructor ? new Bytes(read) : new Bytes(0);
    },
    // A handle is read from the beginning, however often.
    tee: (stream) => [stream, stream],
  };
}
