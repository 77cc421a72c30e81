/**
 * Quotas: what one tenant may use, and what no tenant may exceed.
 *
 * Owns the names, bounds and defaults of every quota, and the limits that follow from them. Pure.
 * Where a quota is enforced is said by who reads it; null means that the tenant has no such limit.
 */
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import { HEAP_LIMIT_RANGES } from "../engine/limits.ts";
import type { HeapLimits } from "../engine/ports/sandbox.ts";
import type { StepLimits } from "../engine/ports/steps.ts";
import type { TenantLimits } from "../engine/ports/tenants.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const DAY_MS = 86_400_000;

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const limit = count.nullable();

/** A quota that becomes a limit of heaps is kept within what the sandbox can keep. */
function ofHeaps(name: keyof HeapLimits) {
  const [min, max] = HEAP_LIMIT_RANGES[name];
  return z.number().int().min(min).max(max);
}

export const quotasSchema = z.strictObject({
  /** Linear memory of one heap. Past it the run fails with `HEAP_LIMIT_EXCEEDED`. */
  heapBytesMax: ofHeaps("heapBytesMax"),
  /** CPU per consumed event. Past it the run fails with `CPU_LIMIT_EXCEEDED`. */
  cpuSoftMs: ofHeaps("cpuSoftMs"),
  cpuHardMs: ofHeaps("cpuHardMs"),
  /** Of the CPU, next to other tenants that want it too. */
  cpuWeight: z.number().int().min(1).max(100),
  /** Past it the tenant's passes wait. */
  cpuMsPerMinuteMax: limit,
  liveHeapBytesMax: limit,
  snapshotBytesMax: limit,
  /** Both sides and the manifest of one bundle. */
  bundleBytesMax: limit,
  bundlesMax: limit,
  payloadInlineBytesMax: count,
  payloadBytesMax: ofHeaps("payloadBytesMax"),
  eventsWarn: limit,
  eventsMax: limit,
  /** Open steps, waits and hooks of one run. */
  openOperationsMax: ofHeaps("openOperationsMax").nullable(),
  hookPayloadsPerRunPerSecondMax: limit,
  runsDeliveredMax: limit,
  openRunsMax: limit,
  startsPerSecondMax: limit,
  stepsMax: limit,
  /** CPU of one attempt of a sandboxed step. */
  stepCpuMsMax: z.number().int().min(1).max(3_600_000),
  /** From the first turn of an attempt to its outcome. */
  stepWallMsMax: z.number().int().min(1).max(86_400_000),
  /** Body of one answer to a step's `fetch`. */
  responseBytesMax: z.number().int().min(0).max(HEAP_LIMIT_RANGES.heapBytesMax[1]),
  socketsMax: limit,
  egressBytesPerMinuteMax: limit,
  feedsPerRunMax: limit,
  feedsMax: limit,
  consoleBytesPerPassMax: ofHeaps("consoleBytesPerPassMax").nullable(),
  streamBytesPerRunMax: limit,
  /** Hard at twice as much. */
  storedBytesMax: limit,
  requestsPerSecondPerKeyMax: limit,
  /** How long finished runs are kept. */
  retentionMs: limit,
});

export type Quotas = z.infer<typeof quotasSchema>;
type QuotaName = keyof Quotas;

/** What a tenant of a server has unless its record says otherwise. */
export const SERVER_QUOTAS: Quotas = {
  heapBytesMax: 32 * MIB,
  cpuSoftMs: 250,
  cpuHardMs: 1000,
  cpuWeight: 1,
  cpuMsPerMinuteMax: 30_000,
  liveHeapBytesMax: 256 * MIB,
  snapshotBytesMax: GIB,
  bundleBytesMax: 4 * MIB,
  bundlesMax: 100,
  payloadInlineBytesMax: 128 * KIB,
  payloadBytesMax: 32 * MIB,
  eventsWarn: 10_000,
  eventsMax: 100_000,
  openOperationsMax: 5000,
  hookPayloadsPerRunPerSecondMax: 100,
  runsDeliveredMax: 100,
  openRunsMax: 100_000,
  startsPerSecondMax: 50,
  stepsMax: 50,
  stepCpuMsMax: 30_000,
  stepWallMsMax: 900_000,
  responseBytesMax: 8 * MIB,
  socketsMax: 50,
  egressBytesPerMinuteMax: 100 * MIB,
  feedsPerRunMax: 2,
  feedsMax: 64,
  consoleBytesPerPassMax: 64 * KIB,
  streamBytesPerRunMax: 64 * MIB,
  storedBytesMax: GIB,
  requestsPerSecondPerKeyMax: 100,
  retentionMs: 7 * DAY_MS,
};

