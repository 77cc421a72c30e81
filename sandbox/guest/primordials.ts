/**
 * The built-ins that the library itself relies on, captured before any tenant code has run.
 *
 * Tenants may patch `Array.prototype`, `Map.prototype`, `Promise.prototype.then` or `JSON` as they
 * like: it changes what their own code sees, never what the library reports. For that the rest of
 * the library keeps three rules: built-in methods are called only from here; lists are made by
 * `list()`, whose elements no inherited setter can take; and there is no `for…of`, spread or array
 * destructuring outside of boot code, since all three go through patchable iterators. The web types
 * (web/) and the step side (step/) decide nothing that a workflow's log holds, and are exempt.
 */
/* oxlint-disable typescript/unbound-method -- this is the place where methods lose their `this` */
type Method = (...args: never[]) => unknown;

const bindCall = Function.prototype.bind.bind(Function.prototype.call) as (
  method: unknown,
) => Method;

/** The method as a function whose first argument is its `this`. */
export function unbound<F extends Method>(method: unknown): F {
  return bindCall(method) as unknown as F;
}

export function getter<F extends Method>(holder: object, key: PropertyKey): F {
  return unbound<F>(Object.getOwnPropertyDescriptor(holder, key)?.get);
}

export const ObjectPrototype = Object.prototype;
export const ArrayPrototype = Array.prototype;
export const PromiseConstructor = Promise;
export const MapConstructor = Map;
export const SetConstructor = Set;
export const WeakMapConstructor = WeakMap;
export const DateConstructor = Date;
export const RegExpConstructor = RegExp;
export const ErrorConstructor = Error;
export const TypeErrorConstructor = TypeError;
export const SymbolFor = Symbol.for;
export const SymbolAsyncIterator: typeof Symbol.asyncIterator = Symbol.asyncIterator;
export const BigIntOf = BigInt;
export const StringOf = String;
export const NumberOf = Number;

export const defineProperty = Object.defineProperty;
export const getDescriptor = Object.getOwnPropertyDescriptor;
export const getPrototypeOf = Object.getPrototypeOf as (value: object) => object | null;
export const setPrototypeOf = Object.setPrototypeOf as <T extends object>(
  value: T,
  prototype: object | null,
) => T;
export const createObject = Object.create as (prototype: object | null) => Record<string, unknown>;
export const freeze = Object.freeze;
export const keysOf = Object.keys;
export const symbolsOf = Object.getOwnPropertySymbols;
export const ownKeysOf = Reflect.ownKeys;
export const hasOwn: (value: object, key: PropertyKey) => boolean = Object.hasOwn;
export const is = Object.is;
export const apply = Reflect.apply;
export const construct = Reflect.construct;
export const isPrototypeOf = unbound<(self: object, value: object) => boolean>(
  Object.prototype.isPrototypeOf,
);
export const isEnumerable = unbound<(self: object, key: PropertyKey) => boolean>(
  Object.prototype.propertyIsEnumerable,
);
/** `[object …]`; a tenant may lie here by `Symbol.toStringTag`, so brands are checked after it. */
export const tagOf = unbound<(self: unknown) => string>(Object.prototype.toString);
export const functionText = unbound<(self: unknown) => string>(Function.prototype.toString);

/** As a method: what template literals call. */
export const StringConcat: unknown = Object.getOwnPropertyDescriptor(
  String.prototype,
  "concat",
)?.value;

export const isArray = Array.isArray as (value: unknown) => value is unknown[];
export const arrayJoin = unbound<(self: readonly unknown[], by: string) => string>(
  Array.prototype.join,
);

export const jsonParse = JSON.parse;
/** JSON of a string, number, boolean or null: primitives meet no `toJSON`. */
export const jsonOf = JSON.stringify as (value: string | number | boolean | null) => string;

