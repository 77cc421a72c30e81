/**
 * Takes away what must not be in a heap: ways to compile text, views of garbage collection, shared
 * memory, timers and the network. What a tenant is likely to reach for answers with what to use
 * instead.
 */
import { NotAvailableError } from "./errors.ts";
import {
  createObject,
  define,
  defineFixed,
  getPrototypeOf,
  hasOwn,
  list,
  push,
  StringConcat,
} from "./primordials.ts";

const REMOVED: readonly string[] = [
  "WeakRef",
  "FinalizationRegistry",
  "Atomics",
  "SharedArrayBuffer",
];
const INTL_MEMBERS: readonly string[] = [
  "Collator",
  "DateTimeFormat",
  "DisplayNames",
  "DurationFormat",
  "ListFormat",
  "Locale",
  "NumberFormat",
  "PluralRules",
  "RelativeTimeFormat",
  "Segmenter",
  "getCanonicalLocales",
  "supportedValuesOf",
];

/** A function that throws `NotAvailableError` with this message whenever it is used. */
export function refusal(name: string, message: string): (...args: unknown[]) => never {
  const refuse = function (): never {
    throw new NotAvailableError(message);
  };
  define(refuse, "name", name, false);
  return refuse;
}

/** Runs before anything else is installed on the global. */
export function lockDown(scope: object): void {
  for (let i = 0; i < REMOVED.length; i++) {
    delete (scope as Record<string, unknown>)[REMOVED[i]!];
  }
  lockCompilers(scope);
  lockSyntax();
  const intl = {};
  for (let i = 0; i < INTL_MEMBERS.length; i++) {
    const name = INTL_MEMBERS[i]!;
    define(
      intl,
      name,
      refusal(name, `Intl.${name} is not available here; format in a step, or bundle a library`),
    );
  }
  define(scope, "Intl", intl, false);
}

/**
 * The engine carries out a template literal by calling `concat` of its first part, and it looks
 * that up anew each time. Left open, a tenant could write the library's own reports with it.
 */
function lockSyntax(): void {
  defineFixed(String.prototype, "concat", StringConcat);
}

/** Workflows only: what would read the outside, or wait without an event. */
export function lockOutside(scope: object): void {
  const timers = ["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval"];
  push(timers, "clearImmediate");
  for (let i = 0; i < timers.length; i++) {
    const name = timers[i]!;
    const message = `${name} is not available in a workflow; use \`sleep\` from "workflow"`;
    define(scope, name, refusal(name, message), false);
  }
  define(
    scope,
    "fetch",
    refusal(
      "fetch",
      'fetch is not available in a workflow; import `fetch` from "workflow", which runs as a step',
    ),
    false,
  );
}

/** `eval` and the constructors of all four kinds of functions. */
function lockCompilers(scope: object): void {
  const message = "code cannot be made from text here; put it into the bundle";
  defineFixed(scope, "eval", refusal("eval", message));
  const prototypes = list<object>();
  push(prototypes, Function.prototype as object);
  push(
    prototypes,
    getPrototypeOf(async () => undefined)!,
  );
  push(
    prototypes,
    getPrototypeOf(function* () {})!,
  );
  push(
    prototypes,
    getPrototypeOf(async function* () {})!,
  );
  for (let i = 0; i < prototypes.length; i++) {
    const prototype = prototypes[i]!;
    const refuse = refusal("Function", message);
    // `instanceof` goes on working: the prototype stays the same object.
    defineFixed(refuse, "prototype", prototype);
    defineFixed(prototype, "constructor", refuse);
    if (i === 0) define(scope, "Function", refuse, false);
  }
}

/** Names that this engine lacks and that need no more than a few lines. */
export function installSmallGlobals(scope: object, defer: (job: () => void) => void): void {
  const symbols = ["dispose", "asyncDispose"];
  for (let i = 0; i < symbols.length; i++) {
    const name = symbols[i]!;
    if (!hasOwn(Symbol, name)) defineFixed(Symbol, name, Symbol(`Symbol.${name}`));
  }
  if (!hasOwn(Error, "captureStackTrace")) {
    define(
      Error,
      "captureStackTrace",
      (target: object) => define(target, "stack", new Error().stack ?? "", false),
      false,
    );
  }
  define(scope, "queueMicrotask", defer, false);
  const env = createObject(null);
  define(scope, "process", { env }, false);
  define(scope, "self", scope, false);
}
