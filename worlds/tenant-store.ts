/**
 * The face of a tenant's data: checks what comes in, calls the ledger, and gives typed rows back.
 *
 * Owns the translation between the contract's shapes and the ledger's. Every call carries the
 * tenant that the store was made for; no argument can name another.
 */
import { z } from "zod";
import { present } from "../engine/assert.ts";
import type { NewEvent, RunEvent } from "../engine/events.ts";
import type { MessageId, RunId, RunRef, TenantId } from "../engine/ids.ts";
import { entityIdOf, runIdOf } from "../engine/ids.ts";
import type { Clock } from "../engine/ports/host.ts";
import type * as port from "../engine/ports/world.ts";
import { eventIdOf, positionOf } from "../engine/slots.ts";
import type { AppendItem } from "./append.ts";
import * as border from "./border.ts";
import type { Core } from "./core.ts";
import { crossed } from "./crossing.ts";
import type { AppendAnswer, AppendRequest, StoredItem } from "./ledger-answers.ts";
import { decodeBody, eventOf, hexOf, unpackRows } from "./event-record.ts";
import type { Feeds } from "./feeds.ts";
import { checkedSendOf } from "./message-border.ts";
import type { EntityAnswer } from "./row-ledger.ts";
import { itemOf } from "./run-rows.ts";
import type { EntityRecord, RunRecord } from "./tables.ts";
import { blobsOf, bundlesOf, checkedSlot, snapshotsOf, streamsOf } from "./tenant-cells.ts";
import type { RefOf } from "./tenant-cells.ts";

export interface StoreParts {
  readonly core: Core;
  readonly clock: Clock;
  readonly feeds: Feeds | null;
  readonly newMessageId: (now: number) => MessageId;
}

const slotCursor = z.number().int().min(0);
/** Where a listing of runs goes on. */
export const runCursor = z.strictObject({
  createdAt: z.number(),
  runId: z.string().transform((id) => (id === "" ? ("" as RunId) : runIdOf(id))),
});
const filterSchema = z.strictObject({
  cursor: z.string().optional(),
  limit: z.number().optional(),
  status: z.enum(["pending", "running", "completed", "failed", "cancelled"]).optional(),
  workflowName: z.string().max(1024).optional(),
  parked: z.boolean().optional(),
  createdFrom: z.number().optional(),
  createdBefore: z.number().optional(),
});
const parkedSchema = z.strictObject({
  code: z.string().min(1).max(64),
  message: z.string().max(4096),
  since: z.number().int().min(0),
});

export function tenantStoreOf(tenantId: TenantId, parts: StoreParts): port.TenantStore {
  const { core } = parts;
  const ref = (runId: RunId): RunRef => ({ tenantId, runId: runIdOf(runId) });
  return {
    tenantId,
    events: eventsOf(parts, ref),
    runs: runsOf(tenantId, parts, ref),
    steps: {
      get: async (runId, id) => stepOf(await entityOf(core, ref(runId), "step", id)),
      list: async (runId, params) => entityPage(core, ref(runId), "step", params, stepOf),
    },
    waits: {
      get: async (runId, id) => waitOf(await entityOf(core, ref(runId), "wait", id)),
      list: async (runId, params) => entityPage(core, ref(runId), "wait", params, waitOf),
    },
    hooks: {
      get: async (runId, id) => hookOf(runId, await entityOf(core, ref(runId), "hook", id)),
      getByToken: async (tokenHash) => {
        const hash = border.checkedHash("tokenHash", tokenHash);
        const answer = await core.call("rows", "hookByToken", tenantId, hash);
        return answer === null ? null : hookOf(answer.runId, answer);
      },
      list: async (runId, params) =>
        entityPage(core, ref(runId), "hook", params, (answer) => hookOf(runId, answer)),
    },
    snapshots: snapshotsOf(tenantId, core, ref),
    bundles: bundlesOf(tenantId, core),
    blobs: blobsOf(core, ref),
    streams: streamsOf(core, ref),
    openEntities: async (runId) => {
      const open = await core.call("rows", "open", ref(runId));
      return {
        steps: open.map(stepOf).filter((row) => row !== null),
        waits: open.map(waitOf).filter((row) => row !== null),
        hooks: open.map((answer) => hookOf(runId, answer)).filter((row) => row !== null),
      };
    },
  };
}

