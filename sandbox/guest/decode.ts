/**
 * Devalue text to values.
 *
 * The text is hostile until read: indexes must lie in the table, tags must be known, and nothing is
 * defined through an inherited setter. The walk keeps its own stack, so no text can overflow the
 * engine's. Containers and errors exist before their parts do, so cycles through them come back;
 * what a class or another kind makes of its data needs the data first, so a cycle through those is
 * refused.
 */
import { reviveClass, reviveInstance } from "./classes.ts";
import { SerializationError } from "./errors.ts";
import {
  ArrayPrototype,
  Bytes,
  MapConstructor,
  SetConstructor,
  createObject,
  define,
  isArray,
  isInteger,
  jsonParse,
  keysOf,
  list,
  mapSet,
  own,
  push,
  setAdd,
  setPrototypeOf,
} from "./primordials.ts";
import {
  allocateError,
  fillError,
  isErrorTag,
  isTextTag,
  reviveRegExp,
  reviveText,
} from "./kinds.ts";
import {
  CARRIED_TAGS,
  HOLE,
  NAN,
  NEGATIVE_INFINITY,
  NEGATIVE_ZERO,
  OpaqueValue,
  POSITIVE_INFINITY,
  SPARSE,
  UNDEFINED,
} from "./realm.ts";
import type { Kind, Realm } from "./realm.ts";

const ARRAY_LENGTH_MAX = 0xffffffff;

const UNVISITED = 0;
/** Being filled: it may be referred to only if it was allocated first. */
const ENTERED = 1;
const DONE = 2;

/** The value of devalue text. Throws `SerializationError`, or what a class's own method throws. */
export function decode(text: string, realm: Realm): unknown {
  let table: unknown;
  try {
    table = jsonParse(text);
  } catch {
    throw invalid("is no JSON");
  }
  if (typeof table === "number") return sentinel(table);
  if (!isArray(table) || table.length === 0) throw invalid("is no table of values");
  return new Decoder(table, realm).decode();
}

function invalid(problem: string): Error {
  return new SerializationError(`a payload ${problem}`);
}

function sentinel(index: number): unknown {
  switch (index) {
    case UNDEFINED:
      return undefined;
    case NAN:
      return NaN;
    case POSITIVE_INFINITY:
      return Infinity;
    case NEGATIVE_INFINITY:
      return -Infinity;
    case NEGATIVE_ZERO:
      return -0;
    default:
      throw invalid("refers to a value that it does not hold");
  }
}

class Decoder {
  private readonly table: readonly unknown[];
  private readonly realm: Realm;
  private readonly state: Uint8Array;
  private readonly made = list<unknown>();
  /** The walk: elements entered and not yet filled, and what each still has to visit. */
  private readonly path = list<number>();
  private readonly pending = list<number>();

  constructor(table: readonly unknown[], realm: Realm) {
    this.table = table;
    this.realm = realm;
    this.state = new Bytes(table.length);
    for (let i = 0; i < table.length; i++) push(this.made, undefined);
  }

  decode(): unknown {
    this.visit(0);
    while (this.pending.length > 0) {
      const next = this.pending[this.pending.length - 1]!;
      this.pending.length -= 1;
      if (next >= 0) {
        this.visit(next);
        continue;
      }
      // A mark: all parts of the innermost element are there.
      const at = this.path[this.path.length - 1]!;
      this.path.length -= 1;
      this.leave(at);
      this.state[at] = DONE;
    }
    return this.made[0];
  }

  private visit(at: number): void {
    if (this.state[at] !== UNVISITED) return;
    const raw = this.table[at];
    if (typeof raw !== "object" || raw === null) {
      this.made[at] = raw;
      this.state[at] = DONE;
      return;
    }
    this.state[at] = ENTERED;
    push(this.path, at);
    push(this.pending, -1);
    this.enter(at, raw);
  }