/** What the embedded library's one tenant has: only its heaps and their CPU are limited. */
export const EMBEDDED_QUOTAS: Quotas = {
  ...(Object.fromEntries(
    Object.entries(quotasSchema.shape)
      .filter(([, schema]) => schema.safeParse(null).success)
      .map(([name]) => [name, null]),
  ) as { [name in QuotaName]: null }),
  heapBytesMax: SERVER_QUOTAS.heapBytesMax,
  cpuSoftMs: SERVER_QUOTAS.cpuSoftMs,
  cpuHardMs: SERVER_QUOTAS.cpuHardMs,
  cpuWeight: SERVER_QUOTAS.cpuWeight,
  stepCpuMsMax: SERVER_QUOTAS.stepCpuMsMax,
  stepWallMsMax: SERVER_QUOTAS.stepWallMsMax,
  responseBytesMax: SERVER_QUOTAS.responseBytesMax,
  payloadInlineBytesMax: SERVER_QUOTAS.payloadInlineBytesMax,
  payloadBytesMax: SERVER_QUOTAS.payloadBytesMax,
};

/** A tenant's own quotas: what its record sets, over the defaults. */
export const quotaOverridesSchema = quotasSchema.partial();
export type QuotaOverrides = z.infer<typeof quotaOverridesSchema>;

/** The quotas that hold. Refuses with `INVALID_ARGUMENT` what contradicts itself. */
export function quotasOf(defaults: Quotas, overrides: QuotaOverrides): Quotas {
  const quotas = { ...defaults, ...overrides } as Quotas;
  const ordered = [
    ["cpuSoftMs", "cpuHardMs"],
    ["eventsWarn", "eventsMax"],
    ["payloadInlineBytesMax", "payloadBytesMax"],
  ] as const;
  for (const [lower, upper] of ordered) {
    const used = quotas[lower];
    const allowed = quotas[upper];
    if (used === null || allowed === null || used <= allowed) continue;
    throw new BatonError("INVALID_ARGUMENT", `${lower} is at most ${upper}`, {
      field: lower,
      used,
      allowed,
    });
  }
  return quotas;
}

/** Limits that heaps have beside the tenant's quotas. */
const HEAP_FIXED = {
  stackBytesMax: 256 * KIB,
  /** A promise loop that waits for nothing outside runs into the CPU limit first, or into this. */
  jobsPerEventMax: 1_000_000,
} as const;

export function heapLimitsOf(quotas: Quotas): HeapLimits {
  return {
    ...HEAP_FIXED,
    heapBytesMax: quotas.heapBytesMax,
    cpuSoftMs: quotas.cpuSoftMs,
    cpuHardMs: quotas.cpuHardMs,
    openOperationsMax: quotas.openOperationsMax ?? HEAP_LIMIT_RANGES.openOperationsMax[1],
    payloadBytesMax: quotas.payloadBytesMax,
    consoleBytesPerPassMax:
      quotas.consoleBytesPerPassMax ?? HEAP_LIMIT_RANGES.consoleBytesPerPassMax[1],
  };
}

/** A step works where a workflow decides: one turn of it may take so many times an event's CPU. */
const STEP_TURN_CPU_FACTOR = 4;
/** Timers, requests and other calls of one attempt at once. */
const STEP_CALLS_OPEN_MAX = 1_000;

export function stepLimitsOf(quotas: Quotas): StepLimits {
  const heap = heapLimitsOf(quotas);
  const turnCpuMs = (limit: "cpuSoftMs" | "cpuHardMs") =>
    Math.min(quotas[limit] * STEP_TURN_CPU_FACTOR, HEAP_LIMIT_RANGES[limit][1]);
  return {
    heap: {
      ...heap,
      cpuSoftMs: turnCpuMs("cpuSoftMs"),
      cpuHardMs: turnCpuMs("cpuHardMs"),
    },
    cpuWeight: quotas.cpuWeight,
    cpuMsMax: quotas.stepCpuMsMax,
    wallMsMax: quotas.stepWallMsMax,
    callsOpenMax: STEP_CALLS_OPEN_MAX,
    responseBytesMax: quotas.responseBytesMax,
    consoleBytesMax: heap.consoleBytesPerPassMax,
  };
}

export function tenantLimitsOf(quotas: Quotas): TenantLimits {
  return {
    heap: heapLimitsOf(quotas),
    eventsWarn: quotas.eventsWarn,
    eventsMax: quotas.eventsMax,
    streamBytesPerRunMax: quotas.streamBytesPerRunMax,
    cpuWeight: quotas.cpuWeight,
    liveHeapBytesMax: quotas.liveHeapBytesMax,
    snapshotBytesMax: quotas.snapshotBytesMax,
    deliveries: { orchestratorsMax: quotas.runsDeliveredMax, stepsMax: quotas.stepsMax },
  };
}
