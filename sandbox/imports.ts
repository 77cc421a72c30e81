/**
 * What the module may ask of the host: memory, the clock, whether to stop, and `hostCall`.
 * Everything else it imports either aborts the heap or answers as a machine without files,
 * environment and time zones.
 *
 * S3  Time, time zone and environment are ours: UTC, no variables, and the guest's own clock.
 * S4  A pointer that comes out of a heap is checked before it is used: the heap counts as hostile.
 */
import type { WasmImports } from "./wasm.ts";

/** A failure that is not the guest program's: the heap is discarded, never snapshotted or reused. */
export class HeapBroken extends Error {
  override readonly name = "HeapBroken";
}

export interface ImportHost {
  /** A view of the heap's memory, or `HeapBroken` if it is not all inside. */
  region(pointer: number, bytes: number): DataView;
  clockMs(): number;
  /** Whether memory now has so many bytes. */
  grow(bytes: number): boolean;
  isInterrupted(): boolean;
  hostCall(argumentCount: number, argumentPointers: number): void;
}

const ZONE_NAME = [...new TextEncoder().encode("UTC"), 0];
/** `struct tm` up to and with its offset from UTC. */
const TM_BYTES = 40;
const NOT_A_SEEKABLE_FILE = 70;
const NOT_SUPPORTED = 52;
const UNDEFINED = 0;

export function hostImports(host: ImportHost): WasmImports {
  return {
    resizeHeap: (bytes: number) => Number(host.grow(bytes >>> 0)),
    shouldInterrupt: () => Number(host.isInterrupted()),
    callFunction: (_context: number, _this: number, count: number, pointers: number) => {
      host.hostCall(count, pointers);
      return UNDEFINED;
    },
    now: () => host.clockMs(),
    localtime: (seconds: bigint, pointer: number) => {
      writeUtc(host.region(pointer, TM_BYTES), new Date(Number(seconds) * 1000));
    },
    tzset: (offset: number, daylight: number, standardName: number, daylightName: number) => {
      host.region(offset, 4).setInt32(0, 0, true);
      host.region(daylight, 4).setInt32(0, 0, true);
      for (const pointer of [standardName, daylightName]) {
        const name = host.region(pointer, ZONE_NAME.length);
        ZONE_NAME.forEach((byte, i) => name.setUint8(i, byte));
      }
    },
    environSizesGet: (count: number, bytes: number) => {
      host.region(count, 4).setUint32(0, 0, true);
      host.region(bytes, 4).setUint32(0, 0, true);
      return 0;
    },
    environGet: () => 0,
    fdWrite: () => NOT_SUPPORTED,
    fdClose: () => NOT_SUPPORTED,
    fdSeek: () => NOT_A_SEEKABLE_FILE,
    setItimer: () => 0,
    keepaliveClear: () => undefined,
    normalizeModule: () => 0,
    loadModuleSource: () => 0,
    freeHostRef: () => undefined,
    assertFail: () => broken("an assertion inside the engine failed"),
    abort: () => broken("the engine aborted"),
    exit: () => broken("the engine exited"),
  };
}

function broken(reason: string): never {
  throw new HeapBroken(reason);
}

function writeUtc(tm: DataView, date: Date): void {
  const dayOfYear = (date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000;
  const fields = [
    date.getUTCSeconds(),
    date.getUTCMinutes(),
    date.getUTCHours(),
    date.getUTCDate(),
    date.getUTCMonth(),
    date.getUTCFullYear() - 1900,
    date.getUTCDay(),
    Math.floor(dayOfYear),
    0,
    0,
  ];
  fields.forEach((field, i) => tm.setInt32(i * 4, field, true));
}
