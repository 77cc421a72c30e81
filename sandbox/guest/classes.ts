/**
 * Registered classes in payloads: a class as such, and its instances by the class's own static
 * methods. Only a realm whose registry holds the class ever calls them.
 */
import { SerializationError } from "./errors.ts";
import { SymbolFor, apply, hasOwn, isPrototypeOf, mapGet, own } from "./primordials.ts";
import { addField, noFields } from "./realm.ts";
import type { Realm, Reduced, RegisteredClass } from "./realm.ts";

export const SERIALIZE = SymbolFor("workflow-serialize");
export const DESERIALIZE = SymbolFor("workflow-deserialize");

type Method = (this: unknown, data: unknown) => unknown;

/** Null: neither a registered class nor an instance of one. */
export function reduceRegistered(value: object, realm: Realm): Reduced | null {
  if (typeof value === "function") {
    const found = realm.registeredOf(value);
    if (found === undefined) return null;
    return { tag: "Class", fields: addField(noFields(), "classId", found.classId) };
  }
  const constructor = (value as { constructor?: unknown }).constructor;
  if (typeof constructor !== "function") return null;
  const found = realm.registeredOf(constructor);
  if (found === undefined) return null;
  const serialize = (constructor as unknown as Record<symbol, unknown>)[SERIALIZE];
  if (typeof serialize !== "function") return null;
  const data = apply(serialize as Method, constructor, [value]);
  const fields = addField(noFields(), "classId", found.classId);
  return { tag: "Instance", fields: addField(fields, "data", data) };
}

export function reviveClass(classId: unknown, realm: Realm): object {
  const found = typeof classId === "string" ? realm.classOf(classId) : undefined;
  if (found === undefined) throw unknownClass(classId);
  return found;
}

export function reviveInstance(classId: unknown, data: unknown, realm: Realm): unknown {
  const found = reviveClass(classId, realm);
  const deserialize = (found as unknown as Record<symbol, unknown>)[DESERIALIZE];
  if (typeof deserialize !== "function") {
    throw new SerializationError(
      `the class ${classId as string} has no static method under Symbol.for("workflow-deserialize")`,
    );
  }
  return apply(deserialize as Method, found, [data]);
}

/** Whether `value` is a registered class, or an instance of one. */
export function isRegistered(value: unknown, realm: Realm): boolean {
  if (typeof value === "function") return realm.registeredOf(value) !== undefined;
  if (typeof value !== "object" || value === null) return false;
  const constructor = (value as { constructor?: unknown }).constructor;
  if (typeof constructor !== "function" || realm.registeredOf(constructor) === undefined) {
    return false;
  }
  // The prototype object itself names its class as well, but is no instance.
  return isPrototypeOf((constructor as { prototype: object }).prototype, value);
}

function unknownClass(classId: unknown): Error {
  const name = typeof classId === "string" ? classId : "of that form";
  return new SerializationError(`no class ${name} is registered here`);
}

/** The registered class that a constructor is, by the `classId` that the transformer gave it. */
export function registeredIn(
  classes: Map<string, object>,
  constructor: unknown,
): RegisteredClass | undefined {
  if (typeof constructor !== "function" || !hasOwn(constructor, "classId")) return undefined;
  const classId = own(constructor, "classId");
  if (typeof classId !== "string" || mapGet(classes, classId) !== constructor) return undefined;
  return { classId, constructor };
}
