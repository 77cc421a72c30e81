/**
 * What a codec needs to know of where it runs: a workflow heap, a step heap, or the host. Types
 * and the shapes that cross between the encoder, the decoder and the kinds of values.
 */
import { list, push } from "./primordials.ts";

/** Named data of a value, written as an object. */
export interface Fields {
  readonly keys: string[];
  readonly values: unknown[];
  /** Where an element cannot be encoded, a short text takes its place. */
  readonly lenient: boolean;
}

/** What stands for a value under a tag: a text, an array, named fields, or another value. */
export type Reduced =
  | { readonly tag: string; readonly text: string }
  | { readonly tag: string; readonly items: unknown[] }
  | { readonly tag: string; readonly fields: Fields };

/** A kind of value beyond the built-in ones. */
export interface Kind {
  readonly tag: string;
  /** Null: not of this kind. It may be any object or function. */
  reduce(value: object): Reduced | null;
  /** `data` is a text, an array, or an object of the reduced fields; throws if it does not fit. */
  revive(data: unknown): unknown;
}

export interface RegisteredClass {
  readonly classId: string;
  readonly constructor: object;
}

export interface Realm {
  readonly kinds: readonly Kind[];
  /** The registered class of an instance or a constructor, if it is one. */
  registeredOf(constructor: unknown): RegisteredClass | undefined;
  classOf(classId: string): object | undefined;
  /** Tells whether tags that no kind knows are kept as `OpaqueValue` instead of refused. */
  readonly keepsUnknown: boolean;
}

/** A value of a kind that this realm can carry but not use, such as a stream on the host. */
export class OpaqueValue {
  readonly tag: string;
  readonly data: unknown;
  constructor(tag: string, data: unknown) {
    this.tag = tag;
    this.data = data;
  }
}

export function noFields(lenient = false): Fields {
  return { keys: list<string>(), values: list<unknown>(), lenient };
}

export function addField(fields: Fields, key: string, value: unknown): Fields {
  push(fields.keys, key);
  push(fields.values, value);
  return fields;
}

/** Sentinels of the format: they stand where an index would. */
export const UNDEFINED = -1;
export const HOLE = -2;
export const NAN = -3;
export const POSITIVE_INFINITY = -4;
export const NEGATIVE_INFINITY = -5;
export const NEGATIVE_ZERO = -6;
export const SPARSE = -7;

/** Stands for a text of no length under a tag, as an empty one would read as "not reduced". */
export const EMPTY_TEXT = ".";

/** Tags that only a realm with the right kind can use; the host keeps them as they are. */
export const CARRIED_TAGS: readonly string[] = [
  "StepFunction",
  "WorkflowFunction",
  "Class",
  "Instance",
  "ReadableStream",
  "WritableStream",
  "AbortController",
  "AbortSignal",
  "Request",
  "Response",
  "Headers",
];
