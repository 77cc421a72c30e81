/**
 * Heaps as memory: images, the reset of an instance to one, deltas against one, and the pool.
 *
 * Live memory is everything but the C stack, which is dead between two calls. It is counted in
 * 4 KiB pages: those below the stack's bottom, then those from the stack's top on.
 *
 * S8  An instance in the pool holds one image of its tenant's and zeros wherever that puts nothing,
 *     the C stack included, and only ever serves the tenant it served first.
 */
import { createHash } from "node:crypto";
import { assert } from "../engine/assert.ts";
import type { TenantId } from "../engine/ids.ts";
import { Instance } from "./instance.ts";
import type { Registers } from "./instance.ts";
import { SANDBOX_LIMITS } from "./limits.ts";
import { STACK_BOTTOM, STACK_TOP, WASM_PAGE_BYTES } from "./wasm.ts";

/** The grain of images and deltas. */
export const PAGE_BYTES = 4096;
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);
/** Pages 0 … LOW_PAGES - 1 hold data, pages from HIGH_PAGE on the heap. */
const LOW_PAGES = Math.ceil(STACK_BOTTOM / PAGE_BYTES);
const HIGH_PAGE = Math.floor(STACK_TOP / PAGE_BYTES);
const LOW_END = LOW_PAGES * PAGE_BYTES;
const HIGH_START = HIGH_PAGE * PAGE_BYTES;
/** What guest stacks use: their limit is a quarter of it. The rest is only ever looked at. */
const STACK_USED_BYTES = 1 << 20;
const DEEP_STACK_ZEROS = Buffer.alloc(HIGH_START - STACK_USED_BYTES - LOW_END);

/** A quiet heap's whole state, from which others start by a memory copy. */
export interface Image {
  readonly registers: Registers;
  /** Bytes of linear memory that the heap had. */
  readonly memoryBytes: number;
  readonly low: Buffer;
  /** From the stack's top up to the last byte that is not zero. */
  readonly high: Buffer;
  readonly sha256: string;
}

export function imageOf(instance: Instance): Image {
  clearStackInLivePages(instance);
  const low = Buffer.from(instance.bytes.subarray(0, LOW_END));
  let end = instance.bytes.length;
  while (end > HIGH_START && isZeroPage(instance.bytes, end - PAGE_BYTES)) end -= PAGE_BYTES;
  const high = Buffer.from(instance.bytes.subarray(HIGH_START, end));
  const { registers } = instance;
  const memoryBytes = instance.bytes.length;
  const sha256 = createHash("sha256")
    .update(JSON.stringify({ registers, memoryBytes }))
    .update(low)
    .update(high)
    .digest("hex");
  return { registers, memoryBytes, low, high, sha256 };
}

/** Turns an instance into the heap of the image. False: it does not fit the heap's limit. */
export function resetTo(instance: Instance, image: Image): boolean {
  if (!instance.reserve(image.memoryBytes)) return false;
  if (instance.pristine !== image) {
    if (instance.pristine !== null) scrub(instance);
    image.low.copy(instance.bytes, 0);
    image.high.copy(instance.bytes, HIGH_START);
  }
  instance.pristine = null;
  instance.registers = image.registers;
  return true;
}

/** The pages in which a heap differs from an image, XORed with it. */
export interface Delta {
  /** Ascending. */
  readonly pages: Uint32Array;
  /** `pages.length` × 4 KiB. */
  readonly bytes: Buffer;
}