function eventsOf(parts: StoreParts, ref: RefOf): port.Events {
  const { core, feeds } = parts;
  return {
    create: async (runId, value, params) => {
      const event = border.checkedEvent(value);
      const request = requestOf(parts, ref(runId), [event], params);
      const answer = await core.call("events", "create", request);
      const stored = present(answer.items[0], "a write answers for its event");
      if (stored.kind === "refused") throw crossed(stored.refusal);
      return { event: storedEvent(runId, event, stored), ...writtenOf(runId, answer) };
    },
    createBatch: async (runId, values, params) => {
      const events = border.checkedBatch(values);
      const request = requestOf(parts, ref(runId), events, params);
      if (request.send !== null || request.resumeId !== null) {
        throw refusedOnBatch();
      }
      const answer = await core.call("events", "createBatch", request);
      const results = answer.items.map((item, i): port.BatchItemResult => {
        if (item.kind === "refused") return { kind: "refused", error: crossed(item.refusal) };
        const event = present(events[i], "each item of a batch is answered for");
        return { kind: "committed", event: storedEvent(runId, event, item) };
      });
      return { results, ...writtenOf(runId, answer) };
    },
    list: async (runId, params = {}) => {
      params.signal?.throwIfAborted();
      const max = border.LIST_EVENTS_MAX;
      const page = await core.call("events", "list", {
        ...ref(runId),
        afterSlot: positionOf(
          border.checkedInteger("afterSlot", params.afterSlot ?? 0, 0, Number.MAX_SAFE_INTEGER),
        ),
        limit: border.checkedInteger("limit", params.limit ?? max, 1, max),
        correlationId: params.correlationId === undefined ? null : entityIdOf(params.correlationId),
      });
      params.signal?.throwIfAborted();
      const { digestBefore } = page;
      return {
        events: eventsIn(runId, page.rows),
        hasMore: page.hasMore,
        snapshot: page.snapshot,
        digestBefore: digestBefore === null ? null : hexOf(digestBefore),
      };
    },
    get: async (runId, slot) => {
      const place = { ...ref(runId), slot: checkedSlot("slot", slot) };
      return eventsIn(runId, await core.call("events", "get", place))[0] ?? null;
    },
    subscribe: async (runId, afterSlot, onEvent, options) => {
      if (feeds === null) throw border.unfinished("events.subscribe");
      const position = checkedSlot("afterSlot", afterSlot);
      return feeds.subscribe(ref(runId), position, onEvent, options);
    },
  };
}

function refusedOnBatch() {
  return border.invalid("params", "send or resumeId", "without these two on a batch");
}

function requestOf(
  { clock, newMessageId }: StoreParts,
  run: RunRef,
  events: readonly NewEvent[],
  params: port.CreateParams | undefined,
): AppendRequest {
  const { fence, resumeId } = border.checkedParams(params);
  const now = clock.now();
  const send = params?.send === undefined ? null : checkedSendOf(run, params.send);
  return {
    ...run,
    items: events.map(checkedItem),
    fence,
    resumeId,
    now,
    send: send === null ? null : { ...send, messageId: newMessageId(now) },
  };
}

function checkedItem(event: NewEvent): AppendItem {
  const item = itemOf(event);
  border.checkPlainBytes(item.body.length, event);
  return item;
}

function storedEvent(
  runId: RunId,
  event: NewEvent,
  stored: Extract<StoredItem, { kind: "stored" }>,
): RunEvent {
  const { slot, createdAt, digest, body } = stored;
  if (body !== null) return eventOf(runId, { slot, createdAt, digest, body });
  const { eventType, eventData, correlationId, specVersion } = event;
  return {
    runId,
    slot,
    eventId: eventIdOf(slot),
    eventType,
    eventData,
    correlationId,
    createdAt,
    specVersion,
    digest: hexOf(digest),
  } as RunEvent;
}

