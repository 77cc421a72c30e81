/**
 * Start: a run comes into being with its first message, both or neither.
 *
 * Owns the run's id, its seed and `run_created`. Whether a tenant may start is asked before, by the
 * tenants' part.
 *
 * E81  Two starts under one idempotency key are one run: the key gives the run its id.
 * E82  A run's seed comes from the host's random source and from nothing that anybody can know.
 */
import { BatonError, isBatonError } from "./errors.ts";
import { SPEC_VERSION } from "./events.ts";
import { bundleHashOf, runIdOf, ulid } from "./ids.ts";
import type { RunId, RunRef, TenantId } from "./ids.ts";
import { STEP_MESSAGE_INPUT_BYTES_MAX } from "./limits.ts";
import { orchestratorMessage } from "./owed.ts";
import type { EngineParts } from "./parts.ts";
import type { Payload } from "./payload.ts";
import { newEvent } from "./plan.ts";
import type { OrchestratorMessage, RunInput } from "./ports/queue.ts";
import { WEBHOOK_BASE_URL } from "./run.ts";
import { storageRefusal } from "./storage-quota.ts";

export interface StartRequest {
  readonly tenantId: TenantId;
  readonly workflowName: string;
  /** The bundle's hash. */
  readonly deploymentId: string;
  /** The arguments, encoded. */
  readonly input: Payload;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly executionContext?: Readonly<Record<string, string>>;
  /** The run's own id, made by the caller; refused if the tenant has a run of it. */
  readonly runId?: RunId;
  /** A repeated start under one key of the tenant finds the first one's run. */
  readonly idempotencyKey?: string;
}

export interface StartResult {
  readonly run: RunRef;
  /** False if an earlier start under the same key made it. */
  readonly isNew: boolean;
}

/** Stands for the tenant in the setting `webhookBaseUrl`. */
const TENANT_PLACE = "{tenant}";
const SEED_BYTES = 32;
const RANDOM_BYTES = 10;

export async function startRun(parts: EngineParts, request: StartRequest): Promise<StartResult> {
  await assertMayStart(parts, request);
  const { tenantId, workflowName, deploymentId, input, attributes } = request;
  const createdAt = parts.clock.now();
  const runId = await runIdFor(parts, request, createdAt);
  const run = { tenantId, runId };
  const seed = parts.random.bytes(SEED_BYTES);
  const context = contextOf(parts, request);
  const event = newEvent("run_created", null, {
    deploymentId: bundleHashOf(deploymentId),
    workflowName,
    input,
    seed,
    ...(attributes === undefined ? {} : { attributes: { ...attributes } }),
    ...context,
  });
  const message = startMessage(run, {
    workflowName,
    deploymentId,
    input,
    seed,
    createdAt,
    ...(attributes === undefined ? {} : { attributes }),
    ...context,
  });
  let end = (): void => undefined;
  try {
    end = await parts.tenants.admitStart(tenantId);
    const params = { send: { message } };
    await parts.world
      .forTenant(tenantId)
      .events.create(runId, { ...event, occurredAt: createdAt }, params);
    return { run, isNew: true };
  } catch (error) {
    if (request.idempotencyKey === undefined) throw error;
    // A repetition is no new start, so no quota keeps it from finding the first one's run.
    const mayBeRepetition =
      isBatonError(error, "ENTITY_CONFLICT") || isBatonError(error, "QUOTA_EXCEEDED");
    if (!mayBeRepetition || !(await isSameStart(parts, run, workflowName))) throw error;
    return { run, isNew: false };
  } finally {
    end();
  }
}

/** What a run keeps for life of how the platform was set up when it began. */
function contextOf(
  { settings }: EngineParts,
  { tenantId, executionContext }: StartRequest,
): { executionContext?: Record<string, string> } {
  const { webhookBaseUrl } = settings;
  if (webhookBaseUrl === null && executionContext === undefined) return {};
  const base = webhookBaseUrl?.replace(TENANT_PLACE, encodeURIComponent(tenantId));
  return {
    executionContext: {
      ...(base === undefined ? {} : { [WEBHOOK_BASE_URL]: base }),
      ...executionContext,
    },
  };
}

/** The run's first message; a large input stays in the log alone. */
function startMessage(run: RunRef, runInput: RunInput): OrchestratorMessage {
  const message = orchestratorMessage(run, "start");
  if (runInput.input.length > STEP_MESSAGE_INPUT_BYTES_MAX) return message;
  return { ...message, runInput };
}

async function runIdFor(
  parts: EngineParts,
  request: StartRequest,
  createdAt: number,
): Promise<RunId> {
  const key = request.idempotencyKey;
  if (request.runId !== undefined) {
    if (key === undefined) return request.runId;
    throw new BatonError("INVALID_ARGUMENT", "a start names a run id or an idempotency key", {
      field: "idempotencyKey",
      allowed: "one of the two",
    });
  }
  if (key === undefined) {
    return runIdOf(`wrun_${ulid(createdAt, parts.random.bytes(RANDOM_BYTES))}`);
  }
  // A keyed hash of the tenant's, so that nobody else can tell an id from a key.
  const hash = await parts.tenants.tokenHash(request.tenantId, `start:${key}`);
  const timeMs = Number.parseInt(hash.slice(0, 12), 16);
  const random = Uint8Array.from({ length: RANDOM_BYTES }, (_, i) =>
    Number.parseInt(hash.slice(12 + i * 2, 14 + i * 2), 16),
  );
  return runIdOf(`wrun_${ulid(timeMs, random)}`);
}

async function assertMayStart(parts: EngineParts, request: StartRequest): Promise<void> {
  if (parts.world.specVersion !== SPEC_VERSION || !parts.world.capabilities.inBandFence) {
    throw new BatonError("RUN_NOT_SUPPORTED", "the World does not keep runs of this version", {
      field: "capabilities.inBandFence",
      used: parts.world.specVersion,
      allowed: SPEC_VERSION,
    });
  }
  const { tenantId } = request;
  const standing = await parts.tenants.standingOf(tenantId);
  if (standing === null) {
    throw new BatonError("TENANT_NOT_FOUND", "there is no such tenant", { field: "tenantId" });
  }
  if (standing.status !== "active") {
    throw new BatonError("TENANT_SUSPENDED", "the tenant may not start runs", {
      field: "tenantId",
      used: standing.status,
    });
  }
  const refusal = storageRefusal(standing, "start");
  if (refusal !== null) throw refusal;
}

/** One key stands for one piece of work; for another workflow it is a mistake of the caller's. */
async function isSameStart(
  parts: EngineParts,
  { tenantId, runId }: RunRef,
  workflowName: string,
): Promise<boolean> {
  const row = await parts.world.forTenant(tenantId).runs.get(runId);
  if (row === null) return false;
  if (row.workflowName === workflowName) return true;
  throw new BatonError("ENTITY_CONFLICT", "the idempotency key was used for another workflow", {
    field: "idempotencyKey",
    used: row.workflowName,
    allowed: workflowName,
  });
}
