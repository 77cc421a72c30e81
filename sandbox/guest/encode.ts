/**
 * Values to devalue text.
 *
 * The text is a JSON array: element 0 is the value, and wherever a value has parts, their indexes
 * stand for them. The encoder walks breadth first over one list, so neither deep nor cyclic nor
 * widely shared values need a stack, and it stops at a budget of bytes.
 *
 * Getters and Proxies of the value run while it is read. They run as code of the caller, inside its
 * own call, and what they throw becomes the cause of a `SerializationError`.
 */
import { SerializationError } from "./errors.ts";
import {
  ErrorConstructor,
  MapConstructor,
  ObjectPrototype,
  StringOf,
  arrayJoin,
  charCodeAt,
  getPrototypeOf,
  hasOwn,
  isArray,
  isEnumerable,
  isError,
  isPrototypeOf,
  jsonOf,
  keysOf,
  list,
  mapGet,
  mapSet,
  push,
  stringSlice,
  symbolsOf,
  tagOf,
} from "./primordials.ts";
import {
  HOLE,
  NAN,
  NEGATIVE_INFINITY,
  NEGATIVE_ZERO,
  POSITIVE_INFINITY,
  SPARSE,
  UNDEFINED,
} from "./realm.ts";
import type { Fields, Realm, Reduced } from "./realm.ts";
import { reduceBuiltIn } from "./kinds.ts";
import { reduceRegistered } from "./classes.ts";
import { utf8Bytes } from "./utf8.ts";

export interface EncodeLimits {
  /** UTF-8 bytes of the whole payload, its prefix included. */
  readonly bytesMax: number;
}

/** Nesting beyond it is a mistake, such as a linked list: nothing that prints values could. */
export const DEPTH_MAX = 1000;
const PREFIX_BYTES = 4;

/** Marks the failure that no lenient field may swallow. */
class TooLarge extends ErrorConstructor {}

/** The devalue text of `value`; `what` names it in the `SerializationError` that this throws. */
export function encode(value: unknown, what: string, realm: Realm, limits: EncodeLimits): string {
  return new Encoder(what, realm, limits).encode(value);
}

class Encoder {
  private readonly what: string;
  private readonly realm: Realm;
  private readonly bytesMax: number;
  private readonly seen = new MapConstructor<unknown, number>();
  private readonly values = list<unknown>();
  /** Set where an element is not a value but the data of a tagged one. */
  private readonly forms = list<Fields | unknown[] | null>();
  private readonly parents = list<number>();
  private readonly keys = list<string>();
  private readonly depths = list<number>();
  private readonly lenient = list<boolean>();
  /** Brackets and commas included: n elements have n - 1 commas. */
  private charsUsed = PREFIX_BYTES + 1;

  constructor(what: string, realm: Realm, limits: EncodeLimits) {
    this.what = what;
    this.realm = realm;
    this.bytesMax = limits.bytesMax;
  }

  encode(value: unknown): string {
    if (typeof value === "string" && value.length > this.bytesMax) throw this.tooLarge();
    const root = this.indexOf(value, -1, "", false);
    if (root < 0) return StringOf(root);
    const table = list<string>();
    for (let at = 0; at < this.values.length; at++) {
      const text = this.textOrFailure(at);
      this.charsUsed += text.length + 1;
      this.checkBudget();
      push(table, text);
    }
    const text = `[${arrayJoin(table, ",")}]`;
    this.checkBytes(text);
    return text;
  }

  /** The index that stands for a value, or its sentinel; a value met for the first time is queued. */
  private indexOf(value: unknown, parent: number, key: string, lenient: boolean): number {
    if (value === undefined) return UNDEFINED;
    if (typeof value === "number") {
      if (value !== value) return NAN;
      if (value === Infinity) return POSITIVE_INFINITY;
      if (value === -Infinity) return NEGATIVE_INFINITY;
      if (value === 0 && 1 / value < 0) return NEGATIVE_ZERO;
    }
    // Before it is looked up: the engine hashes the whole text for each place it stands in.
    if (typeof value === "string" && value.length > this.bytesMax) throw new TooLarge();
    const known = mapGet(this.seen, value);
    if (known !== undefined) return known;
    const index = this.add(value, null, parent, key, lenient);
    mapSet(this.seen, value, index);
    return index;
  }

