/**
 * Live values of a host step: streams, signals, requests and responses that came in its arguments or
 * leave in its result.
 *
 * Owns how each is tied to a stream of the run, for as long as the attempt lives; what a stream still
 * has to bring when the body returns is followed to its end by the attempt's access.
 *
 * T25  A stream that a body made leaves as a name; its chunks are written behind it, in order.
 * T26  A signal of the workflow fires in the body when any holder aborts it, and when the attempt is
 *      told to end.
 */
import { randomUUID } from "node:crypto";
import { runIdOf, runOfStream } from "../engine/ids.ts";
import { STREAM_FLUSH_MS } from "../engine/limits.ts";
import { bytesOfChunk, chunkOfBytes } from "../engine/payload.ts";
import type { PlatformCall, StreamPlace } from "../engine/ports/access.ts";
import {
  PLAIN_REALM,
  type HostCodec,
  type HostRealm,
  type LiveValues,
  type StepAttempt,
} from "../engine/ports/steps.ts";

type Data = Readonly<Record<string, unknown>>;

const TAGS = [
  "ReadableStream",
  "WritableStream",
  "AbortSignal",
  "AbortController",
  "Request",
  "Response",
] as const;
type Tag = (typeof TAGS)[number];

/** The last part of `wrun_…`, by which streams name their run. */
const ulidOf = (id: string): string => id.slice(id.indexOf("_") + 1);

export class HostValues implements LiveValues {
  readonly tags: readonly string[] = TAGS;
  readonly #attempt: StepAttempt;
  readonly #codec: HostCodec;
  /** Under which data a value crosses again. */
  readonly #data = new WeakMap<object, Data>();
  readonly #ended = new AbortController();
  #realm: HostRealm = PLAIN_REALM;
  readonly #signals: AbortSignal[] = [];
  /** To a stream, or to those who hold a signal. */
  #hasWritten = false;

  constructor(attempt: StepAttempt, codec: HostCodec) {
    this.#attempt = attempt;
    this.#codec = codec;
  }

  /** In which realm chunks and reasons are read and written. */
  use(realm: HostRealm): void {
    this.#realm = realm;
  }

  /** True once all that the body wrote and aborted has landed; false if that goes on. */
  async flushed(): Promise<boolean> {
    if (!this.#hasWritten) return true;
    const untilMs = Date.now() + STREAM_FLUSH_MS;
    for (;;) {
      // A chunk that waits behind another is on its way once all promises have had their turn.
      await new Promise<void>((resolve) => void setImmediate(resolve));
      const flushed = await this.#attempt.access.flushed(STREAM_FLUSH_MS);
      if (flushed !== "landed") return flushed === "idle";
      if (Date.now() >= untilMs) return false;
    }
  }

  /** Whether it is what a signal of the workflow was aborted with. */
  isAbortReason(thrown: unknown): boolean {
    return this.#signals.some((signal) => signal.aborted && signal.reason === thrown);
  }

  /** The attempt is over: signals that nothing has fired never will. */
  close(): void {
    this.#ended.abort();
  }

  /** A call of the platform, with values of the body in and out. */
  async call(op: PlatformCall, args: readonly unknown[]): Promise<unknown> {
    const given = this.plain(args) as readonly unknown[];
    const result = await this.#attempt.access.call(op, given);
    return this.#codec.decode(
      this.#codec.encode(result, `result of ${op}()`, PLAIN_REALM),
      this.#realm,
    );
  }

  /** What the value is to who knows no class and no live value. */
  plain(value: unknown): unknown {
    const payload = this.#codec.encode(value, "an argument", this.#realm);
    return this.#codec.decode(payload, PLAIN_REALM);
  }

