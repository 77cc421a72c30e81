/** Attributes that a workflow sets on its own run. */
import { rejected, settlement } from "./guest.ts";
import type { Guest } from "./guest.ts";
import type { AttributeChange } from "./operations.ts";
import { TypeErrorConstructor, keysOf, list, push, startsWith } from "./primordials.ts";
import { utf8Bytes } from "./utf8.ts";

export const KEY_CHARS_MAX = 256;
export const VALUE_BYTES_MAX = 256;
export const CHANGES_MAX = 64;
export const CHANGES_BYTES_MAX = 8192;

export interface SetAttributesOptions {
  /** Lets keys begin with `$`. */
  readonly allowReservedAttributes?: boolean;
}

export type SetAttributes = (
  attributes: Readonly<Record<string, string | undefined>>,
  options?: SetAttributesOptions,
) => Promise<void>;

export function createSetAttributes(guest: Guest): SetAttributes {
  return function setAttributes(attributes, options) {
    try {
      const changes = changesOf(attributes, options?.allowReservedAttributes === true);
      const { promise, settle } = settlement<void>(guest);
      if (changes.length === 0) {
        settle(true, "-1");
        return promise;
      }
      guest.operations.open<"attr">({ kind: "attr", changes, settle });
      return promise;
    } catch (error) {
      return rejected(error);
    }
  };
}

/** Checks the attributes; `undefined` deletes one. Throws a TypeError that names the key. */
export function changesOf(attributes: unknown, allowReserved: boolean): AttributeChange[] {
  if (typeof attributes !== "object" || attributes === null) {
    throw new TypeErrorConstructor("setAttributes takes an object of texts");
  }
  const keys = keysOf(attributes);
  if (keys.length > CHANGES_MAX) {
    throw new TypeErrorConstructor(
      `setAttributes takes at most ${CHANGES_MAX} attributes at once; got ${keys.length}`,
    );
  }
  const changes = list<AttributeChange>();
  let bytes = 0;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    const value = (attributes as Record<string, unknown>)[key];
    if (key.length === 0 || key.length > KEY_CHARS_MAX) {
      throw new TypeErrorConstructor(`an attribute's key has 1 to ${KEY_CHARS_MAX} characters`);
    }
    if (!allowReserved && startsWith(key, "$")) {
      throw new TypeErrorConstructor(`the attribute ${key} is reserved: keys with $ are`);
    }
    if (value !== undefined && typeof value !== "string") {
      throw new TypeErrorConstructor(`the attribute ${key} must be a text, or undefined`);
    }
    const size = value === undefined ? 0 : utf8Bytes(value);
    if (size > VALUE_BYTES_MAX) {
      throw new TypeErrorConstructor(
        `the attribute ${key} has ${size} bytes; ${VALUE_BYTES_MAX} are allowed`,
      );
    }
    bytes += utf8Bytes(key) + size;
    push(changes, { key, value: value ?? null });
  }
  if (bytes > CHANGES_BYTES_MAX) {
    throw new TypeErrorConstructor(
      `setAttributes got ${bytes} bytes; ${CHANGES_BYTES_MAX} are allowed at once`,
    );
  }
  return changes;
}
