/**
 * Streams of runs: chunks appended by steps, read by steps and clients, live and again.
 *
 * Owns the bound on a run's stream bytes, and how a reader waits: it looks now and then, and at once
 * when this process writes. What chunks hold is their writers' and readers' business.
 *
 * E90  A run's streams together take no more bytes than its tenant allows, but for what other
 *      processes wrote within one look at the sizes.
 * E91  A reader is given each chunk once, in the order of the indexes, whoever wrote it.
 * E92  A read ends: by a chunk, by the stream's end, by its signal, or a while after its run's end.
 */
import { BatonError } from "./errors.ts";
import type { RunRef, TenantId } from "./ids.ts";
import {
  STREAM_POLL_MS,
  STREAM_POLL_MS_MAX,
  STREAM_SIZES_AGE_MS_MAX,
  STREAM_SIZES_MAX,
  STREAM_TAIL_AFTER_END_MS,
} from "./limits.ts";
import { Hints } from "./hints.ts";
import type { EngineParts } from "./parts.ts";
import type { ChunkPage, StepStreams, StreamPlace } from "./ports/access.ts";
import type { StreamInfo } from "./ports/world.ts";
import { Progress } from "./progress.ts";

/** Chunks that one read gives at most. */
const PAGE_CHUNKS = 100;

interface Sizes {
  bytes: number;
  readonly atMs: number;
}

export class RunStreams {
  readonly #parts: EngineParts;
  readonly #hints = new Hints();
  readonly #sizes = new Map<string, Sizes>();

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** The streams of one tenant's runs. */
  forTenant(tenantId: TenantId): StepStreams {
    return {
      write: (place, chunks) => this.#write(tenantId, place, chunks),
      close: (place) => this.#close(tenantId, place),
      read: (place, index, signal) => this.#read(tenantId, place, index, signal),
    };
  }

  async info(tenantId: TenantId, { runId, name }: StreamPlace): Promise<StreamInfo | null> {
    return this.#parts.world.forTenant(tenantId).streams.getInfo(runId, name);
  }

  async #write(
    tenantId: TenantId,
    { runId, name }: StreamPlace,
    chunks: readonly Uint8Array[],
  ): Promise<void> {
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    await this.#reserve({ tenantId, runId }, bytes);
    await this.#parts.world.forTenant(tenantId).streams.write(runId, name, chunks);
    this.#hints.announce(keyOf(tenantId, { runId, name }));
  }

  async #close(tenantId: TenantId, { runId, name }: StreamPlace): Promise<void> {
    await this.#parts.world.forTenant(tenantId).streams.close(runId, name);
    this.#hints.announce(keyOf(tenantId, { runId, name }));
  }

  async #reserve(run: RunRef, bytes: number): Promise<void> {
    const standing = await this.#parts.tenants.standingOf(run.tenantId);
    const allowed = standing?.limits.streamBytesPerRunMax ?? null;
    if (allowed === null) return;
    const sizes = await this.#sizesOf(run);
    if (sizes.bytes + bytes > allowed) {
      throw new BatonError("QUOTA_EXCEEDED", "the run's streams would hold more than allowed", {
        field: "streamBytesPerRunMax",
        used: sizes.bytes + bytes,
        allowed,
      });
    }
    // At once, so that writes side by side do not all fit into the same room.
    sizes.bytes += bytes;
  }

  async #sizesOf(run: RunRef): Promise<Sizes> {
    const key = `${run.tenantId}/${run.runId}`;
    const now = this.#parts.clock.now();
    const known = this.#sizes.get(key);
    if (known !== undefined && now - known.atMs < STREAM_SIZES_AGE_MS_MAX) return known;
    const { streams } = this.#parts.world.forTenant(run.tenantId);
    const infos = await Promise.all(
      (await streams.list(run.runId)).map((name) => streams.getInfo(run.runId, name)),
    );
    const bytes = infos.reduce((sum, info) => sum + (info?.bytes ?? 0), 0);
    const read = { bytes, atMs: now };
    this.#sizes.delete(key);
    this.#sizes.set(key, read);
    if (this.#sizes.size > STREAM_SIZES_MAX) {
      const [oldest] = this.#sizes.keys();
      this.#sizes.delete(oldest as string);
    }
    return read;
  }

  async #read(
    tenantId: TenantId,
    place: StreamPlace,
    index: number,
    signal?: AbortSignal,
  ): Promise<ChunkPage> {
    const { clock } = this.#parts;
    const progress = new Progress(clock);
    const onHint = (): void => progress.notify();
    const unlisten = this.#hints.listen(keyOf(tenantId, place), onHint);
    signal?.addEventListener("abort", onHint);
    try {
      const startIndex = index < 0 ? await this.#fromTail(tenantId, place, index) : index;
      for (let delayMs = STREAM_POLL_MS; ; delayMs = Math.min(delayMs * 2, STREAM_POLL_MS_MAX)) {
        signal?.throwIfAborted();
        // Looked at before the chunks: what is written before the end is seen behind it.
        const isAbandoned = await this.#isAbandoned(tenantId, place);
        const page = await this.#page(tenantId, place, startIndex);
        if (page.chunks.length > 0 || page.done) return page;
        if (isAbandoned) return { ...page, done: true };
        await progress.wait(clock.now() + delayMs);
      }
    } finally {
      unlisten();
      signal?.removeEventListener("abort", onHint);
    }
  }

  #page(tenantId: TenantId, { runId, name }: StreamPlace, startIndex: number): Promise<ChunkPage> {
    const { streams } = this.#parts.world.forTenant(tenantId);
    return streams.getChunks(runId, name, { startIndex, limit: PAGE_CHUNKS });
  }

  async #fromTail(tenantId: TenantId, place: StreamPlace, index: number): Promise<number> {
    const tailIndex = (await this.info(tenantId, place))?.tailIndex ?? -1;
    return Math.max(0, tailIndex + 1 + index);
  }

  /** Nobody is left to close it: its run is gone, or has been over for a while. */
  async #isAbandoned(tenantId: TenantId, { runId }: StreamPlace): Promise<boolean> {
    const row = await this.#parts.world.forTenant(tenantId).runs.get(runId);
    if (row === null) return true;
    const { completedAt } = row;
    const now = this.#parts.clock.now();
    return completedAt !== null && now - completedAt >= STREAM_TAIL_AFTER_END_MS;
  }
}

function keyOf(tenantId: TenantId, { runId, name }: StreamPlace): string {
  return `${tenantId}/${runId}/${name}`;
}
