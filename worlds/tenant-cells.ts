/**
 * The face of a tenant's small values: snapshots, bundles, blobs and streams. Checks what comes in
 * and calls the ledger; part of the store that tenant-store.ts makes.
 */
import { z } from "zod";
import { bundleHashOf, runIdOf } from "../engine/ids.ts";
import type { RunId, RunRef, TenantId } from "../engine/ids.ts";
import type * as port from "../engine/ports/world.ts";
import { positionOf } from "../engine/slots.ts";
import * as border from "./border.ts";
import type { Core } from "./core.ts";

/** The place of a run of the tenant that a store was made for. */
export type RefOf = (runId: RunId) => RunRef;

const offsetCursor = z.number().int().min(0);

export function checkedSlot(field: string, value: unknown) {
  return positionOf(border.checkedInteger(field, value, 0, Number.MAX_SAFE_INTEGER));
}

export function snapshotsOf(tenantId: TenantId, core: Core, ref: RefOf): port.Snapshots {
  return {
    put: async (runId, { slot, digest, fingerprint, bytes }) =>
      core.call("cells", "putSnapshot", ref(runId), {
        slot: checkedSlot("slot", slot),
        digest: border.checkedHash("digest", digest),
        fingerprint: border.checkedHash("fingerprint", fingerprint),
        bytes: border.checkedBytes("bytes", bytes, border.SNAPSHOT_BYTES_MAX),
      }),
    get: async (runId) => core.call("cells", "snapshot", ref(runId)),
    delete: async (runId) => core.call("cells", "deleteSnapshot", ref(runId)),
    list: async (params) => {
      const after = border.positionFrom(params?.cursor, offsetCursor) ?? 0;
      const limit = border.checkedLimit(params);
      const sizes = await core.call("cells", "snapshotSizes", tenantId, after, limit);
      const last = sizes.at(-1);
      return {
        data: sizes.map(({ owner, bytes }) => ({ runId: runIdOf(owner), bytes })),
        cursor: sizes.length < limit || last === undefined ? null : border.cursorOf(last.order),
      };
    },
  };
}

export function bundlesOf(tenantId: TenantId, core: Core): port.Bundles {
  return {
    put: async (bundle) => core.call("cells", "putBundle", tenantId, checkedBundle(bundle)),
    get: async (hash) => core.call("cells", "bundle", tenantId, bundleHashOf(hash)),
    list: async (params) => {
      const offset = border.positionFrom(params?.cursor, offsetCursor) ?? 0;
      const limit = border.checkedLimit(params);
      const all = await core.call("cells", "bundles", tenantId);
      const end = offset + limit;
      return {
        data: all.slice(offset, end),
        cursor: end < all.length ? border.cursorOf(end) : null,
      };
    },
    delete: async (hash) => core.call("cells", "deleteBundle", tenantId, bundleHashOf(hash)),
    setAlias: async (alias, hash) =>
      core.call(
        "cells",
        "setAlias",
        tenantId,
        border.checkedName("alias", alias),
        bundleHashOf(hash),
      ),
    getAlias: async (alias) =>
      core.call("cells", "alias", tenantId, border.checkedName("alias", alias)),
    listAliases: async () => core.call("cells", "aliases", tenantId),
  };
}

function checkedBundle(bundle: port.StoredBundle): port.StoredBundle {
  const max = border.BUNDLE_BYTES_MAX;
  return {
    hash: bundleHashOf(bundle.hash),
    workflowCode: border.checkedText("workflowCode", bundle.workflowCode, max),
    stepCode: border.checkedText("stepCode", bundle.stepCode, max),
    manifest: border.checkedText("manifest", bundle.manifest, max),
    guestLibrary: border.checkedText("guestLibrary", bundle.guestLibrary, max),
    createdAt: border.checkedInteger("createdAt", bundle.createdAt, 0, 8.64e15),
  };
}

export function blobsOf(core: Core, ref: RefOf): port.Blobs {
  return {
    put: async (runId, key, bytes) =>
      core.call(
        "cells",
        "putBlob",
        ref(runId),
        border.checkedName("key", key),
        border.checkedBytes("bytes", bytes, border.BLOB_BYTES_MAX),
      ),
    get: async (runId, key) =>
      core.call("cells", "blob", ref(runId), border.checkedName("key", key)),
    delete: async (runId, key) =>
      core.call("cells", "deleteBlob", ref(runId), border.checkedName("key", key)),
  };
}

export function streamsOf(core: Core, ref: RefOf): port.Streams {
  const name = (value: string) => border.checkedName("name", value);
  return {
    write: async (runId, stream, chunks) => {
      const max = border.STREAM_CHUNKS_PER_WRITE_MAX;
      border.checkedInteger("chunks", chunks.length, 0, max);
      const checked = chunks.map((chunk) =>
        border.checkedBytes("chunk", chunk, border.STREAM_CHUNK_BYTES_MAX),
      );
      return core.call("cells", "writeStream", ref(runId), name(stream), checked);
    },
    close: async (runId, stream) => core.call("cells", "closeStream", ref(runId), name(stream)),
    getChunks: async (runId, stream, { startIndex, limit }) =>
      core.call(
        "cells",
        "chunks",
        ref(runId),
        name(stream),
        border.checkedInteger("startIndex", startIndex, 0, Number.MAX_SAFE_INTEGER),
        border.checkedLimit(limit === undefined ? {} : { limit }),
      ),
    getInfo: async (runId, stream) => core.call("cells", "streamInfo", ref(runId), name(stream)),
    list: async (runId) => core.call("cells", "streams", ref(runId)),
  };
}
