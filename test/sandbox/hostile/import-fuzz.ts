/**
 * The functions that the wasm module imports from its host, called with what a broken engine could
 * pass: wild pointers, lengths and counts.
 */
import { HeapBroken } from "../../../sandbox/imports.ts";
import { Instance } from "../../../sandbox/instance.ts";
import { IMPORT_NAMES, STACK_TOP, WASM_PAGE_BYTES, compileModule } from "../../../sandbox/wasm.ts";
import { chooser } from "../chooser.ts";

const HEAP_BYTES_MAX = 8 << 20;
const PAGES_MAX = HEAP_BYTES_MAX / WASM_PAGE_BYTES;

type Import = (...args: (number | bigint)[]) => unknown;

/** The imports of one instance, exactly as its module gets them. */
function importsOf(module: WebAssembly.Module): {
  instance: Instance;
  imports: Readonly<Record<string, Import>>;
} {
  const Shipped = WebAssembly.Instance;
  let taken: Record<string, Record<string, unknown>> = {};
  const Recording = function (this: unknown, of: WebAssembly.Module, given: typeof taken) {
    taken = given;
    return new Shipped(of, given);
  };
  WebAssembly.Instance = Recording as unknown as typeof Shipped;
  try {
    const instance = new Instance(module, PAGES_MAX);
    instance.heapBytesMax = HEAP_BYTES_MAX;
    instance.createContext(256 << 10, 0);
    const all = Object.assign({}, ...Object.values(taken)) as Record<string, unknown>;
    const imports = Object.fromEntries(
      Object.entries(IMPORT_NAMES).flatMap(([name, minified]) => {
        const given = all[minified];
        return typeof given === "function" ? [[name, given as Import]] : [];
      }),
    );
    return { instance, imports };
  } finally {
    WebAssembly.Instance = Shipped;
  }
}

export interface ImportFuzzResult {
  readonly functions: number;
  readonly calls: number;
  /** Calls that ended in the heap being given up, as they should where a pointer leads out. */
  readonly broken: number;
  readonly failures: readonly string[];
}

export function fuzzImports(seed: number, calls: number): ImportFuzzResult {
  const choose = chooser(seed);
  const module = compileModule();
  let { instance, imports } = importsOf(module);
  const names = Object.keys(imports);
  const failures: string[] = [];
  let broken = 0;
  for (let i = 0; i < calls; i++) {
    // What a call wrote into the heap may have broken it; a fresh one shows each function whole.
    if (i % 500 === 499) ({ instance, imports } = importsOf(module));
    const name = names[choose(names.length)] as string;
    const args = Array.from({ length: 4 }, () => wild(choose, instance.bytes.length));
    const given = name === "localtime" ? [BigInt(args[0] as number) << 20n, args[1]] : args;
    try {
      (imports[name] as Import)(...(given as number[]));
    } catch (error) {
      if (error instanceof HeapBroken || error instanceof WebAssembly.RuntimeError) broken++;
      else failures.push(`${name}(${given.join(", ")}): ${String(error)}`);
    }
    if (instance.bytes.length > HEAP_BYTES_MAX) failures.push(`${name} grew past the limit`);
  }
  return { functions: names.length, calls, broken, failures: failures.slice(0, 10) };
}

/** An i32 as a module passes it. */
function wild(choose: (bound: number) => number, memoryBytes: number): number {
  const edges = [
    0,
    1,
    -1,
    4,
    memoryBytes,
    memoryBytes - 1,
    memoryBytes - 3,
    memoryBytes + 1,
    STACK_TOP,
    0x7fffffff,
    -0x80000000,
    HEAP_BYTES_MAX,
    HEAP_BYTES_MAX + 1,
  ];
  if (choose(3) > 0) return edges[choose(edges.length)] as number;
  return choose(2) === 0 ? choose(memoryBytes) : choose(0x7fffffff) * (choose(2) ? 1 : -1);
}
