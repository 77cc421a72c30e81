/**
 * The border of every World: what callers pass in is checked here, once, before anything is stored.
 *
 * Owns the forms and the hard limits. A tenant's own quotas are the tenants' part; these limits
 * hold for everyone, so that no World ever has to store what another could not.
 *
 * W16  What is refused here has written nothing, and says which field, what was found and what
 *      would have been allowed.
 */
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import type { NewEvent } from "../engine/events.ts";
import {
  BATCHABLE_TYPES,
  ENTITY_EVENT_TYPES,
  PAYLOAD_FIELDS,
  parseNewEvent,
} from "../engine/events.ts";
import { entityKindOf } from "../engine/ids.ts";
import type { CreateParams, PageParams } from "../engine/ports/world.ts";
import type { Fence } from "./append.ts";

/** Payload bytes of one event; larger values are blobs. Half of what NATS takes in a message. */
export const EVENT_PAYLOAD_BYTES_MAX = 512 * 1024;
/** The rest of an event: names, attributes, reasons. */
export const EVENT_PLAIN_BYTES_MAX = 256 * 1024;
export const BATCH_EVENTS_MAX = 64;
/** Over the payloads of a batch, with `BATCH_EVENT_ALLOWANCE_BYTES` for each event. */
export const BATCH_BYTES_MAX = 512 * 1024;
export const BATCH_EVENT_ALLOWANCE_BYTES = 1024;
export const LIST_EVENTS_MAX = 1_000;
export const PAGE_MAX = 1_000;
const PAGE_DEFAULT = 100;
const CURSOR_CHARS_MAX = 1_024;
export const NAME_CHARS_MAX = 256;
export const BLOB_BYTES_MAX = 64 * 1024 * 1024;
export const SNAPSHOT_BYTES_MAX = 256 * 1024 * 1024;
export const STREAM_CHUNK_BYTES_MAX = 1024 * 1024;
export const STREAM_CHUNKS_PER_WRITE_MAX = 1_000;
export const BUNDLE_BYTES_MAX = 32 * 1024 * 1024;
export const TENANT_BODY_CHARS_MAX = 1024 * 1024;

const count = z.number().int().min(0);
const createParams = z.strictObject({
  inBand: z.boolean().optional(),
  expectedSeqInBand: count.optional(),
  eventCount: count.optional(),
  resumeId: z.string().min(1).max(128).optional(),
  send: z.unknown().optional(),
});

/** An event on its way in. */
export function checkedEvent(value: unknown): NewEvent {
  const event = refusing("event", () => parseNewEvent(value));
  checkEntity(event);
  const payloadBytes = payloadBytesOf(event);
  if (payloadBytes > EVENT_PAYLOAD_BYTES_MAX) {
    throw new BatonError("PAYLOAD_LIMIT_EXCEEDED", "the payloads of an event are bounded", {
      field: "payloadBytes",
      used: payloadBytes,
      allowed: EVENT_PAYLOAD_BYTES_MAX,
    });
  }
  return event;
}

/** What remains of an event besides its payloads is bounded as well. */
export function checkPlainBytes(bodyBytes: number, event: NewEvent): void {
  const used = bodyBytes - payloadBytesOf(event);
  if (used <= EVENT_PLAIN_BYTES_MAX) return;
  throw new BatonError("INVALID_ARGUMENT", "the plain data of an event is bounded", {
    field: "eventBytes",
    used,
    allowed: EVENT_PLAIN_BYTES_MAX,
  });
}

export function checkedBatch(values: readonly unknown[]): NewEvent[] {
  if (!Array.isArray(values) || values.length === 0 || values.length > BATCH_EVENTS_MAX) {
    throw new BatonError("BATCH_REFUSED", "a batch has a bounded number of events", {
      field: "events",
      used: Array.isArray(values) ? values.length : typeof values,
      allowed: BATCH_EVENTS_MAX,
    });
  }
  const events = values.map(checkedEvent);
  const other = events.find((event) => !BATCHABLE_TYPES.has(event.eventType));
  if (other !== undefined) {
    throw new BatonError("BATCH_REFUSED", "a batch takes only step and wait events", {
      field: "eventType",
      used: other.eventType,
    });
  }
  const bytes = events.reduce(
    (sum, event) => sum + payloadBytesOf(event) + BATCH_EVENT_ALLOWANCE_BYTES,
    0,
  );
  // A single event over the budget goes out alone; its own limit bounds it.
  if (events.length > 1 && bytes > BATCH_BYTES_MAX) {
    throw new BatonError("BATCH_REFUSED", "the bytes of a batch are bounded", {
      field: "batchBytes",
      used: bytes,
      allowed: BATCH_BYTES_MAX,
    });
  }
  return events;
}

