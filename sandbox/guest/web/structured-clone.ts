/** `structuredClone`: cycles and sharing kept, functions and handles refused. */
import { tagOf } from "../primordials.ts";
import { GuestDOMException } from "./dom-exception.ts";

const ERRORS: Readonly<Record<string, ErrorConstructor>> = {
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
};

export function structuredClone(value: unknown, options?: { transfer?: ArrayBuffer[] }): unknown {
  const seen = new Map<object, unknown>();
  const copy = cloneOf(value, seen);
  for (const buffer of options?.transfer ?? []) {
    (buffer as { transfer?: () => ArrayBuffer }).transfer?.();
  }
  return copy;
}

function cloneOf(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value === "function" || typeof value === "symbol") throw refused(value);
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const remember = <T>(copy: T): T => {
    seen.set(value, copy);
    return copy;
  };
  if (Array.isArray(value)) {
    const copy: unknown[] = remember([]);
    copy.length = value.length;
    copyFields(value, copy, seen);
    return copy;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) {
    return copyFields(value, remember({}), seen);
  }
  return cloneOfClass(value, seen, remember);
}

function cloneOfClass(
  value: object,
  seen: Map<object, unknown>,
  remember: <T>(copy: T) => T,
): unknown {
  if (value instanceof Date) return remember(new Date(value.getTime()));
  if (value instanceof RegExp) return remember(new RegExp(value.source, value.flags));
  if (value instanceof Map) {
    const copy = remember(new Map());
    for (const [key, item] of value) copy.set(cloneOf(key, seen), cloneOf(item, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = remember(new Set());
    for (const item of value) copy.add(cloneOf(item, seen));
    return copy;
  }
  if (value instanceof ArrayBuffer) return remember(value.slice(0));
  if (ArrayBuffer.isView(value)) return remember(cloneOfView(value, seen));
  if (value instanceof Error) return cloneOfError(value, seen, remember);
  if (isBoxed(value)) return remember(Object(value.valueOf()));
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) {
    throw refused(value);
  }
  return copyFields(value, remember({}), seen);
}

function cloneOfView(view: ArrayBufferView, seen: Map<object, unknown>): ArrayBufferView {
  const buffer = cloneOf(view.buffer, seen) as ArrayBuffer;
  type Constructor = new (buffer: ArrayBuffer, offset: number, length: number) => ArrayBufferView;
  const length = view instanceof DataView ? view.byteLength : (view as Uint8Array).length;
  return new (view.constructor as Constructor)(buffer, view.byteOffset, length);
}

function cloneOfError(
  error: Error,
  seen: Map<object, unknown>,
  remember: <T>(copy: T) => T,
): unknown {
  if (error instanceof GuestDOMException) {
    return remember(new GuestDOMException(error.message, error.name));
  }
  const copy = remember(new (ERRORS[error.name] ?? Error)(error.message));
  const fields: [string, unknown][] = [["stack", error.stack]];
  if ("cause" in error) fields.push(["cause", cloneOf(error.cause, seen)]);
  for (const [key, value] of fields) {
    Object.defineProperty(copy, key, { value, writable: true, configurable: true });
  }
  return copy;
}

function isBoxed(value: object): boolean {
  const tag = tagOf(value);
  return (
    tag === "[object String]" ||
    tag === "[object Number]" ||
    tag === "[object Boolean]" ||
    tag === "[object BigInt]"
  );
}

function copyFields(from: object, to: object, seen: Map<object, unknown>): object {
  for (const key of Object.keys(from)) {
    const value = cloneOf((from as Record<string, unknown>)[key], seen);
    Object.defineProperty(to, key, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return to;
}

function refused(value: unknown): Error {
  const what = typeof value === "function" ? "a function" : "such a value";
  return new GuestDOMException(`structuredClone cannot copy ${what}`, "DataCloneError");
}
