/**
 * What can be answered before a run is loaded: unknown versions, suspended tenants, parked runs,
 * hops on the way to a long wait's deadline, and wakes with nothing new.
 *
 * Owns these early answers. None of them writes an event, and none but a hop sends a message.
 */
import { SPEC_VERSION } from "./events.ts";
import type { Arrival } from "./delivery-state.ts";
import { ACK, nowMs } from "./delivery-state.ts";
import { CPU_WAIT_IN_PLACE_MS_MAX, SET_ASIDE_REDELIVERY_MS } from "./limits.ts";
import { snapshotStoreOf, tailReaderOf } from "./loading.ts";
import type { DeliveryResult } from "./ports/queue.ts";
import type { TenantLimits } from "./ports/tenants.ts";
import type { RunRow } from "./ports/world.ts";
import { pageAfter } from "./reads.ts";
import { deleteSnapshot } from "./snapshots.ts";
import { createdByInput } from "./turbo.ts";
import { hopAfter, isIntermediateHop } from "./timers.ts";
import { BatonError, isBatonError } from "./errors.ts";

export type Met =
  | { readonly kind: "answer"; readonly outcome: string; readonly result: DeliveryResult }
  | { readonly kind: "go"; readonly limits: TenantLimits };

/** Not this build's, not now, or for an operator to mend: the message stays, uncounted. */
const SET_ASIDE: DeliveryResult = {
  kind: "redeliver",
  afterMs: SET_ASIDE_REDELIVERY_MS,
  counted: false,
};

/** `isFresh`: nothing is read of the run. */
export async function meet(arrival: Arrival, isFresh: boolean): Promise<Met> {
  const { message, run, engine } = arrival;
  const standing = await engine.parts.tenants.standingOf(run.tenantId);
  if (standing === null) return answer("no such tenant", ACK);
  engine.memory.deliveries.heed(run.tenantId, standing.limits.deliveries);
  if (standing.status !== "active") return answer("tenant is not active", SET_ASIDE);
  const waitMs = engine.parts.tenants.cpuWaitMs(run.tenantId);
  if (waitMs > CPU_WAIT_IN_PLACE_MS_MAX) {
    const again = { kind: "redeliver", afterMs: waitMs, counted: false } as const;
    return answer("the tenant has used its CPU", again);
  }
  if (isFresh) return { kind: "go", limits: standing.limits };
  if (isIntermediateHop(message.waitContinuation)) return passHop(arrival);
  if (await isAtRest(arrival)) return answer("nothing new", ACK);
  const row = await runRow(arrival);
  if (row === null) return answer("no such run", ACK);
  if (row.specVersion !== SPEC_VERSION) throw notSupported(row.specVersion);
  if (row.completedAt !== null) return passEnd(arrival);
  if (row.parked !== null) return answer("parked", SET_ASIDE);
  return { kind: "go", limits: standing.limits };
}

function answer(outcome: string, result: DeliveryResult): Met {
  return { kind: "answer", outcome, result };
}

/** The message says one version, the run's row another. */
function notSupported(specVersion: number): BatonError {
  return new BatonError("RUN_NOT_SUPPORTED", "the run is of another version than its message", {
    field: "specVersion",
    used: specVersion,
    allowed: SPEC_VERSION,
  });
}

/** The run is over: nothing is read of its log, and what was kept to go on with it is dropped. */
async function passEnd(arrival: Arrival): Promise<Met> {
  const { run, engine } = arrival;
  engine.memory.endings.announce(run);
  engine.memory.liveHeaps.take(run)?.heap.close();
  engine.memory.positions.forget(run);
  await deleteSnapshot(snapshotStoreOf(arrival), arrival.logger);
  return answer("over already", ACK);
}

/** A hop of a long wait: reads the run's status, sends the next hop, writes nothing. */
async function passHop(arrival: Arrival): Promise<Met> {
  const { message, run, engine } = arrival;
  const row = await arrival.store.runs.get(run.runId);
  if (row === null || row.completedAt !== null) return answer("hop of a run that is over", ACK);
  const { waitContinuation } = message;
  const next =
    waitContinuation === undefined ? null : hopAfter(run, waitContinuation, nowMs(arrival));
  if (next !== null) await engine.parts.world.queue.send(next.message, next.options);
  return answer("hop", ACK);
}

/** Whether the message stands for nothing that this process has not driven to rest already. */
async function isAtRest(arrival: Arrival): Promise<boolean> {
  const { message, meta, engine, run } = arrival;
  if (message.waitContinuation !== undefined || meta.recovery) return false;
  if (meta.timers.length > 0) return false;
  if (message.runInput !== undefined && meta.deliveryCount === 1) return false;
  // A delivery that is not its message's first owes the re-send pass, once per invocation.
  const hasResent = engine.memory.resendPasses.has(invocationKey(arrival));
  if (meta.deliveryCount > 1 && !hasResent) return false;
  const slot = engine.memory.positions.restingAt(run, nowMs(arrival));
  if (slot === null) return false;
  const page = await pageAfter(tailReaderOf(arrival), { afterSlot: slot, limit: 1 });
  return page.events.length === 0 && page.snapshot.seq === slot;
}

/** Names an invocation over all its coalesced re-runs. */
export function invocationKey({ run, meta }: Arrival): string {
  return `${run.tenantId}/${meta.messageId}/${meta.invocationStartedAt}`;
}

/** The run's row; made from the start message if its `run_created` never landed. */
async function runRow(arrival: Arrival): Promise<RunRow | null> {
  const { store, run, message } = arrival;
  const row = await store.runs.get(run.runId);
  const input = message.runInput;
  if (row !== null || input === undefined) return row;
  try {
    await store.events.create(run.runId, createdByInput(input));
  } catch (error) {
    // The start itself was only late, and has made the run by now.
    if (!isBatonError(error, "ENTITY_CONFLICT")) throw error;
  }
  return store.runs.get(run.runId);
}
