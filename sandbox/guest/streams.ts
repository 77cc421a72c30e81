/**
 * Streams as workflow code sees them: handles that can be passed on to steps, not read or written.
 */
import { SerializationError } from "./errors.ts";
import { runOf } from "./guest.ts";
import type { Guest } from "./guest.ts";
import { refusal } from "./lockdown.ts";
import {
  TypeErrorConstructor,
  WeakMapConstructor,
  define,
  defineFixed,
  keysOf,
  own,
  stringSlice,
  weakGet,
  weakHas,
  weakSet,
  createObject,
} from "./primordials.ts";
import { addField, noFields } from "./realm.ts";
import type { Kind } from "./realm.ts";

const NAMESPACE_CHARS_MAX = 64;
const CLASSES = ["ReadableStream", "WritableStream", "TransformStream"] as const;
const MEMBERS = ["getReader", "getWriter", "pipeTo", "pipeThrough", "tee", "cancel", "abort"];

type HandleName = "ReadableStream" | "WritableStream";

export interface Streams {
  readonly kinds: readonly Kind[];
  readonly getWritable: (options?: object) => object;
  /** The name of the run's stream of a namespace. */
  readonly streamIdOf: (namespace?: unknown) => string;
  readonly isStream: (value: unknown) => value is object;
  /** A handle that carries its bytes with it. */
  readonly streamOf: (bytes: Uint8Array) => object;
  /** The bytes that a handle carries, or null if its stream is elsewhere. */
  readonly carriedBy: (stream: object) => unknown;
}

/** Defines the stream classes on the global; their instances come from the library alone. */
export function installStreamHandles(scope: object, guest: Guest): Streams {
  const prototypes = createObject(null) as Record<(typeof CLASSES)[number], object>;
  for (let i = 0; i < CLASSES.length; i++) {
    const name = CLASSES[i]!;
    prototypes[name] = defineHandleClass(scope, name);
  }
  const readable = new StreamHandles("ReadableStream", prototypes.ReadableStream);
  const writable = new StreamHandles("WritableStream", prototypes.WritableStream);
  const streamIdOf = (namespace?: unknown): string => {
    const suffix = namespaceSuffix(namespace);
    return `strm_${stringSlice(runOf(guest).runId, "wrun_".length)}_user${suffix}`;
  };
  return {
    kinds: [readable, writable],
    isStream: (value): value is object => readable.has(value),
    streamOf: (bytes) => readable.handleOf({ bodyInit: bytes }),
    carriedBy: (stream) => own(readable.dataOf(stream), "bodyInit"),
    streamIdOf,
    getWritable(options) {
      const name = streamIdOf(own(options ?? {}, "namespace"));
      return writable.handleOf({ name, runId: runOf(guest).runId });
    },
  };
}

function defineHandleClass(scope: object, name: string): object {
  const constructor = refusal(
    name,
    `${name} cannot be made in a workflow; make it in a step, or use getWritable()`,
  );
  const prototype = {};
  define(prototype, "constructor", constructor, false);
  define(prototype, Symbol.toStringTag, name, false);
  const message = `a ${name} in a workflow is a handle: pass it to a step and use it there`;
  for (let i = 0; i < MEMBERS.length; i++) {
    define(prototype, MEMBERS[i]!, refusal(MEMBERS[i]!, message), false);
  }
  defineFixed(constructor, "prototype", prototype);
  define(scope, name, constructor, false);
  return prototype;
}

/** The handles of one class, with the data that names each one's stream. */
class StreamHandles implements Kind {
  readonly tag: HandleName;
  readonly #prototype: object;
  readonly #data = new WeakMapConstructor<object, object>();

  constructor(tag: HandleName, prototype: object) {
    this.tag = tag;
    this.#prototype = prototype;
  }

  handleOf(data: object): object {
    const handle = createObject(this.#prototype);
    weakSet(this.#data, handle, data);
    return handle;
  }

  has(value: unknown): boolean {
    return typeof value === "object" && value !== null && weakHas(this.#data, value);
  }

  dataOf(handle: object): object {
    return weakGet(this.#data, handle) ?? createObject(null);
  }

  reduce(value: object): ReturnType<Kind["reduce"]> {
    const data = weakGet(this.#data, value);
    if (data === undefined) return null;
    const fields = noFields();
    const keys = keysOf(data);
    for (let i = 0; i < keys.length; i++) addField(fields, keys[i]!, own(data, keys[i]!));
    return { tag: this.tag, fields };
  }

  revive(data: unknown): object {
    if (typeof data === "object" && data !== null) return this.handleOf(data);
    throw new SerializationError("a stream in a payload has no data");
  }
}

function namespaceSuffix(namespace: unknown): string {
  if (namespace === undefined) return "";
  if (
    typeof namespace === "string" &&
    namespace.length > 0 &&
    namespace.length <= NAMESPACE_CHARS_MAX
  ) {
    return `_${namespace}`;
  }
  throw new TypeErrorConstructor(
    `getWritable: a namespace is a text of 1 to ${NAMESPACE_CHARS_MAX} characters`,
  );
}
