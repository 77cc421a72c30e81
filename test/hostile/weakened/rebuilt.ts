/** The guest library built from its sources with one protection taken out of them. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";
import { withLiveEnvelopes } from "./library.ts";

const GUEST = fileURLToPath(new URL("../../../sandbox/guest/", import.meta.url));

/** What captures a method, and what looks it up each time instead. */
const CAPTURES: readonly (readonly [RegExp, string])[] = [
  [
    /export const (\w+) = unbound\(\s*([\w.]+)\s*\);/g,
    "export const $1 = (self, ...rest) => ($2).apply(self, rest);",
  ],
  [
    /export const (\w+) = ((?:Object|Reflect|JSON|Math|Number|Array|String|Date)\.\w+);/g,
    "export const $1 = (...given) => $2(...given);",
  ],
];

/** Definitions that take the place of the careful ones. */
const CARELESS: Readonly<Record<string, string>> = {
  list: "() => []",
  push: "(to, value) => void to.push(value)",
  define: `(target, key, value) => {
    try { target[key] = value; }
    catch { Object.defineProperty(target, key, { value, writable: true, configurable: true }); }
  }`,
  defineFixed: `(target, key, value) => {
    try { Object.defineProperty(target, key, { value, writable: true, configurable: true }); }
    catch { kept_defineFixed(target, key, value); }
  }`,
  own: "(value, key) => value[key]",
  isError: "(value) => value instanceof Error",
  StringOf: "(value) => value === undefined || value === null ? `${value}` : value.toString()",
  hasOwn: "(value, key) => key in value",
};

/**
 * Built-ins are looked up on the tenant's own prototypes when they are used, records are ordinary
 * objects filled by assignment, and envelopes go through the tenant's JSON.
 */
export async function lateBoundLibrary(): Promise<string> {
  const text = await builtWith("primordials.ts", (code) => {
    let changed = code;
    for (const [pattern, replacement] of CAPTURES) changed = changed.replace(pattern, replacement);
    return redefined(changed, CARELESS);
  });
  return withLiveEnvelopes(text);
}

/** What the engine has and the library takes away is left where it is. */
export function stockGlobalsLibrary(): Promise<string> {
  return builtWith("lockdown.ts", (code) => redefined(code, { lockDown: "() => undefined" }));
}

async function builtWith(file: string, change: (code: string) => string): Promise<string> {
  const built = await build({
    entryPoints: [`${GUEST}workflow.guest.ts`],
    bundle: true,
    write: false,
    format: "iife",
    globalName: "__baton_guest",
    platform: "neutral",
    mainFields: ["module", "main"],
    target: "es2022",
    logLevel: "error",
    plugins: [
      {
        name: "weakened",
        setup(plugin) {
          plugin.onLoad({ filter: /[\\/]guest[\\/]\w+\.ts$/ }, async ({ path }) => {
            if (!path.endsWith(file)) return null;
            const source = readFileSync(path, "utf8");
            const { code } = await transform(source, { loader: "ts", target: "es2022" });
            return { contents: change(code), loader: "js" };
          });
        },
      },
    ],
  });
  return built.outputFiles[0]?.text ?? "";
}

/** The module with these exports defined anew; it goes on using its own while it loads. */
function redefined(code: string, definitions: Readonly<Record<string, string>>): string {
  let changed = code;
  for (const [name, definition] of Object.entries(definitions)) {
    const kept = `kept_${name}`;
    changed = changed
      .replace(new RegExp(`export function ${name}\\b`), `function ${kept}`)
      .replace(new RegExp(`export const ${name} =`), `const ${kept} =`);
    if (!changed.includes(kept)) throw new Error(`nothing is exported as ${name}`);
    changed += `\nexport const ${name} = ${definition};`;
  }
  return changed;
}