  /** A stream of a run into which the body writes. */
  writable(place: StreamPlace): WritableStream<unknown> {
    const { streams } = this.#attempt.access;
    this.#hasWritten = true;
    const made = new WritableStream<unknown>({
      write: (chunk) => streams.write(place, [this.#chunkOf(chunk)]),
      close: () => streams.close(place),
      abort: () => streams.close(place),
    });
    this.#data.set(made, { ...place });
    return made;
  }

  /** A stream of a run, from an index on, live. */
  readable(place: StreamPlace, startIndex: number): ReadableStream<unknown> {
    const { streams } = this.#attempt.access;
    const left = new AbortController();
    let index = startIndex;
    const made = new ReadableStream<unknown>({
      pull: async (controller) => {
        const page = await streams.read(place, index, left.signal);
        index = page.startIndex + page.chunks.length;
        for (const chunk of page.chunks) {
          controller.enqueue(bytesOfChunk(chunk) ?? this.#codec.decode(chunk, this.#realm));
        }
        if (page.done) controller.close();
      },
      cancel: () => left.abort(),
    });
    this.#data.set(made, { ...place, startIndex });
    return made;
  }

  dataOf(tag: string, value: object): Data | null {
    switch (tag as Tag) {
      case "ReadableStream":
        return value instanceof ReadableStream ? this.#readableData(value) : null;
      case "WritableStream":
        return value instanceof WritableStream ? this.#known(value, tag) : null;
      case "AbortSignal":
        return value instanceof AbortSignal ? this.#signalData(value, tag) : null;
      case "AbortController":
        return value instanceof AbortController ? this.#signalData(value.signal, tag) : null;
      case "Request":
        return value instanceof Request ? this.#requestData(value) : null;
      case "Response":
        return value instanceof Response ? responseData(value) : null;
      default:
        return null;
    }
  }

  valueOf(tag: string, data: Data): unknown {
    switch (tag as Tag) {
      case "ReadableStream":
        return this.#readableOf(data);
      case "WritableStream":
        return this.writable(this.#placeOf(data));
      case "AbortSignal":
        return this.#controllerOf(data).signal;
      case "AbortController":
        return this.#controllerOf(data);
      case "Request":
        return this.#requestOf(data);
      case "Response":
        return responseOf(data);
      default:
        throw this.#refusal(`a ${tag} cannot be used here`);
    }
  }

  #chunkOf(chunk: unknown): Uint8Array {
    if (chunk instanceof Uint8Array) return chunkOfBytes(chunk);
    return this.#codec.encode(chunk, "a stream's chunk", this.#realm);
  }

  #readableOf(data: Data): ReadableStream<unknown> {
    const { bodyInit, startIndex } = data;
    if (bodyInit === undefined) {
      return this.readable(this.#placeOf(data), typeof startIndex === "number" ? startIndex : 0);
    }
    const made = new Blob([bodyInit as Uint8Array<ArrayBuffer>]).stream();
    this.#data.set(made, data);
    return made;
  }

  #readableData(stream: ReadableStream<unknown>): Data {
    const known = this.#data.get(stream);
    if (known !== undefined) return known;
    if (stream.locked) throw this.#refusal("a stream that is being read cannot leave the step");
    const { run, stepId } = this.#attempt;
    // Of its own for each body: an attempt that was cut short is made again under its number.
    const name = `strm_${ulidOf(run.runId)}_${ulidOf(stepId)}_${randomUUID()}`;
    const place = { runId: run.runId, name };
    this.#attempt.access.track(stream.pipeTo(this.writable(place)));
    const data = { ...place, startIndex: 0, framing: "framed-v1" };
    this.#data.set(stream, data);
    return data;
  }

  #placeOf(data: Data): StreamPlace {
    const { name, runId } = data;
    if (typeof name !== "string") throw this.#refusal("a stream in a payload has no name");
    if (typeof runId === "string") return { name, runId: runIdOf(runId) };
    return { name, runId: runOfStream(name) ?? this.#attempt.run.runId };
  }

  #signalData(signal: AbortSignal, tag: string): Data {
    return { ...this.#known(signal, tag), aborted: signal.aborted, reason: signal.reason };
  }

  #controllerOf(data: Data): AbortController {
    const { streamName, hookToken, runId } = data;
    const isNamed = typeof streamName === "string" && typeof hookToken === "string";
    if (!isNamed || typeof runId !== "string") {
      throw this.#refusal("a signal in a payload has no names");
    }
    const names = { streamName, hookToken, runId };
    const controller = new AbortController();
    const fire = controller.abort.bind(controller);
    this.#data.set(controller.signal, names);
    this.#signals.push(controller.signal);
    if (data["aborted"] === true) fire(data["reason"]);
    else this.#watch({ runId: runIdOf(runId), name: streamName }, fire);
    controller.abort = (reason?: unknown) => {
      if (controller.signal.aborted) return;
      fire(reason);
      this.#hasWritten = true;
      const told = { ...names, reason: controller.signal.reason as unknown };
      this.#attempt.access.track(this.call("abort", [told]));
    };
    return controller;
  }

  #watch(place: StreamPlace, fire: (reason?: unknown) => void): void {
    const { signal, access } = this.#attempt;
    signal.addEventListener("abort", () => fire(signal.reason), { signal: this.#ended.signal });
    void access.streams.read(place, 0, this.#ended.signal).then(
      ({ chunks: [chunk] }) => {
        if (chunk !== undefined) fire(this.#codec.decode(chunk, this.#realm));
      },
      // The attempt is over, or the World is away: what remains is the attempt's own signal.
      () => undefined,
    );
  }

  #requestData(request: Request): Data {
    const { method, url, headers, body } = request;
    const writable = this.#data.get(request);
    return { method, url, headers, body, ...writable };
  }

  #requestOf(data: Data): Request {
    const { responseWritable } = data;
    const request = new Request(String(data["url"]), {
      method: String(data["method"]),
      headers: data["headers"] as Headers,
      ...bodyOf(data),
    });
    if (responseWritable === undefined) return request;
    this.#data.set(request, { responseWritable });
    const respondWith = (response: Response) =>
      this.call("respondWith", [responseWritable, response]);
    return Object.assign(request, { respondWith });
  }

  #known(value: object, tag: string): Data {
    const data = this.#data.get(value);
    if (data !== undefined) return data;
    throw this.#refusal(`a ${tag} that was made in a step cannot leave it`);
  }

  #refusal(message: string): Error {
    const { SerializationError } = this.#codec.errors;
    return new (SerializationError ?? Error)(message);
  }
}

function responseData({ type, url, status, statusText, headers, redirected, body }: Response) {
  return { type, url, status, statusText, headers, redirected, body };
}

function responseOf(data: Data): Response {
  const { body } = data;
  return new Response((body ?? null) as ReadableStream | null, {
    status: Number(data["status"]),
    statusText: String(data["statusText"]),
    headers: data["headers"] as Headers,
  });
}

function bodyOf({ body }: Data): RequestInit {
  if (!(body instanceof ReadableStream)) return {};
  return { body, duplex: "half" };
}