  private add(
    value: unknown,
    form: Fields | unknown[] | null,
    parent: number,
    key: string,
    lenient: boolean,
  ): number {
    const index = this.values.length;
    const depth = parent < 0 ? 0 : this.depths[parent]! + 1;
    push(this.values, value);
    push(this.forms, form);
    push(this.parents, parent);
    push(this.keys, key);
    push(this.depths, depth);
    push(this.lenient, lenient);
    if (depth > DEPTH_MAX) throw this.failure(index, `is nested deeper than ${DEPTH_MAX} levels`);
    return index;
  }

  private textOrFailure(at: number): string {
    try {
      return this.textAt(at);
    } catch (error) {
      if (isError(error) && isPrototypeOf(TooLarge.prototype, error)) throw this.tooLarge();
      if (this.lenient[at]) return jsonOf("[a value that cannot be serialized]");
      if (SerializationError.is(error)) throw error;
      throw this.failure(at, "could not be read", error);
    }
  }

  private textAt(at: number): string {
    const form = this.forms[at]!;
    if (form !== null) return isArray(form) ? this.itemsText(form, at) : this.fieldsText(form, at);
    const value = this.values[at];
    switch (typeof value) {
      case "string":
        this.reserve(value.length);
        return jsonOf(value);
      case "number":
      case "boolean":
        return jsonOf(value);
      case "bigint":
        return this.taggedText({ tag: "BigInt", text: StringOf(value) }, at);
      case "object":
      case "function":
        return value === null ? "null" : this.objectText(value, at);
      default:
        throw this.failure(at, "is a symbol");
    }
  }

  private objectText(value: object, at: number): string {
    if (isArray(value)) return this.arrayText(value, at);
    const prototype = typeof value === "function" ? undefined : getPrototypeOf(value);
    if (prototype === ObjectPrototype) return this.plainText(value, at, false);
    if (prototype === null) return this.plainText(value, at, true);
    const reduced =
      reduceRegistered(value, this.realm) ?? this.reduceByKind(value) ?? reduceBuiltIn(value);
    if (reduced !== null) return this.taggedText(reduced, at);
    if (prototype !== undefined && isForeignPlain(value, prototype)) {
      return this.plainText(value, at, false);
    }
    throw this.failure(at, whyNot(value));
  }

  private reduceByKind(value: object): Reduced | null {
    const kinds = this.realm.kinds;
    for (let i = 0; i < kinds.length; i++) {
      const reduced = kinds[i]!.reduce(value);
      if (reduced !== null) return reduced;
    }
    return null;
  }

  private taggedText(reduced: Reduced, at: number): string {
    const lenient = this.lenient[at]!;
    let data: number;
    // Not `in`: a tenant may have put the name on Object.prototype.
    if (isText(reduced)) {
      this.reserve(reduced.text.length);
      data = this.indexOf(reduced.text, at, "", lenient);
    } else {
      data = this.add(null, isItems(reduced) ? reduced.items : reduced.fields, at, "", lenient);
    }
    return `[${jsonOf(reduced.tag)},${data}]`;
  }

  private itemsText(items: unknown[], at: number): string {
    let text = "[";
    for (let i = 0; i < items.length; i++) {
      if (i > 0) text += ",";
      text += this.indexOf(items[i], at, `[${i}]`, this.lenient[at]!);
      this.reserve(text.length);
    }
    return `${text}]`;
  }

  private fieldsText(fields: Fields, at: number): string {
    let text = "{";
    for (let i = 0; i < fields.keys.length; i++) {
      const key = fields.keys[i]!;
      if (i > 0) text += ",";
      const lenient = this.lenient[at]! || fields.lenient;
      text += `${jsonOf(key)}:${this.indexOf(fields.values[i], at, keyText(key), lenient)}`;
    }
    return `${text}}`;
  }

  private arrayText(array: readonly unknown[], at: number): string {
    const length = array.length;
    let text = "[";
    for (let i = 0; i < length; i++) {
      if (!hasOwn(array, i)) return this.sparseText(array, length, at);
      if (i > 0) text += ",";
      text += this.indexOf(array[i], at, `[${i}]`, this.lenient[at]!);
      this.reserve(text.length);
    }
    return `${text}]`;
  }