export function deltaOf(instance: Instance, image: Image): Delta {
  clearStackInLivePages(instance);
  const memory = instance.bytes;
  const pages: number[] = [];
  for (let page = 0; page < LOW_PAGES; page++) {
    if (!isPageOf(image.low, memory, page * PAGE_BYTES, 0)) pages.push(page);
  }
  const pageEnd = memory.length / PAGE_BYTES;
  for (let page = HIGH_PAGE; page < pageEnd; page++) {
    if (!isPageOf(image.high, memory, page * PAGE_BYTES, HIGH_START)) pages.push(page);
  }
  const bytes = Buffer.allocUnsafeSlow(pages.length * PAGE_BYTES);
  pages.forEach((page, i) => {
    memory.copy(bytes, i * PAGE_BYTES, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
    xorWithImage(bytes, i * PAGE_BYTES, image, page);
  });
  return { pages: Uint32Array.from(pages), bytes };
}

/** Adds a delta to an instance that was just reset to the delta's image. */
export function applyDelta(instance: Instance, image: Image, delta: Delta): void {
  delta.pages.forEach((page, i) => {
    xorWithImage(delta.bytes, i * PAGE_BYTES, image, page);
    delta.bytes.copy(instance.bytes, page * PAGE_BYTES, i * PAGE_BYTES, (i + 1) * PAGE_BYTES);
  });
}

/** Whether a delta may name this page: live, and inside so much memory. */
export function isLivePage(page: number, memoryBytes: number): boolean {
  if (page < LOW_PAGES) return true;
  return page >= HIGH_PAGE && (page + 1) * PAGE_BYTES <= memoryBytes;
}

function isZeroPage(memory: Buffer, at: number): boolean {
  return memory.compare(ZERO_PAGE, 0, PAGE_BYTES, at, at + PAGE_BYTES) === 0;
}

/** Whether the page at `at` is the image part's, which begins at `partStart` and is zero past its
 * end. Parts end on page boundaries. */
function isPageOf(part: Buffer, memory: Buffer, at: number, partStart: number): boolean {
  const from = at - partStart;
  if (from >= part.length) return isZeroPage(memory, at);
  return memory.compare(part, from, from + PAGE_BYTES, at, at + PAGE_BYTES) === 0;
}

/** XORs one page in place; where the image has no such page, it is zero and nothing changes. */
function xorWithImage(bytes: Buffer, at: number, image: Image, page: number): void {
  const part = page < LOW_PAGES ? image.low : image.high;
  const from = (page < LOW_PAGES ? page : page - HIGH_PAGE) * PAGE_BYTES;
  if (from >= part.length) return;
  const target = words(bytes, at);
  const source = words(part, from);
  for (let i = 0; i < target.length; i++) {
    target[i] = (target[i] as number) ^ (source[i] as number);
  }
}

function words(bytes: Buffer, at: number): Int32Array {
  return new Int32Array(bytes.buffer, bytes.byteOffset + at, PAGE_BYTES / 4);
}

/** The ends of the C stack share their pages with live memory. */
function clearStackInLivePages(instance: Instance): void {
  instance.bytes.fill(0, STACK_BOTTOM, LOW_END);
  instance.bytes.fill(0, HIGH_START, STACK_TOP);
}

/**
 * Instances ready for the next heap of the same tenant, on one thread. Bounded in number; the one
 * unused for longest goes first.
 */
export class InstancePool {
  readonly #module: WebAssembly.Module;
  readonly #clean: { readonly tenantId: TenantId; readonly instance: Instance }[] = [];

  constructor(module: WebAssembly.Module) {
    this.#module = module;
  }

  /** An instance as the module makes it, for what starts from no image; null: no memory left. */
  fresh(heapBytesMax: number): Instance | null {
    try {
      const instance = new Instance(this.#module, pagesMaxOf(heapBytesMax));
      instance.heapBytesMax = heapBytesMax;
      return instance;
    } catch (error) {
      // What the engine throws where the machine gives no memory.
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /**
   * An instance to be reset to the image; it may grow to `heapBytesMax` (bytes of linear memory).
   * It may lack even the module's own data, which the image brings. Null: no memory left.
   */
  take(tenantId: TenantId, heapBytesMax: number, image: Image): Instance | null {
    const pagesMax = pagesMaxOf(heapBytesMax);
    const fits = (entry: { tenantId: TenantId; instance: Instance }) =>
      entry.tenantId === tenantId && entry.instance.pagesMax === pagesMax;
    const ready = this.#clean.findLastIndex(
      (entry) => fits(entry) && entry.instance.pristine === image,
    );
    const at = ready === -1 ? this.#clean.findLastIndex(fits) : ready;
    const pooled = at === -1 ? undefined : this.#clean.splice(at, 1)[0];
    if (pooled === undefined) return this.fresh(heapBytesMax);
    pooled.instance.heapBytesMax = heapBytesMax;
    return pooled.instance;
  }

  /**
   * Takes back an instance that nothing went wrong in. It is zeroed at once, not when reused, and
   * given the image it had, since the next heap of the tenant most likely wants the same.
   */
  give(tenantId: TenantId, instance: Instance, image: Image): void {
    instance.host = null;
    if (instance.bytes.length > SANDBOX_LIMITS.pooledBytesMax) return;
    scrub(instance);
    if (resetTo(instance, image)) instance.pristine = image;
    this.#clean.push({ tenantId, instance });
    if (this.#clean.length > SANDBOX_LIMITS.pooledInstancesMax) this.#clean.shift();
  }
}

/** The wasm maximum of a heap: its limit, and room for the texts that the host hands in. */
function pagesMaxOf(heapBytesMax: number): number {
  assert(heapBytesMax > 0, "a heap has a limit");
  return Math.ceil((heapBytesMax + SANDBOX_LIMITS.hostHeadroomBytes) / WASM_PAGE_BYTES);
}

function scrub(instance: Instance): void {
  const { bytes } = instance;
  bytes.fill(0, 0, LOW_END);
  bytes.fill(0, HIGH_START - STACK_USED_BYTES);
  // Reading untouched memory costs no memory, writing it does: only a stack that went deep, which
  // its limit does not let it, is written.
  const deepEnd = HIGH_START - STACK_USED_BYTES;
  if (bytes.compare(DEEP_STACK_ZEROS, 0, DEEP_STACK_ZEROS.length, LOW_END, deepEnd) !== 0) {
    bytes.fill(0, LOW_END, deepEnd);
  }
  instance.clearLatches();
  instance.pristine = null;
}