export function checkedParams(params: CreateParams | undefined): {
  fence: Fence;
  resumeId: string | null;
} {
  const parsed = refusing("params", () => createParams.parse(params ?? {}));
  return {
    fence: {
      inBand: parsed.inBand ?? false,
      expectedSeqInBand: parsed.expectedSeqInBand ?? null,
      eventCount: parsed.eventCount ?? null,
    },
    resumeId: parsed.resumeId ?? null,
  };
}

/**
 * A name that others chose: of a stream, a blob, an alias. Anything printable goes, since every
 * World encodes it; what cannot be written as UTF-8 and read back does not.
 */
export function checkedName(field: string, value: unknown): string {
  const isSound =
    typeof value === "string" &&
    value.length >= 1 &&
    value.length <= NAME_CHARS_MAX &&
    !/[\p{Cc}\p{Surrogate}]/u.test(value);
  if (isSound) return value;
  throw invalid(
    field,
    typeof value === "string" ? `${value.length} characters` : typeof value,
    `1 to ${NAME_CHARS_MAX} characters, well-formed, without control characters`,
  );
}

export function checkedBytes(field: string, value: unknown, bytesMax: number): Uint8Array {
  if (!(value instanceof Uint8Array)) throw invalid(field, typeof value, "bytes");
  if (value.length <= bytesMax) return owned(value);
  throw new BatonError("PAYLOAD_LIMIT_EXCEEDED", `${field} is bounded`, {
    field,
    used: value.length,
    allowed: bytesMax,
  });
}

/** A view on a larger buffer would take the whole buffer with it across a thread border. */
export function owned(value: Uint8Array): Uint8Array {
  return value.byteLength === value.buffer.byteLength ? value : new Uint8Array(value);
}

export function checkedText(field: string, value: unknown, charsMax: number): string {
  if (typeof value !== "string") throw invalid(field, typeof value, "text");
  if (value.length <= charsMax) return value;
  throw new BatonError("PAYLOAD_LIMIT_EXCEEDED", `${field} is bounded`, {
    field,
    used: value.length,
    allowed: charsMax,
  });
}

export function checkedInteger(field: string, value: unknown, min: number, max: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) {
    return value;
  }
  throw invalid(field, typeof value === "number" ? value : typeof value, `${min} to ${max}`);
}

export function checkedLimit(params: PageParams | undefined): number {
  return checkedInteger("limit", params?.limit ?? PAGE_DEFAULT, 1, PAGE_MAX);
}

export function checkedHash(field: string, value: unknown): string {
  if (typeof value === "string" && /^[0-9a-f]{64}$/.test(value)) return value;
  throw invalid(field, typeof value, "64 lower-case hexadecimal digits");
}

/** A cursor is opaque to callers; here it is JSON, checked like any input. */
export function cursorOf(position: unknown): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

export function positionFrom<T>(cursor: string | undefined, form: z.ZodType<T>): T | null {
  if (cursor === undefined) return null;
  return refusing("cursor", () => {
    const isSound = typeof cursor === "string" && cursor.length <= CURSOR_CHARS_MAX;
    if (!isSound) throw invalid("cursor", typeof cursor, "a cursor of the page before");
    return form.parse(JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")));
  });
}

export function payloadBytesOf(event: NewEvent): number {
  const data = event.eventData as Readonly<Record<string, unknown>>;
  let bytes = 0;
  for (const name of PAYLOAD_FIELDS[event.eventType] ?? []) {
    const field = data[name];
    if (field instanceof Uint8Array) bytes += field.length;
  }
  return bytes;
}

/** Turns what a parser throws into our error; ours pass. */
export function refusing<T>(field: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof BatonError) throw error;
    const issue = error instanceof z.ZodError ? error.issues[0] : undefined;
    const path = [field, ...(issue?.path ?? [])].join(".");
    const message = issue?.message ?? "it is not of the expected form";
    throw new BatonError("INVALID_ARGUMENT", `${path}: ${message}`, { field: path }, error);
  }
}

/** An event belongs to an entity of its own kind. */
function checkEntity({ eventType, correlationId }: NewEvent): void {
  if (correlationId === null) return;
  const kind = ENTITY_EVENT_TYPES.has(eventType) ? eventType.split("_")[0] : "attr";
  const found = entityKindOf(correlationId);
  if (found === kind) return;
  throw invalid("correlationId", found, `an id of a ${kind} for ${eventType}`);
}

/** Part of the contract, but not offered here. */
export function unfinished(method: string): BatonError {
  return new BatonError("UNFINISHED", `this World does not offer ${method}`, { field: method });
}

export function invalid(field: string, used: string | number, allowed: string): BatonError {
  return new BatonError("INVALID_ARGUMENT", `${field} must be ${allowed}`, {
    field,
    used,
    allowed,
  });
}
