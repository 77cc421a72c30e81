/**
 * Intake: what callers from outside put into a run's log.
 *
 * Owns the out-of-band events of clients: a hook's payload, a cancellation, a request to wake. Each
 * goes with the wake that it implies, both or neither, so that whatever a message stands for is in
 * the log, and nothing in the log waits for a message that was lost.
 *
 * E80  A request is answered only once it is in the log.
 * E83  A system hook is found by nobody but the platform's own call that aborts its signal.
 */
import { BatonError, isBatonError } from "./errors.ts";
import type { NewEvent } from "./events.ts";
import { runIdOf } from "./ids.ts";
import type { EntityId, RunRef, TenantId } from "./ids.ts";
import { FORCE_CLAIM_REDIRECTS_MAX } from "./limits.ts";
import { wakeOf } from "./owed.ts";
import type { EngineParts } from "./parts.ts";
import type { Payload } from "./payload.ts";
import { newEvent } from "./plan.ts";
import type { EventResult, HookRow, RunRow } from "./ports/world.ts";
import { SPEC_VERSION } from "./events.ts";

export interface HookResume {
  readonly tenantId: TenantId;
  readonly token: string;
  readonly payload: Payload;
  /** Repeats of one resume under one id are one payload. */
  readonly resumeId?: string;
}

/**
 * Gives the open hook that holds the token a payload. If another run takes the token by force in
 * between, the payload goes to that one (spec: "Force-claim").
 */
export function resumeHook(parts: EngineParts, resume: HookResume): Promise<HookRow> {
  return resumeFound(parts, resume, hookByToken);
}

/** The same for the hook of a signal, which only the platform itself resumes. */
export function resumeSystemHook(parts: EngineParts, resume: HookResume): Promise<HookRow> {
  return resumeFound(parts, resume, systemHookByToken);
}

async function resumeFound(
  parts: EngineParts,
  resume: HookResume,
  byToken: typeof hookByToken,
): Promise<HookRow> {
  for (let redirects = 0; ; redirects++) {
    const hook = await byToken(parts, resume.tenantId, resume.token);
    const run = { tenantId: resume.tenantId, runId: hook.runId };
    await parts.tenants.admitHookPayload(run);
    const event = newEvent("hook_received", hook.hookId, { payload: resume.payload });
    try {
      await append(parts, run, event, resume.resumeId);
      return hook;
    } catch (error) {
      if (wasClaimed(error) && redirects < FORCE_CLAIM_REDIRECTS_MAX) continue;
      // The run ended, or disposed of the hook, between the look-up and the write.
      if (isBatonError(error, "RUN_EXPIRED") || isBatonError(error, "HOOK_NOT_FOUND")) {
        throw noHook(error);
      }
      throw error;
    }
  }
}

function wasClaimed(error: unknown): boolean {
  return isBatonError(error, "HOOK_NOT_FOUND") && error.details["forceClaimedBy"] !== undefined;
}

/** The open hook of the tenant's code that holds the token; `HOOK_NOT_FOUND` if there is none. */
export async function hookByToken(
  parts: EngineParts,
  tenantId: TenantId,
  token: string,
): Promise<HookRow> {
  const hook = await openHookOf(parts, tenantId, token);
  if (hook.isSystem) throw noHook();
  return hook;
}

async function systemHookByToken(
  parts: EngineParts,
  tenantId: TenantId,
  token: string,
): Promise<HookRow> {
  const hook = await openHookOf(parts, tenantId, token);
  if (!hook.isSystem) throw noHook();
  return hook;
}

async function openHookOf(parts: EngineParts, tenantId: TenantId, token: string): Promise<HookRow> {
  await assertTenantExists(parts, tenantId);
  const tokenHash = await parts.tenants.tokenHash(tenantId, token);
  const hook = await parts.world.forTenant(tenantId).hooks.getByToken(tokenHash);
  if (hook === null || hook.status !== "open") throw noHook();
  return hook;
}

function noHook(cause?: unknown): BatonError {
  const message = "the tenant has no open hook of this token";
  return new BatonError("HOOK_NOT_FOUND", message, { field: "token" }, cause);
}

/** Ends the run by request; false if it was over already. */
export async function cancelRun(
  parts: EngineParts,
  run: RunRef,
  cancelReason?: string,
): Promise<boolean> {
  const row = await runRow(parts, run);
  if (row.completedAt !== null) return false;
  const data = cancelReason === undefined ? {} : { cancelReason };
  try {
    await append(parts, run, newEvent("run_cancelled", null, data));
    return true;
  } catch (error) {
    if (isBatonError(error, "RUN_EXPIRED") || isBatonError(error, "ENTITY_CONFLICT")) return false;
    throw error;
  }
}

/**
 * Asks for open waits to be completed now: those named, or all. Returns the waits that the request
 * names; each of them will complete (design §9).
 */
export async function wakeUp(
  parts: EngineParts,
  run: RunRef,
  waitIds?: readonly string[],
): Promise<readonly EntityId[]> {
  const row = await runRow(parts, run);
  if (row.completedAt !== null) return [];
  const { waits } = await parts.world.forTenant(run.tenantId).openEntities(run.runId);
  const named = waits
    .filter((wait) => wait.status === "waiting")
    .map((wait) => wait.waitId)
    .filter((waitId) => waitIds === undefined || waitIds.includes(waitId));
  if (named.length === 0) return [];
  try {
    await append(parts, run, newEvent("wake_requested", null, { waitIds: [...named] }));
    return named;
  } catch (error) {
    if (isBatonError(error, "RUN_EXPIRED")) return [];
    throw error;
  }
}

/** The run's row, of a version that this build writes. */
export async function runRow(parts: EngineParts, run: RunRef): Promise<RunRow> {
  await assertTenantExists(parts, run.tenantId);
  const row = await parts.world.forTenant(run.tenantId).runs.get(runIdOf(run.runId));
  if (row === null) {
    throw new BatonError("RUN_NOT_FOUND", "the tenant has no run of this id", { field: "runId" });
  }
  if (row.specVersion !== SPEC_VERSION) throw notSupported(row.specVersion);
  return row;
}

function notSupported(specVersion: number): BatonError {
  return new BatonError(
    "RUN_NOT_SUPPORTED",
    "the run is of a version that this build can not write",
    {
      field: "specVersion",
      used: specVersion,
      allowed: SPEC_VERSION,
    },
  );
}

/** Suspended tenants still take payloads, cancellations and requests; unknown ones take nothing. */
async function assertTenantExists(parts: EngineParts, tenantId: TenantId): Promise<void> {
  const standing = await parts.tenants.standingOf(tenantId);
  if (standing !== null && standing.status !== "deleting") return;
  if (standing === null) {
    throw new BatonError("TENANT_NOT_FOUND", "there is no such tenant", { field: "tenantId" });
  }
  throw new BatonError("TENANT_SUSPENDED", "the tenant is being deleted", { field: "tenantId" });
}

async function append(
  parts: EngineParts,
  run: RunRef,
  event: NewEvent,
  resumeId?: string,
): Promise<EventResult> {
  const send = wakeOf(run);
  const params = resumeId === undefined ? { send } : { send, resumeId };
  return parts.world.forTenant(run.tenantId).events.create(run.runId, event, params);
}
