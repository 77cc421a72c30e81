/**
 * The part of the WebAssembly interface that the sandbox uses. TypeScript declares it only along
 * with the DOM, which would bring a browser's globals into code that has none.
 */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array<ArrayBuffer>);
    static imports(module: Module): { module: string; name: string; kind: string }[];
  }
  class Instance {
    readonly exports: Readonly<Record<string, unknown>>;
    constructor(
      module: Module,
      imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
    );
  }
  class Memory {
    readonly buffer: ArrayBuffer;
    constructor(limits: { readonly initial: number; readonly maximum: number });
    /** Grows by so many pages; throws where it cannot. */
    grow(pages: number): number;
  }
  class LinkError extends Error {}
  class RuntimeError extends Error {}
}
