/** Derives the tables of `wasm.ts` again from the glue that the package ships with its wasm. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import {
  EXPORT_NAMES,
  IMPORT_NAMES,
  INITIAL_PAGES,
  MODULE_PAGES_MAX,
  STACK_BOTTOM,
  STACK_TOP,
  WASM_SHA256,
  compileModule,
  withMemoryLimits,
} from "../../sandbox/wasm.ts";

const require = createRequire(import.meta.url);
const wasmFile = require.resolve("@jitl/quickjs-wasmfile-release-sync/wasm");
const wasm = readFileSync(wasmFile);
const glue = readFileSync(wasmFile.replace(/\.wasm$/, ".mjs"), "utf8");

function nameIn(pattern: RegExp): string {
  const name = pattern.exec(glue)?.[1];
  expect(name, String(pattern)).toBeDefined();
  return name as string;
}

describe("the tables of the pinned wasm", () => {
  it("the installed file is the pinned one, and one flipped bit is another", () => {
    const sha = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
    expect(sha(wasm)).toBe(WASM_SHA256);
    const flipped = Buffer.from(wasm);
    flipped[5000] = (flipped[5000] as number) ^ 1;
    expect(sha(flipped)).not.toBe(WASM_SHA256);
  });

  it("exports have the names that the package's glue gives them", () => {
    for (const [meaning, name] of Object.entries(EXPORT_NAMES)) {
      if (meaning === "construct") expect(nameIn(/Z\.(\w+)\(\);H\?\.\(d\)/)).toBe(name);
      else if (meaning === "stackGet") expect(nameIn(/ta=b\.(\w+);return Z/)).toBe(name);
      else expect(nameIn(new RegExp(`d\\._${meaning}=b\\.([\\w$]+);`))).toBe(name);
    }
  });

  it("imports have the names under which the glue defines them", () => {
    const derived = {
      assertFail: nameIn(/(\w+):\(a,c,b,e\)=>N\(`Assertion failed/),
      fdWrite: nameIn(/(\w+):\(a,c,b,e\)=>\{for\(var f=0,g=0;g<b;/),
      fdClose: nameIn(/(\w+):\(\)=>52/),
      environGet: nameIn(/(\w+):\(a,c\)=>\{var b=0,e=0,f;for\(f of/),
      environSizesGet: nameIn(/(\w+):\(a,c\)=>\{var b=ra\(\)/),
      normalizeModule: nameIn(
        /(\w+):function\(a,c,b,e\)\{b=R\(b\);e=R\(e\);return d\.callbacks\.nor/,
      ),
      loadModuleSource: nameIn(/(\w+):function\(a,c,b\)\{b=R\(b\);return d\.callbacks\.load/),
      shouldInterrupt: nameIn(/(\w+):function\(a\)\{return d\.callbacks\.shouldInterrupt/),
      setItimer: nameIn(/(\w+):\(a,c\)=>\{T\[a\]/),
      resizeHeap: nameIn(/(\w+):a=>\{var c=K\.length/),
      keepaliveClear: nameIn(/(\w+):\(\)=>\{Q=!1;S=0\}/),
      localtime: nameIn(/(\w+):function\(a,c\)\{a=-9007199254740992/),
      tzset: nameIn(/(\w+):\(a,c,b,e\)=>\{var f=\(new Date\)/),
      fdSeek: nameIn(/(\w+):function\(\)\{return 70\}/),
      now: nameIn(/(\w+):\(\)=>Date\.now\(\)/),
      abort: nameIn(/(\w+):\(\)=>N\(""\)/),
      exit: nameIn(/(\w+):pa,/),
      callFunction: nameIn(/(\w+):function\(a,c,b,e,f\)\{return d\.callbacks\.callFunction/),
      freeHostRef: nameIn(/(\w+):function\(a,c\)\{d\.callbacks\.freeHostRef/),
    };
    expect(derived).toEqual(IMPORT_NAMES);
  });

  it("the module imports exactly these functions, and one memory", () => {
    const imports = WebAssembly.Module.imports(compileModule());
    const functions = imports.filter((entry) => entry.kind === "function");
    expect(functions.map((entry) => entry.name).sort()).toEqual(
      Object.values(IMPORT_NAMES).toSorted(),
    );
    expect(imports.filter((entry) => entry.kind !== "function")).toHaveLength(1);
  });

  it("the C stack lies between its bottom and its top, and an empty heap fits its first pages", () => {
    // The stack pointer is the module's only mutable global; its initial value is the top.
    const initial = Buffer.concat([Buffer.from([0x7f, 1, 0x41]), Buffer.from(leb(STACK_TOP))]);
    expect(wasm.includes(initial)).toBe(true);
    expect(STACK_TOP - STACK_BOTTOM).toBe(5 * 1024 * 1024);
    expect(STACK_TOP).toBeLessThan(INITIAL_PAGES * 65_536);
  });
});

describe("memory limits", () => {
  it("a memory above the rewritten maximum is refused by the engine", () => {
    const module = new WebAssembly.Module(withMemoryLimits(wasm, INITIAL_PAGES, 100));
    const imports = (memory: WebAssembly.Memory) => ({
      a: { ...Object.fromEntries(Object.values(IMPORT_NAMES).map((n) => [n, () => 0])), a: memory },
    });
    const fits = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum: 100 });
    expect(() => new WebAssembly.Instance(module, imports(fits))).not.toThrow();
    const above = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum: 101 });
    expect(() => new WebAssembly.Instance(module, imports(above))).toThrow(WebAssembly.LinkError);
  });

  it("nothing but the limits changes", () => {
    const rewritten = withMemoryLimits(wasm, 256, 32_768);
    expect(Buffer.from(rewritten).equals(wasm)).toBe(true);
    expect(MODULE_PAGES_MAX).toBeLessThan(32_768);
  });
});

/** Signed LEB128 of a positive number. */
function leb(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (;;) {
    const byte = rest & 127;
    rest >>= 7;
    if (rest === 0 && (byte & 64) === 0) return [...bytes, byte];
    bytes.push(byte | 128);
  }
}
