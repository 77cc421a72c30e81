/**
 * The kinds of values that every realm writes and reads alike: dates, maps, sets, bytes, regular
 * expressions, boxed primitives and errors. Names and data are the Workflow SDK's.
 */
import { base64Of, bytesOfBase64 } from "./base64.ts";
import { SerializationError, errorClassOf } from "./errors.ts";
import {
  BigIntOf,
  BufferConstructor,
  Bytes,
  DateConstructor,
  ErrorConstructor,
  MapConstructor,
  REGEXP_FLAGS,
  RegExpConstructor,
  SetConstructor,
  TYPED_ARRAYS,
  ViewConstructor,
  arrayBufferBytes,
  arrayJoin,
  charCodeAt,
  construct,
  createObject,
  dataViewBuffer,
  dataViewBytes,
  dataViewOffset,
  dateIso,
  dateValue,
  define,
  hasOwn,
  indexOf,
  isArray,
  isError,
  isFiniteNumber,
  isPrototypeOf,
  isView,
  keysOf,
  list,
  mapForEach,
  own,
  push,
  regExpFlag,
  regExpSource,
  setForEach,
  stringSlice,
  tagOf,
  typedArrayBuffer,
  typedArrayBytes,
  typedArrayOffset,
  typedArrayTag,
} from "./primordials.ts";
import { EMPTY_TEXT, addField, noFields } from "./realm.ts";
import type { Fields, Reduced } from "./realm.ts";

/** How many elements an error may name besides its causes. */
const ERROR_FIELDS_MAX = 64;
/** The name under which the host evaluates this library. */
const LIBRARY_FILE = "baton:guest";
const BIGINT_DIGITS_MAX = 100_000;

const ERROR_CONSTRUCTORS: readonly (readonly [string, ErrorConstructor])[] = [
  ["TypeError", TypeError],
  ["RangeError", RangeError],
  ["SyntaxError", SyntaxError],
  ["ReferenceError", ReferenceError],
  ["EvalError", EvalError],
  ["URIError", URIError],
  ["AggregateError", AggregateError as unknown as ErrorConstructor],
];
/** Library errors that have a tag of their own; all others are an `Error` with a name. */
const TAGGED_BY_NAME: readonly string[] = [
  "FatalError",
  "RetryableError",
  "HookConflictError",
  "StreamError",
  "RuntimeDecryptionError",
];
const ERROR_TAGS = errorTags();

function errorTags(): Record<string, ErrorConstructor | undefined> {
  const tags = createObject(null) as ReturnType<typeof errorTags>;
  tags["Error"] = ErrorConstructor;
  for (let i = 0; i < ERROR_CONSTRUCTORS.length; i++) {
    const entry = ERROR_CONSTRUCTORS[i]!;
    tags[entry[0]] = entry[1];
  }
  for (let i = 0; i < TAGGED_BY_NAME.length; i++) {
    tags[TAGGED_BY_NAME[i]!] = errorClassOf(TAGGED_BY_NAME[i]!) as unknown as ErrorConstructor;
  }
  return tags;
}

export function isErrorTag(tag: string): boolean {
  return ERROR_TAGS[tag] !== undefined;
}

/** Null: of no built-in kind. */
export function reduceBuiltIn(value: object): Reduced | null {
  if (typeof value === "function") return null;
  const brand = brandOf(value);
  if (isView(value) || brand === "ArrayBuffer") return reduceBytes(value);
  if (isError(value)) return reduceError(value);
  try {
    switch (brand) {
      case "Date": {
        const valid = isFiniteNumber(dateValue(value as Date));
        return { tag: "Date", text: valid ? dateIso(value as Date) : EMPTY_TEXT };
      }
      case "Map":
        return { tag: "Map", items: entriesOf(value as Map<unknown, unknown>) };
      case "Set": {
        const items = list<unknown>();
        setForEach(value as Set<unknown>, (item) => push(items, item));
        return { tag: "Set", items };
      }
      case "RegExp":
        return { tag: "RegExp", fields: regExpFields(value as RegExp) };
      default:
        return null;
    }
  } catch {
    // Its tag says one of these, its insides do not.
    return null;
  }
}