export const ceil = Math.ceil;
export const floor = Math.floor;
export const imul = Math.imul;
export const isFiniteNumber = Number.isFinite;
export const isInteger = Number.isInteger as (value: unknown) => value is number;
export const isSafeInteger = Number.isSafeInteger as (value: unknown) => value is number;
export const numberText = unbound<(self: number, radix?: number) => string>(
  Number.prototype.toString,
);

export const charCodeAt = unbound<(self: string, at: number) => number>(
  String.prototype.charCodeAt,
);
export const fromCharCode = String.fromCharCode;
export const stringSlice = unbound<(self: string, from: number, to?: number) => string>(
  String.prototype.slice,
);
export const indexOf = unbound<(self: string, of: string, from?: number) => number>(
  String.prototype.indexOf,
);
export const startsWith = unbound<(self: string, what: string) => boolean>(
  String.prototype.startsWith,
);
export const toLowerCase = unbound<(self: string) => string>(String.prototype.toLowerCase);
export const regExpExec = unbound<(self: RegExp, text: string) => RegExpExecArray | null>(
  RegExp.prototype.exec,
);
export const regExpSource = getter<(self: RegExp) => string>(RegExp.prototype, "source");
export const regExpFlag = (self: RegExp, key: string): boolean => flagGetters[key]?.(self) === true;
const flagGetters: Record<string, ((self: RegExp) => boolean) | undefined> = createObject(
  null,
) as never;
/** Read one by one: the `flags` getter of RegExp asks patchable properties. */
export const REGEXP_FLAGS: readonly (readonly [string, string])[] = [
  ["hasIndices", "d"],
  ["global", "g"],
  ["ignoreCase", "i"],
  ["multiline", "m"],
  ["dotAll", "s"],
  ["unicode", "u"],
  ["unicodeSets", "v"],
  ["sticky", "y"],
];
for (const [key] of REGEXP_FLAGS) {
  if (Object.hasOwn(RegExp.prototype, key)) flagGetters[key] = getter(RegExp.prototype, key);
}

export const mapGet = unbound<<K, V>(self: Map<K, V>, key: K) => V | undefined>(Map.prototype.get);
export const mapSet = unbound<<K, V>(self: Map<K, V>, key: K, value: V) => unknown>(
  Map.prototype.set,
);
export const mapHas = unbound<<K, V>(self: Map<K, V>, key: K) => boolean>(Map.prototype.has);
export const mapDelete = unbound<<K, V>(self: Map<K, V>, key: K) => boolean>(Map.prototype.delete);
export const mapForEach = unbound<
  <K, V>(self: Map<K, V>, each: (value: V, key: K) => void) => void
>(Map.prototype.forEach);
export const mapSize = getter<<K, V>(self: Map<K, V>) => number>(Map.prototype, "size");
export const setAdd = unbound<<V>(self: Set<V>, value: V) => unknown>(Set.prototype.add);
export const setHas = unbound<<V>(self: Set<V>, value: V) => boolean>(Set.prototype.has);
export const setForEach = unbound<<V>(self: Set<V>, each: (value: V) => void) => void>(
  Set.prototype.forEach,
);
export const setSize = getter<<V>(self: Set<V>) => number>(Set.prototype, "size");
export const weakGet = unbound<<K extends object, V>(self: WeakMap<K, V>, key: K) => V | undefined>(
  WeakMap.prototype.get,
);
export const weakSet = unbound<<K extends object, V>(self: WeakMap<K, V>, key: K, v: V) => unknown>(
  WeakMap.prototype.set,
);
export const weakHas = unbound<<K extends object, V>(self: WeakMap<K, V>, key: K) => boolean>(
  WeakMap.prototype.has,
);

export const promiseThen = unbound<
  <T, R>(
    self: Promise<T>,
    fulfilled?: ((value: T) => R | PromiseLike<R>) | null,
    rejected?: ((reason: unknown) => R | PromiseLike<R>) | null,
  ) => Promise<R>
