/**
 * What must hold of what reaches outside of a run: children, streams, tokens, attributes, webhooks,
 * lifecycle hooks. Pure.
 */
import type { RunEvent } from "../../../engine/events.ts";
import type { Commit, FinalRun, Observation } from "../observation.ts";
import { nameOf } from "./log-rules.ts";
import { valueOf } from "./model.ts";

/** Every run, whoever started it, has a token prefix of its own. */
export function childBreaches({ runs }: Observation): string[] {
  const starts = new Map<string, string>();
  const breaches: string[] = [];
  for (const { record } of runs) {
    const { tenantId, runId } = record.ref;
    const key = `${tenantId} ${record.planned.input.token}`;
    const other = starts.get(key);
    if (other !== undefined) breaches.push(`${runId} and ${other} are one start`);
    starts.set(key, runId);
  }
  return breaches;
}

/** Payloads of a client's script are in the logs of its run and that run's children once each. */
export function payloadBreaches({ record }: FinalRun, { runs }: Observation): string[] {
  const { planned, ref } = record;
  const family = runs.filter(
    (run) =>
      run.record.ref.tenantId === ref.tenantId &&
      run.record.planned.input.token.split("/")[0] === planned.input.token,
  );
  const received = family
    .flatMap(({ events }) => events)
    .flatMap((event) => (event.eventType === "hook_received" ? [event.eventData.payload] : []))
    .map((payload) => valueOf(payload, null));
  const breaches: string[] = [];
  for (const { hook, value } of planned.script.payloads) {
    const isAcknowledged = record.resumed.some(
      (told) => told.hook === hook && told.value === value,
    );
    const count = received.filter((each) => each === value).length;
    if (isAcknowledged && count === 0) breaches.push(`the acknowledged payload ${value} is lost`);
    if (count > 1) breaches.push(`the payload ${value} was delivered ${count} times`);
  }
  return breaches;
}

/** A stream holds what bodies wrote, densely, and all that bodies wrote that came to their end. */
export function streamBreaches(run: FinalRun, observation: Observation): string[] {
  const breaches: string[] = [];
  const own = observation.bodies.filter(({ ref }) => ref.runId === run.record.ref.runId);
  const completed = new Set(
    run.events.flatMap((event) =>
      event.eventType === "step_completed" ? [event.correlationId] : [],
    ),
  );
  for (const { name, chunks, tailIndex } of run.streams) {
    if (chunks.length !== tailIndex + 1) {
      breaches.push(`${name} holds ${chunks.length} chunks and ends at ${tailIndex}`);
    }
    if (!name.includes("_user")) continue;
    const written = new Set(own.flatMap(({ wrote }) => wrote.map(({ text }) => text)));
    const strangers = chunks.filter((text) => !written.has(text));
    if (strangers.length > 0)
      breaches.push(`${name} holds ${strangers.join()}, which nobody wrote`);
  }
  for (const body of own) {
    if (body.end !== "completed" || !completed.has(body.stepId)) continue;
    for (const { name, text, isLate } of body.wrote) {
      const { chunks = [] } = run.streams.find((stream) => stream.name === name) ?? {};
      const count = chunks.filter((each) => each === text).length;
      // A write whose answer was lost fails its body, so one that completed wrote each chunk once.
      if (count !== 1 && !(isLate && count === 0))
        breaches.push(`${name} holds ${text} ${count} times`);
    }
    const order = body.wrote.map(({ name, text }) =>
      (run.streams.find((stream) => stream.name === name)?.chunks ?? []).indexOf(text),
    );
    if (order.some((at, i) => at >= 0 && at < (order[i - 1] ?? 0))) {
      breaches.push(`the chunks of ${body.label} stand out of order`);
    }
  }
  return [...breaches, ...readBreaches(run)];
}

/** A live reader was given each chunk once, in order. */
function readBreaches({ record, streams }: FinalRun): string[] {
  if (record.read.length === 0) return [];
  const chunks = streams.find(({ name }) => name.endsWith("_user"))?.chunks ?? [];
  const isPrefix = record.read.every((text, i) => text === chunks[i]);
  return isPrefix ? [] : [`a reader got ${record.read.join()} of ${chunks.join()}`];
}

/** The row has what the attributes of the log come to, by slot. */
export function attributeBreaches({ events, attributes }: FinalRun): string[] {
  const folded = new Map<string, string>();
  for (const event of events) {
    if (event.eventType !== "attr_set") continue;
    for (const { key, value } of event.eventData.changes) {
      if (value === null) folded.delete(key);
      else folded.set(key, value);
    }
  }
  const sorted = (of: Iterable<[string, string]>) =>
    [...of]
      .map(([key, value]) => `${key}=${value}`)
      .toSorted()
      .join();
  if (sorted(folded) === sorted(Object.entries(attributes))) return [];
  return [
    `its attributes are ${sorted(Object.entries(attributes))}, its log says ${sorted(folded)}`,
  ];
}

/**
 * A token is held by one open hook at a time: of the events in the order in which the World took
 * them, a creation finds its token free, or takes it by force.
 */
export function tokenBreaches({ commits, runs }: Observation): string[] {
  const tenantOf = new Map(runs.map(({ record }) => [record.ref.runId, record.ref.tenantId]));
  const holders = new Map<string, Commit>();
  const over = new Set<string>();
  const breaches: string[] = [];
  for (const event of commits) {
    const { runId } = event;
    if (isEnd(event)) {
      over.add(runId);
      for (const [token, held] of holders) if (held.runId === runId) holders.delete(token);
    }
    if (event.eventType === "hook_disposed") {
      for (const [token, held] of holders) {
        if (held.correlationId === event.correlationId) holders.delete(token);
      }
    }
    if (event.eventType !== "hook_created" || over.has(runId)) continue;
    const token = `${tenantOf.get(runId)} ${event.eventData.tokenHash}`;
    const held = holders.get(token);
    if (held !== undefined && event.eventData.force !== true) {
      breaches.push(`${nameOf(event)} of ${runId} takes what ${held.runId} holds`);
    }
    holders.set(token, event);
  }
  return breaches;
}

function isEnd({ eventType }: RunEvent): boolean {
  return ["run_completed", "run_failed", "run_cancelled"].includes(eventType);
}

/** A request to a webhook is answered as the workflow said; a second one may come too late. */
export function answerBreaches({ record }: FinalRun): string[] {
  const { webhookStatus } = record.planned.script;
  return record.answers
    .filter((status) => status !== webhookStatus && !(record.requests > 1 && status === 500))
    .map((status) => `a webhook that answers ${webhookStatus} answered ${status}`);
}

/** What lifecycle hooks heard is how the run ended. */
export function heardBreaches({ runs, heard }: Observation): string[] {
  const statuses = new Map<string, string | null>(
    runs.map(({ record, status }) => [record.ref.runId, status]),
  );
  return heard
    .filter(({ runId, outcome }) => statuses.get(runId) !== outcome)
    .map(
      ({ runId, outcome }) => `a hook heard that ${runId} ${outcome}; it ${statuses.get(runId)}`,
    );
}
