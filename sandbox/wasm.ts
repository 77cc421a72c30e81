/**
 * The pinned QuickJS module: which bytes it is, what its minified names mean, how its memory is
 * laid out, and the one change made to it (the limits of its memory import).
 *
 * Owns nothing of any heap. The tables below belong to one build and are never guessed at run
 * time: a test derives them again from the package's own glue.
 *
 * S2  No other wasm than the one of `WASM_SHA256` is ever instantiated.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { InvariantViolation, assert } from "../engine/assert.ts";
import { HEAP_LIMIT_RANGES } from "../engine/limits.ts";

export const WASM_SHA256 = "105c3bed22d457e43e3d1c3c1c6959fda62a8fe06f0fc8a985303c3a2be72232";

/** Size of a wasm page, the unit in which linear memory grows. */
export const WASM_PAGE_BYTES = 65_536;
/** Where the C stack ends and starts: it grows down from `STACK_TOP`, the heap begins above. */
export const STACK_BOTTOM = 90_208;
export const STACK_TOP = 5_333_088;
/** Data, the C stack and 36 KiB of heap: the least memory that the module runs in. */
export const INITIAL_PAGES = 82;
/** No heap of any tenant is larger, bytes. */
export const HEAP_BYTES_CEILING = HEAP_LIMIT_RANGES.heapBytesMax[1];
/** The ceiling, and the host's headroom above it. */
export const MODULE_PAGES_MAX = HEAP_BYTES_CEILING / WASM_PAGE_BYTES + 32;

/** Names of the functions that the module exports, by what they are. */
export const EXPORT_NAMES = {
  construct: "u",
  malloc: "v",
  free: "M",
  QTS_RuntimeSetMaxStackSize: "D",
  QTS_GetUndefined: "E",
  QTS_NewRuntime: "K",
  QTS_NewContext: "N",
  QTS_FreeValuePointer: "P",
  QTS_FreeCString: "S",
  QTS_GetFloat64: "Z",
  QTS_NewString: "_",
  QTS_GetString: "$",
  QTS_IsJobPending: "fa",
  QTS_ExecutePendingJob: "ga",
  QTS_Call: "ma",
  QTS_ResolveException: "na",
  QTS_Dump: "oa",
  QTS_Eval: "pa",
  QTS_Typeof: "ra",
  QTS_NewFunction: "Da",
  QTS_ArgvGetJSValueConstPointer: "Ea",
  QTS_RuntimeEnableInterruptHandler: "Fa",
  stackGet: "Oa",
} as const;

/** Names of the functions that the module imports, by what they are. */
export const IMPORT_NAMES = {
  assertFail: "b",
  fdWrite: "c",
  fdClose: "d",
  environGet: "e",
  environSizesGet: "f",
  normalizeModule: "g",
  loadModuleSource: "h",
  shouldInterrupt: "i",
  setItimer: "j",
  resizeHeap: "k",
  keepaliveClear: "l",
  localtime: "m",
  tzset: "n",
  fdSeek: "o",
  now: "p",
  abort: "q",
  exit: "r",
  callFunction: "s",
  freeHostRef: "t",
} as const;

export const IMPORT_MODULE = "a";
export const MEMORY_IMPORT = "a";

export type WasmExports = {
  readonly [Name in keyof typeof EXPORT_NAMES]: (...args: number[]) => number;
};
export type WasmImports = {
  readonly [Name in keyof typeof IMPORT_NAMES]: (...args: never[]) => number | void;
};

const require = createRequire(import.meta.url);

/** Reads, checks, rewrites and compiles the module: about 10 ms, once a thread or shared by them. */
export function compileModule(): WebAssembly.Module {
  const bytes = readFileSync(require.resolve("@jitl/quickjs-wasmfile-release-sync/wasm"));
  const sha = createHash("sha256").update(bytes).digest("hex");
  assert(sha === WASM_SHA256, "the installed wasm is the pinned one");
  return new WebAssembly.Module(withMemoryLimits(bytes, INITIAL_PAGES, MODULE_PAGES_MAX));
}

/** One instance over `memory`; its constructors have run, no runtime exists yet. */
export function instantiate(
  module: WebAssembly.Module,
  memory: WebAssembly.Memory,
  imports: WasmImports,
): WasmExports {
  const named: Record<string, unknown> = { [MEMORY_IMPORT]: memory };
  for (const [meaning, name] of Object.entries(IMPORT_NAMES)) {
    named[name] = imports[meaning as keyof WasmImports];
  }
  const { exports } = new WebAssembly.Instance(module, { [IMPORT_MODULE]: named });
  const functions: Record<string, unknown> = {};
  for (const [meaning, name] of Object.entries(EXPORT_NAMES)) functions[meaning] = exports[name];
  const known = functions as WasmExports;
  known.construct();
  return known;
}

const IMPORT_SECTION = 2;
const KIND_FUNCTION = 0;
const KIND_MEMORY = 2;
const HAS_MAXIMUM = 1;

/**
 * The same module with other limits on its memory import. As built it asks for 16 MiB at least,
 * three times what a heap needs, and allows 2 GiB.
 */
export function withMemoryLimits(
  module: Uint8Array,
  pagesMin: number,
  pagesMax: number,
): Uint8Array<ArrayBuffer> {
  const reader = new Reader(module, 8);
  while (!reader.atEnd) {
    const sectionStart = reader.at;
    const id = reader.byte();
    const length = reader.number();
    const body = reader.at;
    if (id !== IMPORT_SECTION) {
      reader.skip(length);
      continue;
    }
    const [limits, after] = memoryLimitsIn(reader);
    const section = Buffer.concat([
      module.subarray(body, limits),
      Uint8Array.of(HAS_MAXIMUM, ...leb128(pagesMin), ...leb128(pagesMax)),
      module.subarray(after, body + length),
    ]);
    return new Uint8Array(
      Buffer.concat([
        module.subarray(0, sectionStart),
        Uint8Array.of(IMPORT_SECTION, ...leb128(section.length)),
        section,
        module.subarray(body + length),
      ]),
    );
  }
  throw new InvariantViolation("the module has an import section");
}

/** Where the limits of the memory import begin and end. The reader stands at the section's body. */
function memoryLimitsIn(reader: Reader): [number, number] {
  for (let left = reader.number(); left > 0; left--) {
    reader.skip(reader.number());
    reader.skip(reader.number());
    const kind = reader.byte();
    if (kind === KIND_FUNCTION) {
      reader.number();
      continue;
    }
    assert(kind === KIND_MEMORY, "the module imports functions and one memory");
    const start = reader.at;
    const flags = reader.byte();
    reader.number();
    if ((flags & HAS_MAXIMUM) !== 0) reader.number();
    return [start, reader.at];
  }
  throw new InvariantViolation("the module imports its memory");
}

class Reader {
  readonly #bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  get atEnd(): boolean {
    return this.at >= this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.at++];
    assert(value !== undefined, "a module does not end within a section");
    return value;
  }

  skip(bytes: number): void {
    this.at += bytes;
  }

  /** An unsigned LEB128. */
  number(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value |= (byte & 127) << shift;
      if (byte < 128) return value >>> 0;
    }
  }
}

function leb128(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest >>>= 7;
  }
  bytes.push(rest);
  return bytes;
}