>(Promise.prototype.then);

export const dateValue = unbound<(self: Date) => number>(Date.prototype.getTime);
export const dateIso = unbound<(self: Date) => string>(Date.prototype.toISOString);
export const datePrint = unbound<(self: Date) => string>(Date.prototype.toString);

const TypedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype) as object;
/** The kind of a typed array, or undefined for anything else; never throws. */
export const typedArrayTag = getter<(self: unknown) => string | undefined>(
  TypedArrayPrototype,
  Symbol.toStringTag,
);
export const typedArrayBuffer = getter<(self: ArrayBufferView) => ArrayBuffer>(
  TypedArrayPrototype,
  "buffer",
);
export const typedArrayOffset = getter<(self: ArrayBufferView) => number>(
  TypedArrayPrototype,
  "byteOffset",
);
export const typedArrayBytes = getter<(self: ArrayBufferView) => number>(
  TypedArrayPrototype,
  "byteLength",
);
export const dataViewBuffer = getter<(self: DataView) => ArrayBuffer>(DataView.prototype, "buffer");
export const dataViewOffset = getter<(self: DataView) => number>(DataView.prototype, "byteOffset");
export const dataViewBytes = getter<(self: DataView) => number>(DataView.prototype, "byteLength");
export const arrayBufferBytes = getter<(self: ArrayBuffer) => number>(
  ArrayBuffer.prototype,
  "byteLength",
);
export const isView = ArrayBuffer.isView;
export const Bytes = Uint8Array;
export const Words = Uint32Array;
export const BufferConstructor = ArrayBuffer;
export const ViewConstructor = DataView;
/** Constructors of the typed arrays that this engine has, by tag. */
export const TYPED_ARRAYS = typedArrays();

function typedArrays(): Record<string, (new (buffer: ArrayBuffer) => ArrayBufferView) | undefined> {
  const found = createObject(null) as ReturnType<typeof typedArrays>;
  for (const name of Reflect.ownKeys(globalThis)) {
    if (typeof name !== "string" || !name.endsWith("Array")) continue;
    const constructor = (globalThis as Record<string, unknown>)[name];
    if (typeof constructor !== "function") continue;
    if (Object.getPrototypeOf(constructor) !== Object.getPrototypeOf(Uint8Array)) continue;
    found[name] = constructor as never;
  }
  return found;
}

const isErrorNative = (Error as { isError?: (value: unknown) => boolean }).isError;
/** Whether a value was made by an Error constructor, whatever its prototype says. */
export const isError = (value: unknown): value is Error =>
  isErrorNative === undefined
    ? value instanceof ErrorConstructor || tagOf(value) === "[object Error]"
    : isErrorNative(value);

/** An empty list: an array in which no inherited setter can take an element. */
export function list<T>(): T[] {
  return setPrototypeOf([] as T[], null);
}

export function push<T>(to: T[], value: T): void {
  to[to.length] = value;
}

/** Defines a plain data property, whatever setters the prototype chain has. */
export function define(target: object, key: PropertyKey, value: unknown, enumerable = true): void {
  const descriptor = createObject(null);
  descriptor["value"] = value;
  descriptor["writable"] = true;
  descriptor["configurable"] = true;
  descriptor["enumerable"] = enumerable;
  defineProperty(target, key, descriptor);
}

/** Defines a property that nobody can change or delete. */
export function defineFixed(target: object, key: PropertyKey, value: unknown): void {
  const descriptor = createObject(null);
  descriptor["value"] = value;
  descriptor["writable"] = false;
  descriptor["configurable"] = false;
  descriptor["enumerable"] = false;
  defineProperty(target, key, descriptor);
}

/** An own property, or undefined: what prototypes hold does not count. */
export function own(value: object, key: PropertyKey): unknown {
  return hasOwn(value, key) ? (value as Record<PropertyKey, unknown>)[key] : undefined;
}
