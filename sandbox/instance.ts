/**
 * One wasm instance with one QuickJS context in it, as calls with strings.
 *
 * Owns the instance's memory, its latches and the rules of calling into it. Knows nothing of runs,
 * events or bundles. All methods may throw `HeapBroken`, a wasm trap or a stack overflow of the
 * host's own; the caller then discards the instance.
 *
 * S5  Memory grows only in `#grow`, which refuses past the limit and remembers that it did. What
 *     the guest makes of the refusal changes nothing: the pass ends with the limit.
 * S6  Between two calls the wasm stack is empty, or the instance is broken.
 * S7  The interrupt handler is armed again before every entry.
 */
import { SANDBOX_LIMITS } from "./limits.ts";
import { HeapBroken, hostImports } from "./imports.ts";
import { INITIAL_PAGES, STACK_TOP, WASM_PAGE_BYTES, instantiate } from "./wasm.ts";
import type { WasmExports } from "./wasm.ts";

/** A handle of a guest value, inside the instance. */
export type ValuePointer = number;

/** What of a heap is not in its memory. */
export interface Registers {
  readonly runtime: number;
  readonly context: number;
  readonly dispatch: ValuePointer;
  /** The guest clock, epoch ms. */
  readonly clockMs: number;
}

export interface InstanceHost {
  /** Asked while guest code runs; true stops it. */
  isInterrupted(): boolean;
  hostCall(name: string, value: string): void;
  /** Called whenever the engine reads its clock. */
  clockWasRead(): void;
}

/** A guest exception, as text from the engine's own dump. */
export class GuestThrow extends Error {
  override readonly name = "GuestThrow";
}

const HOST_FUNCTION_ID = 1;
/** Gaps of these sizes are filled; what is larger is a run's room, what is smaller nothing fits. */
const GAP_BYTES_MAX = 64 << 10;
const GAP_BYTES_STEP = 16;
/** Growth beyond what is asked, so that a growing heap does not move page by page. */
const GROWTH_SHARE = 1 / 8;

export class Instance {
  readonly pagesMax: number;
  /** All of linear memory; replaced when it grows. */
  bytes: Buffer<ArrayBuffer>;
  host: InstanceHost | null = null;
  heapBytesMax = 0;
  /** The image that this instance holds untouched; null: anything else. */
  pristine: object | null = null;
  registers: Registers = { runtime: 0, context: 0, dispatch: 0, clockMs: 0 };
  readonly #memory: WebAssembly.Memory;
  readonly #wasm: WasmExports;
  #refusedBytes: number | null = null;
  #isHostOutOfMemory = false;
  #isHostAllocating = false;

  constructor(module: WebAssembly.Module, pagesMax: number) {
    this.pagesMax = pagesMax;
    this.#memory = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum: pagesMax });
    this.bytes = Buffer.from(this.#memory.buffer);
    this.#wasm = instantiate(
      module,
      this.#memory,
      hostImports({
        region: (pointer, bytes) => this.#region(pointer, bytes),
        clockMs: () => {
          this.host?.clockWasRead();
          return this.registers.clockMs;
        },
        grow: (bytes) => this.#grow(bytes),
        isInterrupted: () => this.host?.isInterrupted() ?? true,
        hostCall: (count, pointers) => this.#hostCall(count, pointers),
      }),
    );
  }

  /** How many bytes of memory were asked for when growth was first refused, or null. */
  get refusedBytes(): number | null {
    return this.#refusedBytes;
  }

  /** The machine, not the limit, had no more memory. */
  get isHostOutOfMemory(): boolean {
    return this.#isHostOutOfMemory;
  }

  clearLatches(): void {
    this.#refusedBytes = null;
    this.#isHostOutOfMemory = false;
  }

  /** Makes room before a larger image is copied in. False: it does not fit the limit. */
  reserve(bytes: number): boolean {
    return bytes <= this.bytes.length || this.#grow(bytes);
  }

  /** A runtime and a context of our own, with nothing evaluated. */
  createContext(stackBytesMax: number, clockMs: number): void {
    this.registers = { ...this.registers, clockMs };
    const runtime = this.#wasm.QTS_NewRuntime();
    this.#wasm.QTS_RuntimeSetMaxStackSize(runtime, stackBytesMax);
    const context = this.#wasm.QTS_NewContext(runtime, 0);
    this.registers = { runtime, context, dispatch: 0, clockMs };
  }