const BRANDS: readonly (readonly [string, object])[] = [
  ["Date", DateConstructor.prototype],
  ["Map", MapConstructor.prototype],
  ["Set", SetConstructor.prototype],
  ["RegExp", RegExpConstructor.prototype],
  ["ArrayBuffer", BufferConstructor.prototype],
];

/** What a value most likely is: by its prototype, or, for another realm's, by what it says. */
function brandOf(value: object): string {
  for (let i = 0; i < BRANDS.length; i++) {
    const brand = BRANDS[i]!;
    if (isPrototypeOf(brand[1], value)) return brand[0];
  }
  return stringSlice(tagOf(value), "[object ".length, -1);
}

function entriesOf(map: Map<unknown, unknown>): unknown[] {
  const entries = list<unknown>();
  mapForEach(map, (item, key) => push(entries, [key, item]));
  return entries;
}

function regExpFields(value: RegExp): Fields {
  let flags = "";
  for (let i = 0; i < REGEXP_FLAGS.length; i++) {
    const flag = REGEXP_FLAGS[i]!;
    if (regExpFlag(value, flag[0])) flags += flag[1];
  }
  const fields = addField(noFields(), "source", regExpSource(value));
  return addField(fields, "flags", flags);
}

/** A view is written as its own bytes alone, never the buffer around them. */
function reduceBytes(value: object): Reduced | null {
  if (!isView(value)) {
    try {
      const length = arrayBufferBytes(value as ArrayBuffer);
      return { tag: "ArrayBuffer", text: textOfBytes(new Bytes(value as ArrayBuffer), length) };
    } catch {
      return null;
    }
  }
  const tag = typedArrayTag(value);
  if (tag === undefined) {
    const view = value as DataView;
    const length = dataViewBytes(view);
    const bytes = new Bytes(dataViewBuffer(view), dataViewOffset(view), length);
    return { tag: "DataView", text: textOfBytes(bytes, length) };
  }
  const length = typedArrayBytes(value);
  const bytes = new Bytes(typedArrayBuffer(value), typedArrayOffset(value), length);
  return { tag, text: textOfBytes(bytes, length) };
}

function textOfBytes(bytes: Uint8Array, length: number): string {
  return length === 0 ? EMPTY_TEXT : base64Of(bytes, length);
}

function reduceError(error: Error): Reduced {
  const name = textOf(error, "name");
  const tag = errorTagOf(error, name);
  const fields = noFields(true);
  if (name !== tag) addField(fields, "name", name);
  addField(fields, "message", textOf(error, "message"));
  const stack = ownFrames(textOf(error, "stack"));
  if (stack !== "") addField(fields, "stack", stack);
  if (hasOwn(error, "cause")) addField(fields, "cause", valueOf(error, "cause"));
  if (tag === "AggregateError") addField(fields, "errors", valueOf(error, "errors"));
  if (tag === "RetryableError") addField(fields, "retryAfter", retryAfterMs(error));
  const more = moreOf(error);
  if (more !== null) addField(fields, "fields", more);
  return { tag, fields };
}

/** A stack without the frames of this library, which mean nothing to whoever reads it. */
function ownFrames(stack: string): string {
  if (indexOf(stack, LIBRARY_FILE) < 0) return stack;
  const lines = list<string>();
  for (let from = 0; from < stack.length;) {
    const end = indexOf(stack, "\n", from);
    const to = end < 0 ? stack.length : end;
    const line = stringSlice(stack, from, to);
    if (indexOf(line, LIBRARY_FILE) < 0) push(lines, line);
    from = to + 1;
  }
  return arrayJoin(lines, "\n");
}

function errorTagOf(error: Error, name: string): string {
  for (let i = 0; i < TAGGED_BY_NAME.length; i++) {
    if (TAGGED_BY_NAME[i] === name) return name;
  }
  for (let i = 0; i < ERROR_CONSTRUCTORS.length; i++) {
    const entry = ERROR_CONSTRUCTORS[i]!;
    if (isPrototypeOf(entry[1].prototype, error)) return entry[0];
  }
  return "Error";
}

function retryAfterMs(error: Error): unknown {
  const at = valueOf(error, "retryAfter");
  try {
    return dateValue(at as Date);
  } catch {
    return at;
  }
}

