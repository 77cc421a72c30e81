/**
 * Streams of a step's body: real ones, whose far ends are named streams that the host keeps.
 */
import { ReadableStream, TransformStream, WritableStream } from "web-streams-polyfill";
import { base64Of, bytesOfBase64 } from "../base64.ts";
import { decode } from "../decode.ts";
import { SerializationError } from "../errors.ts";
import { runOf, textOfThrown, textOfValue } from "../guest.ts";
import type { Guest } from "../guest.ts";
import { define, jsonOf, own, stringSlice } from "../primordials.ts";
import { addField, noFields } from "../realm.ts";
import type { Kind } from "../realm.ts";
import type { StreamChunk } from "../../step-protocol.ts";
import { bytesOfPart, joinedBytes } from "../web/blob.ts";
import type { BlobPart } from "../web/blob.ts";
import type { BodyTools } from "../web/body.ts";
import type { HostCalls } from "./host-calls.ts";

export class StepStreams {
  readonly #guest: Guest;
  readonly #calls: HostCalls;
  /** Data under which a stream crosses again. */
  readonly #data = new WeakMap<object, object>();

  constructor(guest: Guest, calls: HostCalls) {
    this.#guest = guest;
    this.#calls = calls;
  }

  install(scope: object): void {
    for (const [name, type] of Object.entries({
      ReadableStream,
      TransformStream,
      WritableStream,
    })) {
      define(scope, name, type, false);
    }
  }

  get kinds(): readonly Kind[] {
    return [
      this.#kind("ReadableStream", ReadableStream),
      this.#kind("WritableStream", WritableStream),
    ];
  }

  /** A stream of the run into which this step writes. */
  writable(name: string, runId: string): WritableStream<unknown> {
    const stream = `"stream":${jsonOf(name)}`;
    const send = async (kind: string, members: string): Promise<void> => {
      const { answer } = this.#calls.ask({ kind, members: `${stream},${members}` });
      await this.#calls.landing(answer);
    };
    const writable = new WritableStream<unknown>({
      write: (chunk) => send("stream_write", this.#chunkMembers(chunk)),
      close: () => send("stream_close", '"error":null'),
      abort: (reason) =>
        send("stream_close", `"error":${jsonOf(textOfThrown(this.#guest, reason))}`),
    });
    this.#data.set(writable, { name, runId });
    return writable;
  }

  bodyTools(): BodyTools {
    return {
      isStream: (value): value is object => value instanceof ReadableStream,
      streamOf: (bytes) => this.#carrying(bytes),
      respond: async (writable, response) => {
        const args = textOfValue(this.#guest, [writable, response], "a webhook's response");
        const members = `"op":"respondWith","args":${jsonOf(args)}`;
        await this.#calls.ask({ kind: "api", members }).answer;
      },
      read: async (stream) => {
        const parts: Uint8Array[] = [];
        for await (const part of stream as ReadableStream<BlobPart>) parts.push(bytesOfPart(part));
        return joinedBytes(parts);
      },
      tee: (stream) => (stream as ReadableStream<unknown>).tee(),
    };
  }

  #chunkMembers(chunk: unknown): string {
    if (chunk instanceof Uint8Array) {
      return `"bytes":${jsonOf(base64Of(chunk, chunk.length))},"text":null`;
    }
    return `"bytes":null,"text":${jsonOf(textOfValue(this.#guest, chunk, "a stream's chunk"))}`;
  }

  #carrying(bytes: Uint8Array): ReadableStream<Uint8Array> {
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        if (bytes.length > 0) controller.enqueue(bytes);
        controller.close();
      },
    });
    this.#data.set(stream, { bodyInit: bytes });
    return stream;
  }

  #readable(data: object): ReadableStream<unknown> {
    const carried = own(data, "bodyInit");
    if (carried !== undefined) return this.#carrying(bytesOfPart(carried as BlobPart));
    const name = own(data, "name");
    const startIndex = own(data, "startIndex");
    let index = typeof startIndex === "number" ? startIndex : 0;
    const readable = new ReadableStream<unknown>({
      pull: async (controller) => {
        const members = `"stream":${jsonOf(name as string)},"index":${index}`;
        const { answer } = this.#calls.ask({ kind: "stream_read", members });
        const chunk = JSON.parse(await answer) as StreamChunk;
        index = chunk.next;
        if (chunk.bytes !== null) controller.enqueue(bytesOfBase64(chunk.bytes));
        else if (chunk.text !== null) controller.enqueue(decode(chunk.text, this.#guest.realm));
        else controller.close();
      },
    });
    this.#data.set(readable, data);
    return readable;
  }

  /** A stream that the body made leaves as the name of one that it is written to, behind it. */
  #leaving(value: object): object {
    if (!(value instanceof ReadableStream) || value.locked) {
      throw new SerializationError(
        "a WritableStream, or a stream that is being read, cannot leave the step it was made in",
      );
    }
    const { runId } = runOf(this.#guest);
    const name = `strm_${stringSlice(runId, "wrun_".length)}_${this.#guest.random.token()}`;
    const data = { name, runId, startIndex: 0, framing: "framed-v1" };
    this.#data.set(value, data);
    const piped = value.pipeTo(this.writable(name, runId));
    this.#calls.landing(piped).catch(() => undefined);
    return data;
  }

  #kind(tag: "ReadableStream" | "WritableStream", type: new () => object): Kind {
    return {
      tag,
      reduce: (value) => {
        if (!(value instanceof type)) return null;
        const data = this.#data.get(value) ?? this.#leaving(value);
        const fields = noFields();
        for (const [key, item] of Object.entries(data)) addField(fields, key, item);
        return { tag, fields };
      },
      revive: (data) => {
        if (typeof data !== "object" || data === null) {
          throw new SerializationError("a stream in a payload has no data");
        }
        if (tag === "ReadableStream") return this.#readable(data);
        return this.writable(String(own(data, "name")), String(own(data, "runId")));
      },
    };
  }
}