  /** Makes what can be made before its parts, and asks for the parts. */
  private enter(at: number, raw: object): void {
    if (!isArray(raw)) {
      this.made[at] = {};
      this.needFields(raw);
    } else if (typeof item(raw, 0) === "string") {
      this.enterTagged(at, item(raw, 0) as string, raw);
    } else if (item(raw, 0) === SPARSE) {
      const length = item(raw, 1);
      if (!isInteger(length) || length < 0 || length > ARRAY_LENGTH_MAX) {
        throw invalid("has an array of no valid length");
      }
      this.made[at] = [];
      for (let i = 3; i < raw.length; i += 2) this.need(raw[i]);
    } else {
      this.made[at] = list<unknown>();
      // From the end, since the walk takes the last one first.
      for (let i = raw.length - 1; i >= 0; i--) if (raw[i] !== HOLE) this.need(raw[i]);
    }
  }

  private enterTagged(at: number, tag: string, raw: readonly unknown[]): void {
    if (tag === "null") {
      this.made[at] = createObject(null);
      for (let i = 2; i < raw.length; i += 2) this.need(raw[i]);
    } else if (tag === "Map") {
      this.made[at] = new MapConstructor();
      const entries = this.arrayAt(item(raw, 1));
      for (let i = entries.length - 1; i >= 0; i--) {
        const entry = this.arrayAt(entries[i]);
        this.need(item(entry, 1));
        this.need(item(entry, 0));
      }
    } else if (tag === "Set") {
      this.made[at] = new SetConstructor();
      const items = this.arrayAt(item(raw, 1));
      for (let i = items.length - 1; i >= 0; i--) this.need(items[i]);
    } else if (isErrorTag(tag)) {
      const data = this.fieldsAt(item(raw, 1));
      this.made[at] = allocateError(tag, this.textField(data, "name"));
      this.needFields(data);
    } else if (!isTextTag(tag)) {
      this.need(item(raw, 1));
    }
  }

  /** Gives an element its parts, all of which are there. */
  private leave(at: number): void {
    const raw = this.table[at] as object;
    if (!isArray(raw)) {
      this.fillFields(this.made[at] as object, raw);
    } else if (typeof item(raw, 0) === "string") {
      this.leaveTagged(at, item(raw, 0) as string, raw);
    } else if (item(raw, 0) === SPARSE) {
      const array = this.made[at] as unknown[];
      const length = item(raw, 1) as number;
      for (let i = 2; i < raw.length; i += 2) {
        const index = raw[i];
        if (!isInteger(index) || index < 0 || index >= length) {
          throw invalid("has an array element outside of its array");
        }
        define(array, index, this.value(item(raw, i + 1)));
      }
      array.length = length;
    } else {
      const array = this.made[at] as unknown[];
      for (let i = 0; i < raw.length; i++) {
        if (raw[i] === HOLE) array.length = i + 1;
        else array[i] = this.value(raw[i]);
      }
      // Only now: until here no inherited setter could take an element.
      setPrototypeOf(array, ArrayPrototype);
    }
  }

  private leaveTagged(at: number, tag: string, raw: readonly unknown[]): void {
    if (tag === "null") {
      const target = this.made[at] as object;
      for (let i = 1; i < raw.length; i += 2) this.fillField(target, raw[i], item(raw, i + 1));
    } else if (tag === "Map") {
      const entries = this.arrayAt(item(raw, 1));
      for (let i = 0; i < entries.length; i++) {
        const entry = this.arrayAt(entries[i]);
        mapSet(
          this.made[at] as Map<unknown, unknown>,
          this.value(item(entry, 0)),
          this.value(item(entry, 1)),
        );
      }
    } else if (tag === "Set") {
      const items = this.arrayAt(item(raw, 1));
      for (let i = 0; i < items.length; i++) {
        setAdd(this.made[at] as Set<unknown>, this.value(items[i]));
      }
    } else if (isErrorTag(tag)) {
      const data = createObject(null);
      this.fillFields(data, this.fieldsAt(item(raw, 1)));
      fillError(this.made[at] as Error, tag, data);
    } else if (isTextTag(tag)) {
      this.made[at] = reviveText(tag, this.textAt(item(raw, 1)));
    } else {
      this.made[at] = this.revive(tag, this.value(item(raw, 1)));
    }
  }