function writtenOf(runId: RunId, { allocated, report, hasMore }: AppendAnswer) {
  return { allocated, events: eventsIn(runId, report), hasMore };
}

function eventsIn(runId: RunId, packed: Uint8Array): RunEvent[] {
  return unpackRows(packed).map((row) => eventOf(runId, row));
}

function runsOf(tenantId: TenantId, { core }: StoreParts, ref: RefOf): port.Runs {
  return {
    get: async (runId) => {
      const run = await core.call("rows", "run", ref(runId));
      return run === null ? null : runRowOf(run);
    },
    list: async (given = {}) => {
      const filter = border.refusing("filter", () => filterSchema.parse(given)) as port.RunFilter;
      const below = border.positionFrom(filter.cursor, runCursor);
      const limit = border.checkedLimit(filter);
      const page = await core.call("rows", "runs", tenantId, filter, below, limit);
      return {
        data: page.runs.map(runRowOf),
        cursor: page.next === null ? null : border.cursorOf(page.next),
      };
    },
    countOpen: async (max) =>
      core.call(
        "rows",
        "countOpen",
        tenantId,
        border.checkedInteger("max", max, 0, Number.MAX_SAFE_INTEGER),
      ),
    park: async (runId, reason) => {
      const checked = border.refusing("reason", () => parkedSchema.parse(reason));
      await core.call("rows", "park", ref(runId), checked);
    },
    unpark: async (runId) => core.call("rows", "unpark", ref(runId)),
    purgeFinished: async (finishedBefore, limit) =>
      core.call(
        "rows",
        "purgeFinished",
        tenantId,
        border.checkedInteger("finishedBefore", finishedBefore, 0, Number.MAX_SAFE_INTEGER),
        border.checkedInteger("limit", limit, 1, border.PAGE_MAX),
      ),
  };
}

function runRowOf(run: RunRecord): port.RunRow {
  const { runId, specVersion, status, workflowName, deploymentId, attributes, parked } = run;
  const { createdAt, startedAt, completedAt, seq, seqInBand } = run;
  return {
    runId,
    specVersion,
    status,
    workflowName,
    deploymentId,
    attributes,
    createdAt,
    startedAt,
    completedAt,
    counts: { seq, seqInBand },
    parked,
  };
}

async function entityOf(core: Core, run: RunRef, kind: EntityRecord["kind"], id: string) {
  return core.call("rows", "entity", run, kind, entityIdOf(id));
}

async function entityPage<T>(
  core: Core,
  run: RunRef,
  kind: EntityRecord["kind"],
  params: port.PageParams | undefined,
  rowOf: (answer: EntityAnswer) => T | null,
): Promise<port.Page<T>> {
  const after = positionOf(border.positionFrom(params?.cursor, slotCursor) ?? 0);
  const page = await core.call("rows", "entities", run, kind, after, border.checkedLimit(params));
  return {
    data: page.entities.map(rowOf).filter((row) => row !== null),
    cursor: page.next === null ? null : border.cursorOf(page.next),
  };
}

function stepOf(answer: EntityAnswer | null): port.StepRow | null {
  if (answer?.record.kind !== "step") return null;
  return { stepId: answer.record.id, ...answer.record.body };
}

function waitOf(answer: EntityAnswer | null): port.WaitRow | null {
  if (answer?.record.kind !== "wait") return null;
  return { waitId: answer.record.id, ...answer.record.body };
}

function hookOf(runId: RunId, answer: EntityAnswer | null): port.HookRow | null {
  if (answer?.record.kind !== "hook") return null;
  const { id, body } = answer.record;
  const created = decodeBody(present(answer.createdBody, "a hook's creation stands in its log"));
  const { token, metadata } = created.eventData as { token: Uint8Array; metadata?: Uint8Array };
  return {
    hookId: id,
    runId,
    tokenHash: body.tokenHash,
    token,
    metadata: metadata ?? null,
    isWebhook: body.isWebhook,
    isSystem: body.isSystem,
    status: body.status === "open" ? "open" : "disposed",
    createdAt: body.createdAt,
    tokenRetentionUntil: body.tokenRetentionUntil,
    claimedFrom: body.claimedFrom,
  };
}
