/** DOMException, with its legacy codes, and the kind under which it crosses. */
import { SerializationError } from "../errors.ts";
import {
  ErrorConstructor,
  WeakMapConstructor,
  construct,
  define,
  hasOwn,
  own,
  weakGet,
  weakSet,
  StringOf,
} from "../primordials.ts";
import { addField, noFields } from "../realm.ts";
import type { Kind } from "../realm.ts";

const CODES: Readonly<Record<string, number>> = {
  IndexSizeError: 1,
  HierarchyRequestError: 3,
  WrongDocumentError: 4,
  InvalidCharacterError: 5,
  NoModificationAllowedError: 7,
  NotFoundError: 8,
  NotSupportedError: 9,
  InUseAttributeError: 10,
  InvalidStateError: 11,
  SyntaxError: 12,
  InvalidModificationError: 13,
  NamespaceError: 14,
  InvalidAccessError: 15,
  TypeMismatchError: 17,
  SecurityError: 18,
  NetworkError: 19,
  AbortError: 20,
  URLMismatchError: 21,
  QuotaExceededError: 22,
  TimeoutError: 23,
  InvalidNodeTypeError: 24,
  DataCloneError: 25,
};

const names = new WeakMapConstructor<object, string>();

/** Made through Error's constructor, so that it is an error in every check. */
export class GuestDOMException extends ErrorConstructor {
  constructor(message = "", options: string | { name?: string; cause?: unknown } = "Error") {
    super(StringOf(message));
    const name = typeof options === "string" ? options : (options.name ?? "Error");
    weakSet(names, this, StringOf(name));
    if (typeof options === "object" && "cause" in options) {
      define(this, "cause", options.cause, false);
    }
  }

  override get name(): string {
    return weakGet(names, this) ?? "Error";
  }

  get code(): number {
    return hasOwn(CODES, this.name) ? (CODES[this.name] ?? 0) : 0;
  }
}
define(GuestDOMException, "name", "DOMException", false);
define(GuestDOMException.prototype, Symbol.toStringTag, "DOMException", false);

export const domExceptionKind: Kind = {
  tag: "DOMException",
  reduce(value) {
    const name = weakGet(names, value);
    if (name === undefined) return null;
    const error = value as Error;
    const fields = addField(noFields(true), "name", name);
    addField(fields, "message", StringOf(error.message));
    if (typeof error.stack === "string") addField(fields, "stack", error.stack);
    if (hasOwn(error, "cause")) addField(fields, "cause", error.cause);
    return { tag: "DOMException", fields };
  },
  revive(data) {
    if (typeof data !== "object" || data === null) {
      throw new SerializationError("a DOMException in a payload has no data");
    }
    const name = own(data, "name");
    const message = own(data, "message");
    const made = construct(GuestDOMException, [
      typeof message === "string" ? message : "",
      typeof name === "string" ? name : "Error",
    ]);
    const stack = own(data, "stack");
    define(made, "stack", typeof stack === "string" ? stack : "", false);
    if (hasOwn(data, "cause")) define(made, "cause", own(data, "cause"), false);
    return made;
  },
};
