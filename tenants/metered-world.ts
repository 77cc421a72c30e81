/**
 * A World that counts what each tenant stores, and takes no more of one that is full.
 *
 * Owns what a write counts for, and which writes are taken past the hard limit: those that end a
 * run, fail a step, or carry no payload. Stands below the seal, so it counts what is really stored.
 *
 * T72  A tenant past the hard limit of its stored bytes can always end a run; and nothing else that
 *      carries a payload is written for it.
 */
import type { NewEvent } from "../engine/events.ts";
import type { TenantId } from "../engine/ids.ts";
import type { Bundles, Events, Streams, TenantStore, World } from "../engine/ports/world.ts";
import type { Storage } from "./storage.ts";

/** Of an event beside its payloads: names, ids, times, digest. */
const EVENT_BYTES = 200;
/** What an event that ends something may carry past the limit: an error and its stack. */
const ENDING_BYTES_MAX = 64 * 1024;
/** Taken past the limit while they are small. A start has been asked about before its event. */
const ENDINGS: ReadonlySet<NewEvent["eventType"]> = new Set([
  "run_created",
  "run_failed",
  "run_cancelled",
  "step_failed",
]);

export function meterWorld(world: World, storage: Storage): World {
  return {
    ...world,
    forTenant: (tenantId) => meterStore(world.forTenant(tenantId), storage),
    close: () => world.close(),
  };
}

function meterStore(store: TenantStore, storage: Storage): TenantStore {
  const { tenantId } = store;
  return {
    ...store,
    events: meterEvents(store.events, tenantId, storage),
    blobs: {
      ...store.blobs,
      async put(runId, key, bytes) {
        storage.assertNotFull(tenantId);
        await store.blobs.put(runId, key, bytes);
        storage.wrote(tenantId, bytes.length);
      },
    },
    streams: meterStreams(store.streams, tenantId, storage),
    bundles: meterBundles(store.bundles, tenantId, storage),
    openEntities: (runId) => store.openEntities(runId),
  };
}

function meterEvents(inner: Events, tenantId: TenantId, storage: Storage): Events {
  const admit = (events: readonly NewEvent[]): void => {
    if (!events.every(isTakenWhenFull)) storage.assertNotFull(tenantId);
  };
  return {
    ...inner,
    async create(runId, event, params) {
      admit([event]);
      const result = await inner.create(runId, event, params);
      if (result.allocated > 0) storage.wrote(tenantId, bytesOf(event));
      return result;
    },
    async createBatch(runId, events, params) {
      admit(events);
      const result = await inner.createBatch(runId, events, params);
      storage.wrote(
        tenantId,
        events.reduce((sum, event) => sum + bytesOf(event), 0),
      );
      return result;
    },
  };
}

function meterStreams(inner: Streams, tenantId: TenantId, storage: Storage): Streams {
  return {
    ...inner,
    async write(runId, name, chunks) {
      storage.assertNotFull(tenantId);
      const tailIndex = await inner.write(runId, name, chunks);
      storage.wrote(
        tenantId,
        chunks.reduce((sum, chunk) => sum + chunk.length, 0),
      );
      return tailIndex;
    },
  };
}

function meterBundles(inner: Bundles, tenantId: TenantId, storage: Storage): Bundles {
  return {
    ...inner,
    async put(bundle) {
      storage.assertNotFull(tenantId);
      await inner.put(bundle);
      const { workflowCode, stepCode, manifest, guestLibrary } = bundle;
      storage.wrote(
        tenantId,
        workflowCode.length + stepCode.length + manifest.length + guestLibrary.length,
      );
    },
  };
}

function isTakenWhenFull(event: NewEvent): boolean {
  const bytes = payloadBytes(event);
  return bytes === 0 || (ENDINGS.has(event.eventType) && bytes <= ENDING_BYTES_MAX);
}

function bytesOf(event: NewEvent): number {
  return EVENT_BYTES + payloadBytes(event);
}

function payloadBytes({ eventData }: NewEvent): number {
  let bytes = 0;
  for (const value of Object.values(eventData)) {
    if (value instanceof Uint8Array) bytes += value.length;
  }
  return bytes;
}