/** The fields that a class of the tenant declares on its errors. */
function moreOf(error: Error): Record<string, unknown> | null {
  const keys = keysOf(error);
  const more = {};
  let count = 0;
  for (let i = 0; i < keys.length && count < ERROR_FIELDS_MAX; i++) {
    const key = keys[i]!;
    if (isStandardField(key)) continue;
    define(more, key, valueOf(error, key));
    count += 1;
  }
  return count === 0 ? null : more;
}

function isStandardField(key: string): boolean {
  return (
    key === "name" ||
    key === "message" ||
    key === "stack" ||
    key === "cause" ||
    key === "errors" ||
    key === "retryAfter" ||
    key === "__proto__"
  );
}

/** A property of an error, whatever its getter does. */
function valueOf(error: Error, key: string): unknown {
  try {
    return (error as unknown as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

function textOf(error: Error, key: string): string {
  const value = valueOf(error, key);
  return typeof value === "string" ? value : "";
}

/** A kind that is made from one text; undefined: `tag` is none of these. */
export function reviveText(tag: string, text: string): unknown {
  switch (tag) {
    case "Date":
      return new DateConstructor(text === EMPTY_TEXT ? NaN : text);
    case "BigInt":
      return BigIntOf(digitsOf(text));
    case "ArrayBuffer":
      return typedArrayBuffer(bytesOf(text));
    case "DataView":
      return new ViewConstructor(typedArrayBuffer(bytesOf(text)));
    default: {
      const TypedArray = TYPED_ARRAYS[tag];
      return TypedArray === undefined ? undefined : new TypedArray(typedArrayBuffer(bytesOf(text)));
    }
  }
}

function digitsOf(text: string): string {
  let valid = text.length > 0 && text.length <= BIGINT_DIGITS_MAX;
  for (let i = 0; i < text.length && valid; i++) {
    const code = charCodeAt(text, i);
    const isSign = i === 0 && code === 45 && text.length > 1;
    valid = isSign || (code >= 48 && code <= 57);
  }
  if (!valid) throw new SerializationError("a BigInt in a payload is no whole number");
  return text;
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = text === EMPTY_TEXT ? new Bytes(0) : bytesOfBase64(text);
  if (bytes === null) throw new SerializationError("bytes in a payload are not base64");
  return bytes;
}

export function isTextTag(tag: string): boolean {
  return (
    tag === "Date" ||
    tag === "BigInt" ||
    tag === "ArrayBuffer" ||
    tag === "DataView" ||
    TYPED_ARRAYS[tag] !== undefined
  );
}

export function reviveRegExp(source: unknown, flags: unknown): RegExp {
  if (typeof source !== "string" || (flags !== undefined && typeof flags !== "string")) {
    throw new SerializationError("a RegExp in a payload has no source");
  }
  return new RegExpConstructor(source, flags);
}

/** An error of the right class whose fields are not there yet. */
export function allocateError(tag: string, name: unknown): Error {
  const named = tag === "Error" && typeof name === "string" ? errorClassOf(name) : undefined;
  const constructor = named ?? ERROR_TAGS[tag] ?? ErrorConstructor;
  return construct<never[], Error>(ErrorConstructor as never, [], constructor);
}

/** Fills an error from the fields that were written of it. */
export function fillError(error: Error, tag: string, data: object): void {
  const name = own(data, "name");
  const message = own(data, "message");
  if (typeof name === "string") define(error, "name", name, false);
  else if (error.name !== tag) define(error, "name", tag, false);
  define(error, "message", typeof message === "string" ? message : "", false);
  const stack = own(data, "stack");
  define(error, "stack", typeof stack === "string" ? stack : "", false);
  if (hasOwn(data, "cause")) define(error, "cause", own(data, "cause"), false);
  if (hasOwn(data, "errors")) define(error, "errors", own(data, "errors"), false);
  const retryAfter = own(data, "retryAfter");
  if (typeof retryAfter === "number") {
    define(error, "retryAfter", new DateConstructor(retryAfter));
  }
  const more = own(data, "fields");
  if (typeof more !== "object" || more === null || isArray(more)) return;
  const keys = keysOf(more);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (!isStandardField(key)) define(error, key, own(more, key));
  }
}
