/**
 * Clients of a simulation: each starts one run and follows its script, however often it is told
 * that something failed. A client gives up only when its run is over.
 */
import { stringify } from "devalue";
import { isBatonError } from "../../engine/errors.ts";
import type { RunRef, TenantId } from "../../engine/ids.ts";
import { payloadOfText } from "../../engine/payload.ts";
import type { Planned } from "./catalog.ts";
import type { Draws } from "./draws.ts";
import type { Journal } from "./journal.ts";
import type { RunRecord } from "./observation.ts";
import { textOfChunk } from "./outside-bodies.ts";
import type { SimulatedEngine } from "./simulated-engine.ts";
import type { VirtualClock } from "./virtual-clock.ts";

/** Tries of one request; they back off to hours, so they span more than any hook is late. */
const TRIES_MAX = 60;
const BACKOFF_MS_MAX = 6 * 3_600_000;

export interface ClientParts {
  readonly clock: VirtualClock;
  readonly draws: Draws;
  readonly journal: Journal;
  readonly deploymentId: string;
  /** The engine of the client's process as it is now; another one after a crash. */
  engine(): SimulatedEngine;
  /** Told without a fault: what the World really holds. */
  isOver(run: RunRef): Promise<boolean>;
  /** A token that a body of the run was told, once it was. */
  tokenOf(run: RunRef): string | null;
}

export interface ClientRequest {
  readonly tenantId: TenantId;
  /** Names the start, so that its repetition converges on the first. */
  readonly key: string;
  readonly planned: Planned;
}

/** Follows a script; resolves when the client has no more to do. */
export async function client(
  { tenantId, key, planned }: ClientRequest,
  parts: ClientParts,
  began: (record: RunRecord) => void,
): Promise<void> {
  const { clock, deploymentId } = parts;
  await clock.sleep(parts.draws.between(0, 3_000));
  const input = payloadOfText(stringify([planned.input]));
  const { workflow: workflowName } = planned;
  const ref = await insistently(parts, "start", () =>
    parts.engine().start({ tenantId, workflowName, deploymentId, input, idempotencyKey: key }),
  );
  if (ref === null) return;
  const record: RunRecord = {
    ref,
    planned,
    isAcknowledged: true,
    resumed: [],
    cancelAcknowledged: false,
    answers: [],
    requests: 0,
    read: [],
  };
  began(record);
  await Promise.all([
    ...planned.script.payloads.map((payload, i) => resume(record, payload, `${key}/${i}`, parts)),
    cancel(record, parts),
    wake(record, parts),
    request(record, parts),
    read(record, parts),
  ]);
}

async function resume(
  record: RunRecord,
  payload: Planned["script"]["payloads"][number],
  resumeId: string,
  parts: ClientParts,
): Promise<void> {
  const { ref, planned } = record;
  await parts.clock.sleep(payload.afterMs);
  const token = `${planned.input.token}/${payload.hook}`;
  const done = await insistently(
    parts,
    "resume",
    () =>
      parts.engine().resumeHook({
        tenantId: ref.tenantId,
        token,
        payload: payloadOfText(stringify(payload.value)),
        resumeId,
      }),
    ref,
  );
  if (done !== null) record.resumed.push({ hook: payload.hook, value: payload.value });
}

async function cancel(record: RunRecord, parts: ClientParts): Promise<void> {
  const { cancelAfterMs } = record.planned.script;
  if (cancelAfterMs === null) return;
  await parts.clock.sleep(cancelAfterMs);
  const done = await insistently(
    parts,
    "cancel",
    () => parts.engine().cancel(record.ref),
    record.ref,
  );
  record.cancelAcknowledged = done !== null;
}

/** Wakes the run until it is over: an early request may find nothing that sleeps. */
async function wake(record: RunRecord, parts: ClientParts): Promise<void> {
  const { wakeAfterMs } = record.planned.script;
  if (wakeAfterMs === null) return;
  for (let i = 0; i < TRIES_MAX; i++) {
    await parts.clock.sleep(wakeAfterMs);
    if (await parts.isOver(record.ref)) return;
    await insistently(parts, "wake", () => parts.engine().wakeUp(record.ref), record.ref);
  }
}

/** Calls the run's webhook once its token is known. */
async function request(record: RunRecord, parts: ClientParts): Promise<void> {
  const { ref, planned } = record;
  if (planned.script.webhookStatus === null) return;
  for (let i = 0; parts.tokenOf(ref) === null && i < TRIES_MAX * 10; i++) {
    await parts.clock.sleep(parts.draws.between(100, 20_000));
    if (await parts.isOver(ref)) return;
  }
  const token = parts.tokenOf(ref);
  if (token === null) return;
  const ask = () => {
    record.requests++;
    return parts.engine().resumeWebhook({ tenantId: ref.tenantId, token });
  };
  const status = await insistently(parts, "request", ask, ref);
  if (status !== null) record.answers.push(status);
}

/** Reads the run's stream to its end, going on where it was after whatever goes wrong. */
async function read(record: RunRecord, parts: ClientParts): Promise<void> {
  const { ref, planned, read } = record;
  if (!planned.script.reads) return;
  for (let i = 0; i < TRIES_MAX; i++) {
    const ask = () => parts.engine().readStream(ref, read.length);
    const page = await insistently(parts, "read", ask);
    if (page === null) return;
    read.push(...page.chunks.map(textOfChunk));
    if (page.done) return;
  }
}

/** Asks until it is done; null once the run is over or the tries are used up. */
async function insistently<T>(
  parts: ClientParts,
  what: string,
  ask: () => Promise<T>,
  run?: RunRef,
): Promise<T | null> {
  let backoffMs = 200;
  for (let i = 0; i < TRIES_MAX; i++) {
    const result = await answered(parts, what, ask);
    if (result !== null) return result.value;
    await parts.clock.sleep(backoffMs);
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX);
    if (run !== undefined && (await parts.isOver(run))) return null;
  }
  return null;
}

/** An answer, or null if it failed or if the client's process died before it came. */
async function answered<T>(
  parts: ClientParts,
  what: string,
  ask: () => Promise<T>,
): Promise<{ readonly value: T } | null> {
  const died = parts.engine().died.then(() => null);
  const asked = ask().then(
    (value) => ({ value }),
    (error: unknown) => {
      const isExpected = ["HOOK_NOT_FOUND", "RUN_EXPIRED", "RUN_NOT_FOUND", "ENTITY_CONFLICT"].some(
        (code) => isBatonError(error) && error.code === code,
      );
      if (!isExpected) parts.journal.unexpected(`a client's ${what}`, error);
      return null;
    },
  );
  return Promise.race([asked, died]);
}
