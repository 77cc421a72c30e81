/**
 * A bundle's step side as the script that heaps evaluate.
 *
 * Step code may import Node's modules, since the same code can also run as host code. In a heap it
 * is given stand-ins: to import one and to hold what it exports harms nothing; the first use throws
 * an error that names the module and where it is imported.
 */
export interface BuiltinUse {
  readonly module: string;
  readonly file: string;
  readonly line: number;
}

/** Nothing of `stepCode` moves to another line. */
export function stepScript(stepCode: string, uses: readonly BuiltinUse[]): string {
  const places: Record<string, string[]> = {};
  for (const { module, file, line } of uses) (places[module] ??= []).push(`${file}:${line}`);
  const required = `(${STAND_INS.replaceAll("\n", " ")})(${JSON.stringify(places)})`;
  return `((require) => {${stepCode}\n})(${required});`;
}

/** Symbols, `then` and `__esModule` are what bundlers, promises and consoles probe for. */
const STAND_INS = `(places) => (name) => {
  const module = name.startsWith("node:") ? name : "node:" + name;
  const from = places[module] === undefined ? "" : ", imported at " + places[module].join(", ");
  const refuse = (what) => {
    throw new Error(what + " of " + module + from + ": a sandboxed step has no Node modules;" +
      " use web APIs, or have the platform offer it as a host step");
  };
  const isProbe = (key) => typeof key === "symbol" || key === "then" || key === "__esModule";
  const member = (key) => new Proxy(() => undefined, {
    get: (_, inner) => isProbe(inner) ? undefined : refuse(key + "." + inner),
    apply: () => refuse(key + "()"),
    construct: () => refuse("new " + key + "()"),
  });
  const standIn = new Proxy({}, {
    get: (_, key) => isProbe(key) ? undefined : member(key),
    getPrototypeOf: () => standIn,
  });
  return standIn;
}`;
