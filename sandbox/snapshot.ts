/**
 * Heap images as bytes: what is written, and what must hold before any of it is believed.
 *
 * Knows nothing of where they are kept. They hold tenants' data in plain; the caller seals them.
 *
 * S9  An image is restored only where the same wasm, guest library, bundle, options and codec made
 *     the same bundle image, and only for the run and log position it was taken for.
 * S10  Damage is refused before anything of the image is used: the checksum covers every byte, and
 *     sizes are checked against what they claim before memory is taken for them.
 */
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { compress } from "zstd-napi";
import type * as zstdBinding from "zstd-napi/binding.js";
import type { RunRef } from "../engine/ids.ts";
import type { SnapshotPosition } from "../engine/ports/sandbox.ts";
import { PAGE_BYTES, isLivePage } from "./heap.ts";
import type { Delta, Image } from "./heap.ts";
import type { Registers } from "./instance.ts";
import { WASM_SHA256 } from "./wasm.ts";

// The package's simple interface takes as much memory as the frame claims; the binding does not.
const { DCtx } = createRequire(import.meta.url)("zstd-napi/binding") as typeof zstdBinding;

/** What an image belongs to; its digest is written into it. */
export interface SnapshotBinding extends SnapshotPosition {
  readonly run: RunRef;
}

export interface HeapContent {
  readonly registers: Registers;
  readonly memoryBytes: number;
  readonly consumedSlot: number;
  readonly delta: Delta;
}

export interface FingerprintParts {
  readonly guestLibrary: string;
  readonly code: string;
  readonly bundleHash: string;
  readonly stackBytesMax: number;
  readonly bundleImage: Image;
}

const FORMAT = "baton heap image 1";
const CODEC = "zstd-1";
const COMPRESSION_LEVEL = 1;

/** Over everything that an image relies on besides its run. 64 hexadecimal digits. */
export function fingerprintOf(parts: FingerprintParts): string {
  return sha256([
    FORMAT,
    CODEC,
    WASM_SHA256,
    parts.guestLibrary,
    parts.code,
    parts.bundleHash,
    String(parts.stackBytesMax),
    parts.bundleImage.sha256,
  ]).toString("hex");
}

const DIGEST_BYTES = 32;
/** Offsets of the head's fields; the head is checksum, fingerprint, binding, then numbers. */
const AT = {
  checksum: 0,
  fingerprint: DIGEST_BYTES,
  binding: 2 * DIGEST_BYTES,
  runtime: 3 * DIGEST_BYTES,
  context: 3 * DIGEST_BYTES + 4,
  dispatch: 3 * DIGEST_BYTES + 8,
  memoryBytes: 3 * DIGEST_BYTES + 12,
  pageCount: 3 * DIGEST_BYTES + 16,
  clockMs: 3 * DIGEST_BYTES + 20,
  consumedSlot: 3 * DIGEST_BYTES + 28,
  body: 3 * DIGEST_BYTES + 36,
} as const;

export function encodeSnapshot(
  content: HeapContent,
  fingerprint: string,
  binding: SnapshotBinding,
): Uint8Array {
  const { registers, delta } = content;
  const indexes = Buffer.from(delta.pages.buffer, delta.pages.byteOffset, delta.pages.byteLength);
  const body = compress(Buffer.concat([indexes, delta.bytes]), {
    compressionLevel: COMPRESSION_LEVEL,
  });
  const out = Buffer.alloc(AT.body + body.length);
  out.write(fingerprint, AT.fingerprint, "hex");
  bindingDigest(binding).copy(out, AT.binding);
  out.writeUInt32LE(registers.runtime, AT.runtime);
  out.writeUInt32LE(registers.context, AT.context);
  out.writeUInt32LE(registers.dispatch, AT.dispatch);
  out.writeUInt32LE(content.memoryBytes, AT.memoryBytes);
  out.writeUInt32LE(delta.pages.length, AT.pageCount);
  out.writeDoubleLE(registers.clockMs, AT.clockMs);
  out.writeDoubleLE(content.consumedSlot, AT.consumedSlot);
  body.copy(out, AT.body);
  sha256([out.subarray(DIGEST_BYTES)]).copy(out, AT.checksum);
  // A plain array: a Buffer's `slice` would share the bytes with the caller's copy.
  return new Uint8Array(out.buffer, out.byteOffset, out.length);
}

/** The content, or why it is refused. `heapBytesMax`: more memory than this is never taken. */
export function decodeSnapshot(
  bytes: Uint8Array,
  expected: { fingerprint: string; binding: SnapshotBinding; heapBytesMax: number },
): HeapContent | { readonly refused: string } {
  const image = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (image.length < AT.body) return refused("it is cut short");
  const checksum = image.subarray(AT.checksum, AT.checksum + DIGEST_BYTES);
  if (!checksum.equals(sha256([image.subarray(DIGEST_BYTES)]))) return refused("it is damaged");
  if (image.toString("hex", AT.fingerprint, AT.binding) !== expected.fingerprint) {
    return refused("another build, bundle or option made it");
  }
  const binding = image.subarray(AT.binding, AT.binding + DIGEST_BYTES);
  if (!binding.equals(bindingDigest(expected.binding))) {
    return refused("it belongs to another run or position");
  }
  const memoryBytes = image.readUInt32LE(AT.memoryBytes);
  if (memoryBytes > expected.heapBytesMax) return refused("it is larger than the heap limit");
  const delta = deltaIn(image, memoryBytes);
  if (delta === null) return refused("its pages are not what it claims");
  return {
    registers: {
      runtime: image.readUInt32LE(AT.runtime),
      context: image.readUInt32LE(AT.context),
      dispatch: image.readUInt32LE(AT.dispatch),
      clockMs: image.readDoubleLE(AT.clockMs),
    },
    memoryBytes,
    consumedSlot: image.readDoubleLE(AT.consumedSlot),
    delta,
  };
}

/** The body, inflated to exactly the size that the number of pages says; null if it is not so. */
function deltaIn(image: Buffer, memoryBytes: number): Delta | null {
  const count = image.readUInt32LE(AT.pageCount);
  if (count > memoryBytes / PAGE_BYTES) return null;
  const body = image.subarray(AT.body);
  const size = count * (4 + PAGE_BYTES);
  const inflated = Buffer.allocUnsafeSlow(size);
  try {
    // It writes no further than the buffer that it is given.
    if (new DCtx().decompress(inflated, body) !== size) return null;
  } catch {
    return null;
  }
  const indexBytes = 4 * count;
  const pages = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    const page = inflated.readUInt32LE(4 * i);
    if (!isLivePage(page, memoryBytes) || page <= (pages[i - 1] ?? -1)) return null;
    pages[i] = page;
  }
  return { pages, bytes: inflated.subarray(indexBytes) };
}

function refused(reason: string): { readonly refused: string } {
  return { refused: reason };
}

function bindingDigest({ run, slot, digest }: SnapshotBinding): Buffer {
  return sha256([run.tenantId, run.runId, String(slot), digest]);
}

/** Over parts that cannot run into each other. */
function sha256(parts: readonly (string | Uint8Array)[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) {
    hash.update(`${Buffer.byteLength(part)}:`).update(part);
  }
  return hash.digest();
}