  private revive(tag: string, data: unknown): unknown {
    const kinds = this.realm.kinds;
    for (let i = 0; i < kinds.length; i++) {
      const kind = kinds[i] as Kind;
      if (kind.tag === tag) return kind.revive(data);
    }
    const fields = typeof data === "object" && data !== null ? data : createObject(null);
    switch (tag) {
      case "RegExp":
        return reviveRegExp(own(fields, "source"), own(fields, "flags"));
      case "Object":
        return boxed(data);
      case "Class":
      case "Instance": {
        const classId = own(fields, "classId");
        const isKnown = typeof classId === "string" && this.realm.classOf(classId) !== undefined;
        if (!isKnown && this.realm.keepsUnknown) return new OpaqueValue(tag, data);
        if (tag === "Class") return reviveClass(classId, this.realm);
        return reviveInstance(classId, own(fields, "data"), this.realm);
      }
      default:
        if (this.realm.keepsUnknown && isCarried(tag)) return new OpaqueValue(tag, data);
        throw invalid(`holds a ${tag}, which cannot be used here`);
    }
  }

  private need(index: unknown): void {
    if (typeof index === "number" && index < 0) return;
    if (!isInteger(index) || index >= this.table.length) {
      throw invalid("refers to a value that it does not hold");
    }
    if (this.state[index] === UNVISITED) push(this.pending, index);
  }

  private needFields(raw: object): void {
    const keys = keysOf(raw);
    for (let i = keys.length - 1; i >= 0; i--) this.need(own(raw, keys[i]!));
  }

  private fillFields(target: object, raw: object): void {
    const keys = keysOf(raw);
    for (let i = 0; i < keys.length; i++) this.fillField(target, keys[i], own(raw, keys[i]!));
  }

  private fillField(target: object, key: unknown, index: unknown): void {
    if (typeof key !== "string" || key === "__proto__") {
      throw invalid("has an object with a key that is not allowed");
    }
    const value = this.value(index);
    // Awaiting it would call the function: whoever sends a payload would choose a step to run.
    if (key === "then" && typeof value === "function") {
      throw invalid("has an object that poses as a promise");
    }
    define(target, key, value);
  }

  private value(index: unknown): unknown {
    if (typeof index !== "number") throw invalid("refers to a value that it does not hold");
    if (index < 0) return sentinel(index);
    if (this.state[index] === ENTERED && !this.isAllocatedFirst(index)) {
      throw invalid("holds a cycle through a value that cannot have one");
    }
    return this.made[index];
  }

  private isAllocatedFirst(index: number): boolean {
    const raw = this.table[index] as readonly unknown[];
    const tag = isArray(raw) ? item(raw, 0) : undefined;
    if (typeof tag !== "string") return true;
    return tag === "null" || tag === "Map" || tag === "Set" || isErrorTag(tag);
  }

  private arrayAt(index: unknown): readonly unknown[] {
    const raw = isInteger(index) && index >= 0 ? item(this.table, index) : undefined;
    if (!isArray(raw) || typeof item(raw, 0) === "string")
      throw invalid("has a collection of no items");
    return raw;
  }

  private fieldsAt(index: unknown): object {
    const raw = isInteger(index) && index >= 0 ? item(this.table, index) : undefined;
    if (typeof raw !== "object" || raw === null || isArray(raw)) {
      throw invalid("has an error without fields");
    }
    return raw;
  }

  /** A text that stands in place, as devalue's own forms have it, or in the table. */
  private textAt(index: unknown): string {
    const raw = isInteger(index) && index >= 0 ? item(this.table, index) : index;
    if (typeof raw !== "string") throw invalid("has a tag without its text");
    return raw;
  }

  private textField(data: object, key: string): string | undefined {
    const index = own(data, key);
    const raw = isInteger(index) && index >= 0 ? item(this.table, index) : undefined;
    return typeof raw === "string" ? raw : undefined;
  }
}

/** An element of a parsed array; what a tenant put on `Array.prototype` does not count. */
function item(array: readonly unknown[], at: number): unknown {
  return at < array.length ? array[at] : undefined;
}

function isCarried(tag: string): boolean {
  for (let i = 0; i < CARRIED_TAGS.length; i++) if (CARRIED_TAGS[i] === tag) return true;
  return false;
}

function boxed(data: unknown): object {
  switch (typeof data) {
    case "string":
    case "number":
    case "boolean":
    case "bigint":
      return Object(data) as object;
    default:
      throw invalid("boxes what is no primitive");
  }
}
