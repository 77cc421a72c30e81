/** Reads of arguments that a tenant's code gave to a call of the platform: looked at, never trusted. */
import { BatonError } from "./errors.ts";

/** An own field of an object; undefined where there is none. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

/** A text that is not empty; else `INVALID_ARGUMENT`, which names it. */
export function textOf(value: unknown, what: string): string {
  if (typeof value === "string" && value.length > 0) return value;
  throw new BatonError("INVALID_ARGUMENT", `${what} is a text`, { field: what });
}
