/**
 * The tenants' part of a simulation: every tenant has the same bundle and generous limits, nothing
 * is encrypted, so that the oracle can look for bytes of one tenant under another. What a snapshot
 * is bound to is written beside it and compared.
 */
import { createHash } from "node:crypto";
import type { TenantId } from "../../engine/ids.ts";
import type { HeapLimits } from "../../engine/ports/sandbox.ts";
import type { Tenants } from "../../engine/ports/tenants.ts";
import { codeFor } from "./bundle.ts";
import type { SimulatedSources } from "./bundle.ts";

/** CPU limits that no machine, however busy, makes part of a schedule. */
export const HEAP_LIMITS: HeapLimits = {
  heapBytesMax: 64 * 1024 * 1024,
  cpuSoftMs: 600_000,
  cpuHardMs: 600_000,
  stackBytesMax: 512 * 1024,
  jobsPerEventMax: 1_000_000,
  openOperationsMax: 5_000,
  payloadBytesMax: 128 * 1024,
  consoleBytesPerPassMax: 64 * 1024,
};

/** Far above what any run writes: a limit is kept, and none is met. */
const STREAM_BYTES_MAX = 64 * 1024 * 1024;

const text = new TextEncoder();

export function simulatedTenants(
  sources: SimulatedSources,
  known: readonly TenantId[],
  onMismatch: () => void,
): Tenants {
  return {
    standingOf: (tenantId) =>
      Promise.resolve(
        known.includes(tenantId)
          ? {
              status: "active",
              limits: {
                heap: HEAP_LIMITS,
                eventsWarn: null,
                eventsMax: null,
                streamBytesPerRunMax: STREAM_BYTES_MAX,
                cpuWeight: 1,
                liveHeapBytesMax: null,
                snapshotBytesMax: null,
                deliveries: { orchestratorsMax: null, stepsMax: null },
              },
              storage: null,
            }
          : null,
      ),
    bundleOf: (tenantId, deploymentId) =>
      Promise.resolve(deploymentId === sources.hash ? codeFor(tenantId, sources) : null),
    count: (_tenantId, { replayMismatches = 0 }) => {
      if (replayMismatches > 0) onMismatch();
    },
    admitStart: () => Promise.resolve(() => undefined),
    admitHookPayload: () => Promise.resolve(),
    cpuWaitMs: () => 0,
    tokenHash: (tenantId, token) =>
      Promise.resolve(createHash("sha256").update(`${tenantId}\0${token}`).digest("hex")),
    sealSnapshot: (_run, plain, boundTo) => {
      const tag = createHash("sha256").update(JSON.stringify(boundTo)).digest();
      return Promise.resolve(Buffer.concat([tag, plain]));
    },
    openSnapshot: (_run, sealed, boundTo) => {
      const tag = createHash("sha256").update(JSON.stringify(boundTo)).digest();
      const isBound = tag.equals(sealed.subarray(0, tag.length));
      return Promise.resolve(isBound ? Uint8Array.from(sealed.subarray(tag.length)) : null);
    },
  };
}

export function canaryOf(tenantId: TenantId): string {
  return `canary-${Buffer.from(text.encode(tenantId)).toString("hex")}`;
}
