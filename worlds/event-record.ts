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
const DIGEST_AT = 8 + 8;
const LENGTH_AT = DIGEST_AT + DIGEST_BYTES;
/** Per packed row: slot and createdAt as doubles, the digest, the length of the body. */
const ROW_HEAD_BYTES = LENGTH_AT + 4;

export const EMPTY_DIGEST: Uint8Array = new Uint8Array(DIGEST_BYTES);

/** An event that has its place. */
export interface EventRow {
  readonly slot: Slot;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly digest: Uint8Array;
  readonly body: Uint8Array;
}

/**
 * An event as it is stored and as it crosses threads: one row's bytes, or many rows' end to end.
 * A page of a log is so one concatenation for its writer and one walk for its reader.
 */
export type PackedRows = Uint8Array;

/** The data of an event without its payload fields. */
export type PlainData = Readonly<Record<string, unknown>>;

const KNOWN_TYPES: ReadonlySet<string> = new Set(EVENT_TYPES);
const utf8 = new TextEncoder();

export function plainDataOf(event: Pick<NewEvent, "eventType" | "eventData">): PlainData {
  const fields = PAYLOAD_FIELDS[event.eventType] ?? [];
  const plain: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(event.eventData)) {
    if (value !== undefined && !fields.includes(name)) plain[name] = value;
  }
  return plain;
}

/** `plain` is `plainDataOf(event)`, which the caller has anyway. */
export function encodeBody(event: NewEvent, plain: PlainData): Uint8Array {
  const data = event.eventData as Readonly<Record<string, unknown>>;
  const payloads: Uint8Array[] = [];
  const lengths: [string, number][] = [];
  for (const name of PAYLOAD_FIELDS[event.eventType] ?? []) {
    const bytes = data[name];
    if (!(bytes instanceof Uint8Array)) continue;
    payloads.push(bytes);
    lengths.push([name, bytes.length]);
  }
  const { eventType, correlationId, specVersion } = event;
  const header = utf8.encode(
    canonicalJson([BODY_VERSION, eventType, correlationId, specVersion, plain, lengths]),
  );
  const payloadBytes = payloads.reduce((sum, bytes) => sum + bytes.length, 0);
  // Of its own buffer: what crosses a thread border takes its whole buffer along.
  const body = Buffer.allocUnsafeSlow(4 + header.length + payloadBytes);
  body.writeUInt32BE(header.length, 0);
  body.set(header, 4);
  let at = 4 + header.length;
  for (const bytes of payloads) {
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
    digest: hexOf(row.digest),
  } as RunEvent;
}

export function hexOf(digest: Uint8Array): string {
  return bufferOver(digest).toString("hex");
}

interface DecodedBody {
  readonly eventType: EventType;
  readonly correlationId: EntityId | null;
  readonly specVersion: number;
  readonly eventData: Readonly<Record<string, unknown>>;
}

export function decodeBody(bytes: Uint8Array): DecodedBody {
  const body = bufferOver(bytes);
  if (body.length < 4) throw corrupted("a body has a header");
  const headerEnd = 4 + body.readUInt32BE(0);
  if (headerEnd > body.length) throw corrupted("a header ends inside its body");
  const header = parseHeader(body.toString("utf8", 4, headerEnd));
  const [, eventType, correlationId, specVersion, eventData, fields] = header;
  let at = headerEnd;
  for (const [name, length] of fields) {
    if (at + length > body.length) throw corrupted("a field ends inside its body");
    const payload = new Uint8Array(length);
    body.copy(payload, 0, at, at + length);
    eventData[name] = payload;
    at += length;
  }
  if (at !== body.length) throw corrupted("a body ends with its last field");
  return { eventType, correlationId, specVersion, eventData };
}

/** Version, type, entity, spec version, plain data, names and lengths of the payload fields. */
type Header = [
  number,
  EventType,
  EntityId | null,
  number,
  Record<string, unknown>,
  [string, number][],
];

function parseHeader(text: string): Header {
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch (cause) {
    throw corrupted("a header is JSON", cause);
  }
  if (!Array.isArray(header) || header.length !== 6) throw corrupted("a header has six parts");
  const [version, eventType] = header as unknown[];
  if (version !== BODY_VERSION) throw corrupted("a body has a version that this build knows");
  if (typeof eventType !== "string" || !KNOWN_TYPES.has(eventType)) {
    throw corrupted("an event has a type that this build knows");
  }
  return header as Header;
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

export function packRow({ slot, createdAt, digest, body }: EventRow): PackedRows {
  const packed = Buffer.allocUnsafeSlow(ROW_HEAD_BYTES + body.length);
  packed.writeDoubleBE(slot, 0);
  packed.writeDoubleBE(createdAt, 8);
  packed.set(digest, DIGEST_AT);
  packed.writeUInt32BE(body.length, LENGTH_AT);
  packed.set(body, ROW_HEAD_BYTES);
  return packed;
}

export function joinRows(rows: readonly PackedRows[]): PackedRows {
  const joined = Buffer.allocUnsafeSlow(rows.reduce((sum, row) => sum + row.length, 0));
  let at = 0;
  for (const row of rows) {
    joined.set(row, at);
    at += row.length;
  }
  return joined;
}

/** The rows, as views on the packed bytes. */
export function unpackRows(bytes: PackedRows): EventRow[] {
  const packed = bufferOver(bytes);
  const rows: EventRow[] = [];
  let at = 0;
  while (at < packed.length) {
    if (at + ROW_HEAD_BYTES > packed.length) throw corrupted("a row has a head");
    const bodyAt = at + ROW_HEAD_BYTES;
    const bodyEnd = bodyAt + packed.readUInt32BE(at + LENGTH_AT);
    if (bodyEnd > packed.length) throw corrupted("a row ends inside its page");
    rows.push({
      slot: slotOf(packed.readDoubleBE(at)),
      createdAt: packed.readDoubleBE(at + 8),
      digest: packed.subarray(at + DIGEST_AT, at + LENGTH_AT),
      body: packed.subarray(bodyAt, bodyEnd),
    });
    at = bodyEnd;
  }
  return rows;
}

/** The slot of the first row of packed bytes, without a look at the rest. */
export function slotOfRow(bytes: PackedRows): Slot {
  return slotOf(bufferOver(bytes).readDoubleBE(0));
}

/** The only row of packed bytes. */
export function rowOf(bytes: PackedRows): EventRow {
  const [row] = unpackRows(bytes);
  if (row === undefined) throw corrupted("a row is there");
  return row;
}

function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** JSON with sorted keys: one text per value. */
function canonicalJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const items = value as Readonly<Record<string, unknown>>;
  let text = "";
  for (const key of Object.keys(items).sort()) {
    const item = items[key];
    if (item === undefined) continue;
    text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(item)}`;
  }
  return `{${text}}`;
}