  setClock(clockMs: number): void {
    this.registers = { ...this.registers, clockMs };
  }

  /** Evaluates a script and lets go of its value. Throws `GuestThrow`. */
  run(code: string, fileName: string): void {
    this.#free(this.#evaluate(code, fileName));
  }

  /** Evaluates to a function, calls it with the host function, and keeps what it answers. */
  boot(code: string, fileName: string): void {
    const boot = this.#evaluate(code, fileName);
    const name = this.#text("hostCall");
    const hostFunction = this.#wasm.QTS_NewFunction(
      this.registers.context,
      name.pointer,
      2,
      0,
      HOST_FUNCTION_ID,
    );
    this.#wasm.free(name.pointer);
    const dispatch = this.#call(boot, [hostFunction]);
    this.#free(hostFunction);
    this.#free(boot);
    this.registers = { ...this.registers, dispatch };
  }

  /**
   * One command to the guest library. Null: the answer is over `bytesMax`, or no string could be
   * made of it. Throws `GuestThrow`.
   */
  dispatch(command: string, payloadText: string | null, bytesMax: number): string | null {
    const handles = [this.#newString(command)];
    if (payloadText !== null) handles.push(this.#newString(payloadText));
    const answer = this.#call(this.registers.dispatch, handles);
    for (const handle of handles) this.#free(handle);
    const text = this.#string(answer, bytesMax);
    this.#free(answer);
    return text;
  }

  get hasJobs(): boolean {
    return this.#wasm.QTS_IsJobPending(this.registers.runtime) !== 0;
  }

  /** Runs at most so many jobs; how many, at least 1. A job that throws has had its effect. */
  runJobs(max: number): number {
    this.#enter();
    const context = this.#wasm.malloc(4);
    const result = this.#wasm.QTS_ExecutePendingJob(this.registers.runtime, max, context);
    this.#wasm.free(context);
    this.#leave();
    const type = this.#wasm.QTS_Typeof(this.registers.context, result);
    const isCount = this.#cString(type, 16) === "number";
    this.#wasm.free(type);
    const count = isCount ? this.#wasm.QTS_GetFloat64(this.registers.context, result) : 1;
    this.#free(result);
    return count >= 1 && count <= max ? count : 1;
  }

  #evaluate(code: string, fileName: string): ValuePointer {
    const source = this.#text(code);
    const file = this.#text(fileName);
    this.#enter();
    const value = this.#wasm.QTS_Eval(
      this.registers.context,
      source.pointer,
      source.bytes,
      file.pointer,
      0,
      0,
    );
    this.#leave();
    this.#wasm.free(source.pointer);
    this.#wasm.free(file.pointer);
    return this.#checked(value);
  }

  #call(callee: ValuePointer, values: readonly ValuePointer[]): ValuePointer {
    const list = this.#allocated(4 * values.length);
    const view = this.#region(list, 4 * values.length);
    values.forEach((value, i) => view.setUint32(4 * i, value, true));
    this.#enter();
    const result = this.#wasm.QTS_Call(
      this.registers.context,
      callee,
      this.#wasm.QTS_GetUndefined(),
      values.length,
      list,
    );
    this.#leave();
    this.#wasm.free(list);
    return this.#checked(result);
  }

  #checked(value: ValuePointer): ValuePointer {
    const error = this.#wasm.QTS_ResolveException(this.registers.context, value);
    if (error === 0) return value;
    this.#free(value);
    throw new GuestThrow(this.#dump(error));
  }

  /** The engine's own text of an error; it runs guest code where the error has accessors. */
  #dump(error: ValuePointer): string {
    this.#enter();
    const text = this.#wasm.QTS_Dump(this.registers.context, error);
    this.#leave();
    const read = this.#cString(text, SANDBOX_LIMITS.bundleErrorBytesMax) ?? "";
    this.#wasm.QTS_FreeCString(this.registers.context, text);
    this.#free(error);
    return read;
  }

  #enter(): void {
    this.#wasm.QTS_RuntimeEnableInterruptHandler(this.registers.runtime);
  }

  #leave(): void {
    if (this.#wasm.stackGet() !== STACK_TOP) throw new HeapBroken("the wasm stack leaked");
  }

  #grow(bytes: number): boolean {
    const headroom = this.#isHostAllocating ? SANDBOX_LIMITS.hostHeadroomBytes : 0;
    const pagesAllowed = Math.floor((this.heapBytesMax + headroom) / WASM_PAGE_BYTES);
    const pagesAsked = Math.ceil(bytes / WASM_PAGE_BYTES);
    if (pagesAsked > Math.min(pagesAllowed, this.pagesMax)) {
      this.#refusedBytes ??= bytes;
      return false;
    }
    const pagesWanted = Math.ceil(pagesAsked * (1 + GROWTH_SHARE));
    const pages = Math.min(pagesWanted, pagesAllowed, this.pagesMax);
    try {
      this.#memory.grow(pages - this.bytes.length / WASM_PAGE_BYTES);
    } catch {
      this.#isHostOutOfMemory = true;
      return false;
    }
    this.bytes = Buffer.from(this.#memory.buffer);
    return true;
  }

  #region(pointer: number, bytes: number): DataView {
    if (pointer < 0 || pointer + bytes > this.bytes.length) {
      throw new HeapBroken("a pointer leads out of the heap");
    }
    return new DataView(this.bytes.buffer, pointer, bytes);
  }

  /** Whatever `hostCall` was given by whomever: texts, cut to size, and no answer. */
  #hostCall(count: number, pointers: number): void {
    const texts = [0, 1].map((i) => {
      if (i >= count) return "";
      const value = this.#wasm.QTS_ArgvGetJSValueConstPointer(pointers, i);
      return this.#string(value, SANDBOX_LIMITS.hostCallBytesMax) ?? "";
    });
    this.host?.hostCall(texts[0] as string, texts[1] as string);
  }

  /** The string of a guest value; null if it is longer than `bytesMax` or cannot be made. */
  #string(value: ValuePointer, bytesMax: number): string | null {
    const text = this.#wasm.QTS_GetString(this.registers.context, value);
    if (text === 0) return null;
    const read = this.#cString(text, bytesMax);
    this.#wasm.QTS_FreeCString(this.registers.context, text);
    return read;
  }

  #cString(pointer: number, bytesMax: number): string | null {
    if (pointer === 0) return null;
    const end = this.bytes.indexOf(0, pointer);
    if (end === -1) throw new HeapBroken("a text has no end");
    return end - pointer > bytesMax ? null : this.bytes.toString("utf8", pointer, end);
  }

  #newString(text: string): ValuePointer {
    const { pointer } = this.#text(text);
    this.#isHostAllocating = true;
    const value = this.#wasm.QTS_NewString(this.registers.context, pointer);
    this.#isHostAllocating = false;
    this.#wasm.free(pointer);
    return value;
  }

  /**
   * Takes what is free below the top of the heap, for good. Evaluating a bundle leaves gaps all over
   * its pages; a run would fill them and so touch, and put into its snapshot, many pages for little.
   */
  fillGaps(): void {
    const top = this.#allocated(GAP_BYTES_MAX * 2);
    for (let bytes = GAP_BYTES_MAX; bytes > 0; bytes -= GAP_BYTES_STEP) {
      let taken = this.#allocated(bytes);
      while (taken < top) taken = this.#allocated(bytes);
      this.#wasm.free(taken);
    }
    this.#wasm.free(top);
  }

  /** A zero-terminated copy inside the heap; the caller frees it. */
  #text(text: string): { pointer: number; bytes: number } {
    const bytes = Buffer.byteLength(text);
    const pointer = this.#allocated(bytes + 1);
    this.#region(pointer, bytes + 1).setUint8(bytes, 0);
    this.bytes.write(text, pointer, bytes, "utf8");
    return { pointer, bytes };
  }

  #allocated(bytes: number): number {
    this.#isHostAllocating = true;
    const pointer = this.#wasm.malloc(bytes);
    this.#isHostAllocating = false;
    if (pointer === 0) throw new HeapBroken("the heap has no room for the host's text");
    return pointer;
  }

  #free(value: ValuePointer): void {
    this.#wasm.QTS_FreeValuePointer(this.registers.context, value);
  }
}
