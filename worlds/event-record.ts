/**
 * The canonical bytes of an event, and the running digest of a log.
 *
 * Owns how an event is laid down as bytes: a JSON header with sorted keys, then the payload fields
 * raw. The same event gives the same bytes in every World, so equal logs have equal digests. Knows
 * nothing of storage, and never looks inside a payload.
 *
 * W1  digest(n) = sha256(digest(n − 1) ‖ run id ‖ slot ‖ createdAt ‖ body), digest(0) = 32 zeros.
 */
import { createHash } from "node:crypto";
import { BatonError } from "../engine/errors.ts";
import type { EventType, NewEvent, RunEvent } from "../engine/events.ts";
import { EVENT_TYPES, PAYLOAD_FIELDS } from "../engine/events.ts";
import type { EntityId, RunId } from "../engine/ids.ts";
import type { Slot } from "../engine/slots.ts";
import { eventIdOf, slotOf } from "../engine/slots.ts";

/** The layout of a body; a later one gets another number. */
const BODY_VERSION = 1;
const DIGEST_BYTES = 32;
/** Per packed row: slot and createdAt as doubles, the digest, the length of the body. */
const ROW_HEAD_BYTES = 8 + 8 + DIGEST_BYTES + 4;

export const EMPTY_DIGEST: Uint8Array = new Uint8Array(DIGEST_BYTES);

/** An event as it is stored. */
export interface EventRow {
  readonly slot: Slot;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly digest: Uint8Array;
  readonly body: Uint8Array;
}

/** The data of an event without its payload fields. */
export type PlainData = Readonly<Record<string, unknown>>;

const KNOWN_TYPES: ReadonlySet<string> = new Set(EVENT_TYPES);
const utf8 = new TextEncoder();

export function plainDataOf(event: Pick<NewEvent, "eventType" | "eventData">): PlainData {
  const fields = PAYLOAD_FIELDS[event.eventType] ?? [];
  return Object.fromEntries(
    Object.entries(event.eventData).filter(
      ([name, value]) => !fields.includes(name) && value !== undefined,
    ),
  );
}

export function encodeBody(event: NewEvent): Uint8Array {
  const data = event.eventData as Readonly<Record<string, unknown>>;
  const fields: [string, Uint8Array][] = [];
  for (const name of PAYLOAD_FIELDS[event.eventType] ?? []) {
    const bytes = data[name];
    if (bytes instanceof Uint8Array) fields.push([name, bytes]);
  }
  const header = utf8.encode(
    canonicalJson([
      BODY_VERSION,
      event.eventType,
      event.correlationId,
      event.specVersion,
      plainDataOf(event),
      fields.map(([name, bytes]) => [name, bytes.length]),
    ]),
  );
  const body = Buffer.allocUnsafeSlow(
    4 + header.length + fields.reduce((sum, [, bytes]) => sum + bytes.length, 0),
  );
  body.writeUInt32BE(header.length, 0);
  body.set(header, 4);
  let at = 4 + header.length;
  for (const [, bytes] of fields) {
    body.set(bytes, at);
    at += bytes.length;
  }
  return body;
}

/** The event that a row holds. Payload fields are copies: no two events share memory. */
export function eventOf(runId: RunId, row: EventRow): RunEvent {
  const { eventType, correlationId, specVersion, eventData } = decodeBody(row.body);
  return {
    runId,
    slot: row.slot,
    eventId: eventIdOf(row.slot),
    eventType,
    eventData,
    correlationId,
    createdAt: row.createdAt,
    specVersion,
    digest: Buffer.from(row.digest).toString("hex"),
  } as RunEvent;
}

interface DecodedBody {
  readonly eventType: EventType;
  readonly correlationId: EntityId | null;
  readonly specVersion: number;
  readonly eventData: Readonly<Record<string, unknown>>;
}

export function decodeBody(bytes: Uint8Array): DecodedBody {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (body.length < 4) throw corrupted("a body has a header");
  const headerEnd = 4 + body.readUInt32BE(0);
  if (headerEnd > body.length) throw corrupted("a header ends inside its body");
  const header = parseHeader(body.toString("utf8", 4, headerEnd));
  const eventData: Record<string, unknown> = { ...header.plain };
  let at = headerEnd;
  for (const [name, length] of header.fields) {
    if (at + length > body.length) throw corrupted("a field ends inside its body");
    eventData[name] = new Uint8Array(body.subarray(at, at + length));
    at += length;
  }
  if (at !== body.length) throw corrupted("a body ends with its last field");
  return { ...header, eventData };
}

function parseHeader(text: string) {
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch (cause) {
    throw corrupted("a header is JSON", cause);
  }
  if (!Array.isArray(header) || header.length !== 6) throw corrupted("a header has six parts");
  const [version, eventType, correlationId, specVersion, plain, fields] = header as unknown[];
  if (version !== BODY_VERSION) throw corrupted("a body has a version that this build knows");
  if (typeof eventType !== "string" || !KNOWN_TYPES.has(eventType)) {
    throw corrupted("an event has a type that this build knows");
  }
  return {
    eventType: eventType as EventType,
    correlationId: correlationId as EntityId | null,
    specVersion: specVersion as number,
    plain: plain as PlainData,
    fields: fields as readonly (readonly [string, number])[],
  };
}

function corrupted(rule: string, cause?: unknown): BatonError {
  return new BatonError("CORRUPTED_EVENT_LOG", `a stored event is damaged: ${rule}`, {}, cause);
}

export function nextDigest(
  previous: Uint8Array,
  runId: RunId,
  row: Omit<EventRow, "digest">,
): Uint8Array {
  const place = Buffer.allocUnsafe(16);
  place.writeBigUInt64BE(BigInt(row.slot), 0);
  place.writeDoubleBE(row.createdAt, 8);
  return createHash("sha256")
    .update(previous)
    .update(runId)
    .update(place)
    .update(row.body)
    .digest();
}

/** Many rows in one buffer, so that a page crosses a thread border as one transfer. */
export function packRows(rows: readonly EventRow[]): Uint8Array {
  const size = rows.reduce((sum, row) => sum + ROW_HEAD_BYTES + row.body.length, 0);
  const packed = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const row of rows) {
    packed.writeDoubleBE(row.slot, at);
    packed.writeDoubleBE(row.createdAt, at + 8);
    packed.set(row.digest, at + 16);
    packed.writeUInt32BE(row.body.length, at + 16 + DIGEST_BYTES);
    packed.set(row.body, at + ROW_HEAD_BYTES);
    at += ROW_HEAD_BYTES + row.body.length;
  }
  return packed;
}

export function unpackRows(bytes: Uint8Array): EventRow[] {
  const packed = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const rows: EventRow[] = [];
  let at = 0;
  while (at < packed.length) {
    const bodyAt = at + ROW_HEAD_BYTES;
    const bodyEnd = bodyAt + packed.readUInt32BE(at + 16 + DIGEST_BYTES);
    rows.push({
      slot: slotOf(packed.readDoubleBE(at)),
      createdAt: packed.readDoubleBE(at + 8),
      digest: packed.subarray(at + 16, at + 16 + DIGEST_BYTES),
      body: packed.subarray(bodyAt, bodyEnd),
    });
    at = bodyEnd;
  }
  return rows;
}

/** JSON with sorted keys: one text per value. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`);
  return `{${entries.join(",")}}`;
}
