/**
 * The image from which every heap of a bundle starts, and what became of making it.
 *
 * Made in a fresh heap under a fixed clock: the guest library first, then the bundle. A bundle that
 * reads the clock or randomness while it is evaluated would freeze what it read for all its runs;
 * its image holds the library alone, and each run evaluates the bundle under its own clock and
 * seed. A bundle that asks for a step, a timer or the network while it is loaded has no image.
 *
 * S13  An image is a function of the wasm, the guest library, the bundle and the stack limit.
 */
import { InvariantViolation } from "../engine/assert.ts";
import type { HeapLimits } from "../engine/ports/sandbox.ts";
import type { CpuClock } from "./cpu-clock.ts";
import { Execution } from "./execution.ts";
import type { Ran } from "./execution.ts";
import { imageOf } from "./heap.ts";
import type { Image, InstancePool } from "./heap.ts";
import { SANDBOX_LIMITS } from "./limits.ts";
import type { GuestCommand } from "./protocol.ts";
import { fingerprintOf } from "./snapshot.ts";
import { bundleKey } from "./wire.ts";
import type { BundleRef, BundleSource } from "./wire.ts";

export const LIBRARY_FILE = "baton:guest";
/** What stack traces call the two sides of a bundle. */
export const BUNDLE_FILES = { workflow: "bundle.js", step: "steps.js" } as const;

/** What the clock shows before a heap has its run. */
const FIXED_CLOCK_MS = 0;
const NOTES_MAX = 16;

export interface BundleImage {
  readonly source: BundleSource;
  readonly image: Image;
  readonly sharesImage: boolean;
  /** Why the image is not shared, one line for each read. */
  readonly notes: readonly string[];
  /** A `Registered` as the guest wrote it. */
  readonly registered: string;
  readonly fingerprint: string;
}

/** Told before each piece of work that has a CPU budget of its own; `slot` null: no event. */
export interface Progress {
  begins(slot: number | null, cpuHardMs: number): void;
  ends(): void;
}

export interface ImageTools {
  readonly pool: InstancePool;
  readonly clock: CpuClock;
  readonly progress: Progress;
}

/** The library as an expression that gives its `boot`, leaving no global behind. */
export function bootExpression(guestLibrary: string): string {
  return `(function () {${guestLibrary}\nreturn __baton_guest.boot;})()`;
}

export function makeBundleImage(
  source: BundleSource,
  limits: HeapLimits,
  { pool, clock, progress }: ImageTools,
): Ran<BundleImage> {
  const instance = pool.fresh(limits.heapBytesMax);
  if (instance === null) return { kind: "lost", reason: "no memory left" };
  const execution = new Execution(instance, limits, clock);
  const notes: string[] = [];
  const early: string[] = [];
  const keep = (text: string, among: string[]) => {
    if (among.length < NOTES_MAX && !among.includes(text)) among.push(text);
  };
  const note = (text: string) => keep(text, notes);
  let isBundleRunning = false;
  execution.attach({
    hostCall: (name, value) => {
      if (name === "clock_read") note(`reads the clock while it is loaded ${value}`.trimEnd());
      if (name === "random_read") note(`reads randomness while it is loaded ${value}`.trimEnd());
      if (name === "env_read") note(`reads its environment while it is loaded ${value}`.trimEnd());
      if (name === "called_early") keep(`asks for ${value} while it is loaded`, early);
    },
    clockWasRead: () => {
      if (isBundleRunning) note("reads the clock while it is loaded");
    },
  });
  const booted = execution.run(Infinity, () => {
    instance.createContext(limits.stackBytesMax, FIXED_CLOCK_MS);
    instance.boot(bootExpression(source.guestLibrary), LIBRARY_FILE);
    execution.drain();
    return imageOf(instance);
  });
  // It is ours, so a failure of it is not the tenant's to see.
  if (booted.kind === "threw") {
    throw new InvariantViolation(`the guest library boots: ${booted.text}`);
  }
  if (booted.kind !== "done") return booted;
  isBundleRunning = true;
  progress.begins(null, limits.cpuHardMs * SANDBOX_LIMITS.evaluationCpuFactor);
  const evaluated = execution.run(limits.cpuSoftMs * SANDBOX_LIMITS.evaluationCpuFactor, () => {
    instance.run(source.code, BUNDLE_FILES[source.side]);
    execution.drain();
    isBundleRunning = false;
    if (notes.length === 0) instance.fillGaps();
    const image = notes.length === 0 ? imageOf(instance) : booted.value;
    const listing: GuestCommand = { t: "registered" };
    return { image, registered: execution.dispatch(JSON.stringify(listing), null) };
  });
  progress.ends();
  if (evaluated.kind !== "done") return evaluated;
  // Whether or not its code minded: what it asked for has no run to be done in.
  if (early.length > 0) return { kind: "threw", text: `it ${early.join(", ")}` };
  const { image, registered } = evaluated.value;
  pool.give(source.tenantId, instance, image);
  const sharesImage = notes.length === 0;
  const fingerprint = fingerprintOf({
    ...source,
    bundleHash: source.hash,
    stackBytesMax: limits.stackBytesMax,
    bundleImage: image,
  });
  return {
    kind: "done",
    value: { source, image, sharesImage, notes, registered, fingerprint },
  };
}

/** Sources and images of one place, bounded in bytes; the one unused for longest goes first. */
export class BundleImages {
  readonly #sources = new Map<string, BundleSource>();
  readonly #images = new Map<string, BundleImage>();
  #imageBytes = 0;

  add(source: BundleSource): void {
    const key = bundleKey(source);
    this.#sources.delete(key);
    this.#sources.set(key, source);
    if (this.#sources.size > SANDBOX_LIMITS.sourcesMax) {
      const [oldest] = this.#sources.keys();
      this.#sources.delete(oldest as string);
    }
  }

  /** Null: the source is not here. */
  imageOf(bundle: BundleRef, limits: HeapLimits, tools: ImageTools): Ran<BundleImage> | null {
    const key = `${bundleKey(bundle)}/${limits.stackBytesMax}`;
    const known = this.#images.get(key);
    if (known !== undefined) {
      this.#images.delete(key);
      this.#images.set(key, known);
      return { kind: "done", value: known };
    }
    const source = this.#sources.get(bundleKey(bundle));
    if (source === undefined) return null;
    const made = makeBundleImage(source, limits, tools);
    if (made.kind === "done") this.#keep(key, made.value);
    return made;
  }

  #keep(key: string, image: BundleImage): void {
    this.#images.set(key, image);
    this.#imageBytes += bytesOf(image);
    for (const [oldKey, old] of this.#images) {
      if (this.#imageBytes <= SANDBOX_LIMITS.imageBytesMax || oldKey === key) break;
      this.#images.delete(oldKey);
      this.#imageBytes -= bytesOf(old);
    }
  }
}

function bytesOf({ image }: BundleImage): number {
  return image.low.length + image.high.length;
}