  /** An array with holes, by its own keys: its length costs nothing. */
  private sparseText(array: readonly unknown[], length: number, at: number): string {
    const keys = keysOf(array);
    let count = 0;
    while (count < keys.length && isIndex(keys[count]!, length)) count += 1;
    const holesAreCheaper = (length - count) * 3 <= 4 + count * (StringOf(length).length + 1);
    let text = holesAreCheaper ? "[" : `[${SPARSE},${length}`;
    if (holesAreCheaper) {
      for (let i = 0; i < length; i++) {
        if (i > 0) text += ",";
        text += hasOwn(array, i) ? this.indexOf(array[i], at, `[${i}]`, this.lenient[at]!) : HOLE;
        this.reserve(text.length);
      }
    } else {
      for (let i = 0; i < count; i++) {
        const key = keys[i]!;
        const value = (array as unknown as Record<string, unknown>)[key];
        text += `,${key},${this.indexOf(value, at, `[${key}]`, this.lenient[at]!)}`;
        this.reserve(text.length);
      }
    }
    return `${text}]`;
  }

  private plainText(value: object, at: number, hasNoPrototype: boolean): string {
    const keys = keysOf(value);
    const symbols = symbolsOf(value);
    for (let i = 0; i < symbols.length; i++) {
      if (isEnumerable(value, symbols[i]!)) throw this.failure(at, "has a symbol as a key");
    }
    let text = hasNoPrototype ? '["null"' : "{";
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!;
      if (key === "__proto__") throw this.failure(at, "has a key `__proto__`");
      const item = (value as Record<string, unknown>)[key];
      const index = this.indexOf(item, at, keyText(key), this.lenient[at]!);
      if (hasNoPrototype) text += `,${jsonOf(key)},${index}`;
      else text += `${i > 0 ? "," : ""}${jsonOf(key)}:${index}`;
      this.reserve(text.length);
    }
    return hasNoPrototype ? `${text}]` : `${text}}`;
  }

  /** Stops before a text of this many characters is added to what is used already. */
  private reserve(chars: number): void {
    if (this.charsUsed + chars > this.bytesMax) throw new TooLarge();
  }

  private checkBudget(): void {
    if (this.charsUsed > this.bytesMax) throw this.tooLarge();
  }

  private checkBytes(text: string): void {
    if (text.length * 3 + PREFIX_BYTES <= this.bytesMax) return;
    if (utf8Bytes(text) + PREFIX_BYTES > this.bytesMax) throw this.tooLarge();
  }

  private tooLarge(): Error {
    return new SerializationError(
      `Failed to serialize ${this.what}: it is larger than the ${this.bytesMax} bytes that one ` +
        "payload may have",
      { code: "PAYLOAD_LIMIT_EXCEEDED", limit: "payloadBytesMax", allowed: this.bytesMax },
    );
  }

  private failure(at: number, problem: string, cause?: unknown): Error {
    let path = "";
    for (let i = at; i > 0; i = this.parents[i]!) path = this.keys[i]! + path;
    const shown = path.length > 200 ? `…${stringSlice(path, path.length - 200)}` : path;
    const place = shown === "" ? "the value" : `the value at ${shown}`;
    const message = `Failed to serialize ${this.what}: ${place} ${problem}`;
    return cause === undefined
      ? new SerializationError(message)
      : new SerializationError(message, { cause });
  }
}

function isText(reduced: Reduced): reduced is Extract<Reduced, { text: string }> {
  return hasOwn(reduced, "text");
}

function isItems(reduced: Reduced): reduced is Extract<Reduced, { items: unknown[] }> {
  return hasOwn(reduced, "items");
}

function keyText(key: string): string {
  return `.${key.length > 60 ? stringSlice(key, 0, 60) : key}`;
}

function isIndex(key: string, length: number): boolean {
  const code = charCodeAt(key, 0);
  return code >= 48 && code <= 57 && +key < length;
}

/** A plain object of another realm, whose `Object.prototype` is not ours. */
function isForeignPlain(value: object, prototype: object): boolean {
  return (
    getPrototypeOf(prototype) === null &&
    hasOwn(prototype, "isPrototypeOf") &&
    tagOf(value) === "[object Object]"
  );
}

function whyNot(value: object): string {
  if (typeof value === "function") {
    return "is a function; pass a step function, a workflow function or data";
  }
  if (typeof (value as { then?: unknown }).then === "function") {
    return "is a promise; await it first";
  }
  if (isError(value)) return "is an error that cannot be read";
  return (
    "is an instance of a class without serialization methods; give the class static methods " +
    'under Symbol.for("workflow-serialize") and Symbol.for("workflow-deserialize"), or pass data'
  );
}
