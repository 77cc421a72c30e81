/**
 * Payloads on the host, for the code that the platform trusts to look inside: host steps, clients
 * and tools. The encoding is the guests' own (guest/encode.ts, guest/decode.ts).
 *
 * Payload bytes are a tenant's: reading them is bounded in bytes, revives data only, and never
 * calls a class unless trusted code has registered it. What the host cannot use, such as a stream
 * or a step function, comes back as an `OpaqueValue`, which encodes to what it came from.
 */
import { BatonError } from "../engine/errors.ts";
import { payloadOfText, textOfPayload } from "../engine/payload.ts";
import type { Payload } from "../engine/payload.ts";
import { decode } from "./guest/decode.ts";
import { encode } from "./guest/encode.ts";
import { registeredIn } from "./guest/classes.ts";
import { addField, noFields, OpaqueValue } from "./guest/realm.ts";
import type { Kind, Realm, Reduced } from "./guest/realm.ts";

export { OpaqueValue } from "./guest/realm.ts";
export { RUN_CLASS_ID } from "./guest/builtin-steps.ts";

/** As large as a payload may be when it lies apart from its event. */
export const HOST_PAYLOAD_BYTES_MAX = 32 << 20;

export interface HostCodecOptions {
  /** UTF-8 bytes; default `HOST_PAYLOAD_BYTES_MAX`. */
  readonly bytesMax?: number;
  /** Classes by `classId`, whose static methods may be called. Only what trusted code passes. */
  readonly classes?: ReadonlyMap<string, object>;
  /** Names the value in the error that encoding throws. */
  readonly what?: string;
  /** Kinds of values beyond data, such as the streams of a step. */
  readonly kinds?: readonly Kind[];
}

/** The `devl` payload of a value. Throws an error named `SerializationError` if it has none. */
export function encodePayload(value: unknown, options: HostCodecOptions = {}): Payload {
  return payloadOfText(encodeText(value, options));
}

/** The value of a `devl` payload. Throws `SerializationError`, or `BatonError` for other forms. */
export function decodePayload(payload: Payload, options: HostCodecOptions = {}): unknown {
  const bytesMax = options.bytesMax ?? HOST_PAYLOAD_BYTES_MAX;
  if (payload.length > bytesMax) {
    throw new BatonError("PAYLOAD_LIMIT_EXCEEDED", "the payload is larger than may be read here", {
      field: "payload",
      used: payload.length,
      allowed: bytesMax,
    });
  }
  return decodeText(textOfPayload(payload), options);
}

/** Devalue text of a value, without the `devl` prefix. */
export function encodeText(value: unknown, options: HostCodecOptions = {}): string {
  const limits = { bytesMax: options.bytesMax ?? HOST_PAYLOAD_BYTES_MAX };
  return encode(value, options.what ?? "a value", realmOf(options), limits);
}

export function decodeText(text: string, options: HostCodecOptions = {}): unknown {
  return decode(text, realmOf(options));
}

function realmOf(options: HostCodecOptions): Realm {
  const classes = (options.classes ?? new Map()) as Map<string, object>;
  return {
    kinds: [...(options.kinds ?? []), ...HOST_KINDS],
    registeredOf: (constructor) => registeredIn(classes, constructor),
    classOf: (classId) => classes.get(classId),
    keepsUnknown: true,
  };
}

const opaque: Kind = {
  tag: "",
  reduce: (value) => (value instanceof OpaqueValue ? reducedOf(value) : null),
  revive: (data) => data,
};

/** The fields that an opaque value came from, under its tag again. */
function reducedOf(value: OpaqueValue): Reduced {
  if (typeof value.data === "string") return { tag: value.tag, text: value.data };
  if (Array.isArray(value.data)) return { tag: value.tag, items: value.data };
  const fields = noFields();
  for (const [key, item] of Object.entries(value.data ?? {})) addField(fields, key, item);
  return { tag: value.tag, fields };
}

const domException: Kind = {
  tag: "DOMException",
  reduce(value) {
    if (!(value instanceof DOMException)) return null;
    const fields = addField(noFields(true), "name", value.name);
    addField(fields, "message", value.message);
    if (typeof value.stack === "string") addField(fields, "stack", value.stack);
    if ("cause" in value) addField(fields, "cause", value.cause);
    return { tag: "DOMException", fields };
  },
  revive(data) {
    const { name, message, stack } = data as Readonly<Record<string, unknown>>;
    const made = new DOMException(textOr(message, ""), textOr(name, "Error"));
    Object.defineProperty(made, "stack", { value: textOr(stack, ""), configurable: true });
    return made;
  },
};

const EMPTY = ".";

const url: Kind = {
  tag: "URL",
  reduce: (value) => (value instanceof URL ? { tag: "URL", text: value.href } : null),
  revive: (data) => new URL(textOr(data, "")),
};

const urlSearchParams: Kind = {
  tag: "URLSearchParams",
  reduce: (value) =>
    value instanceof URLSearchParams
      ? { tag: "URLSearchParams", text: value.toString() || EMPTY }
      : null,
  revive: (data) => new URLSearchParams(data === EMPTY ? "" : textOr(data, "")),
};

const headers: Kind = {
  tag: "Headers",
  reduce: (value) => (value instanceof Headers ? { tag: "Headers", items: [...value] } : null),
  revive: (data) => new Headers(data as [string, string][]),
};

const HOST_KINDS: readonly Kind[] = [opaque, domException, url, urlSearchParams, headers];

function textOr(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}
