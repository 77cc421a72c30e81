/**
 * A World around a core: the face that the engine and the tenants' part see.
 *
 * Owns the queue's and the tenant records' side of it, closing, and how effects are spread to feeds
 * and consumers.
 */
import { BatonError } from "../engine/errors.ts";
import { SPEC_VERSION } from "../engine/events.ts";
import type { MessageId, TenantId } from "../engine/ids.ts";
import { tenantIdOf } from "../engine/ids.ts";
import type { Clock, Log, Random } from "../engine/ports/host.ts";
import type { Queue, Send } from "../engine/ports/queue.ts";
import type { Durability, TenantRecords, TenantStore, World } from "../engine/ports/world.ts";
import * as border from "./border.ts";
import type { Core } from "./core.ts";
import { Dispatcher } from "./dispatcher.ts";
import { Feeds } from "./feeds.ts";
import { messageIdsFrom } from "./message-ids.ts";
import { checkedConsumeOptions, checkedSend } from "./message-border.ts";
import type { PreparedSend } from "./queue-ledger.ts";
import { runCursor, tenantStoreOf } from "./tenant-store.ts";

const SENDS_MAX = 1_000;

export interface FaceParts {
  readonly name: string;
  readonly core: Core;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly durability: Durability;
  /** Another process writes: no feed, no queue, and every write is refused. */
  readonly isReadOnly: boolean;
}

export function worldOver(parts: FaceParts): World {
  const { core, clock, isReadOnly } = parts;
  const newMessageId = messageIdsFrom(parts.random);
  const feeds = isReadOnly ? null : new Feeds(core, clock);
  const dispatcher = new Dispatcher(core, clock, parts.log);
  core.listen(({ deliveries, nextDueAt, appended }) => {
    feeds?.take(appended);
    dispatcher.take(deliveries, nextDueAt);
  });
  const stores = new Map<TenantId, TenantStore>();
  return {
    name: parts.name,
    specVersion: SPEC_VERSION,
    capabilities: {
      inBandFence: true,
      maxConcurrency: true,
      liveFeed: feeds !== null,
      createBatch: true,
      isShared: isReadOnly,
    },
    durability: parts.durability,
    forTenant: (value) => {
      const tenantId = tenantIdOf(value);
      const known = stores.get(tenantId);
      if (known !== undefined) return known;
      const store = tenantStoreOf(tenantId, { core, clock, feeds, newMessageId });
      // A cache of closures; cleared now and then so that it cannot grow with the tenants.
      if (stores.size >= 10_000) stores.clear();
      stores.set(tenantId, store);
      return store;
    },
    queue: queueOf(core, clock, dispatcher, newMessageId, isReadOnly),
    tenants: tenantRecordsOf(core),
    close: async () => {
      feeds?.close();
      dispatcher.close();
      await core.close();
    },
  };
}

function queueOf(
  core: Core,
  clock: Clock,
  dispatcher: Dispatcher,
  newMessageId: (now: number) => MessageId,
  isReadOnly: boolean,
): Queue {
  const prepared = ({ message, options }: Send, now: number): PreparedSend => ({
    ...checkedSend(message, options),
    messageId: newMessageId(now),
  });
  return {
    send: async (message, options) => {
      const now = clock.now();
      const send = prepared({ message, ...(options === undefined ? {} : { options }) }, now);
      const [result] = await core.call("queue", "sendAll", [send], now);
      if (result === undefined) throw new BatonError("WORLD_UNAVAILABLE", "a send has no answer");
      return result;
    },
    sendBatch: async (sends) => {
      const now = clock.now();
      border.checkedInteger("sends", sends.length, 0, SENDS_MAX);
      const all = sends.map((send) => prepared(send, now));
      return core.call("queue", "sendAll", all, now);
    },
    consume: (handlers, options) => {
      if (isReadOnly) throw border.unfinished("queue.consume");
      return dispatcher.consume(handlers, checkedConsumeOptions(options));
    },
  };
}

function checkedBody(body: string, expectedRevision: number): [body: string, revision: number] {
  return [
    border.checkedText("body", body, border.TENANT_BODY_CHARS_MAX),
    border.checkedInteger("expectedRevision", expectedRevision, 0, Number.MAX_SAFE_INTEGER),
  ];
}

function tenantRecordsOf(core: Core): TenantRecords {
  return {
    get: async (tenantId) => core.call("cells", "tenant", tenantIdOf(tenantId)),
    list: async (params) => {
      const after = params?.cursor === undefined ? "" : tenantIdOf(params.cursor);
      const limit = border.checkedLimit(params);
      const data = await core.call("cells", "tenants", after, limit);
      return { data, cursor: data.length < limit ? null : (data.at(-1)?.tenantId ?? null) };
    },
    put: async (tenantId, body, expectedRevision) =>
      core.call("cells", "putTenant", tenantIdOf(tenantId), ...checkedBody(body, expectedRevision)),
    measure: async (tenantId, cursor) => {
      const below = border.positionFrom(cursor, runCursor);
      const { use, next } = await core.call("rows", "measure", tenantIdOf(tenantId), below);
      if (next === null) return { use, cursor: null };
      const { createdAt, runId } = next;
      return { use, cursor: border.cursorOf({ createdAt, runId }) };
    },
    getUsage: async (tenantId) => core.call("cells", "usage", tenantIdOf(tenantId)),
    putUsage: async (tenantId, body, expectedRevision) =>
      core.call("cells", "putUsage", tenantIdOf(tenantId), ...checkedBody(body, expectedRevision)),
    purge: async (tenantId) => {
      const id = tenantIdOf(tenantId);
      while (await core.call("rows", "purgeTenant", id)) continue;
      await core.scrub();
      // Last: a purge that was cut short is seen by its record, and is done again.
      await core.call("cells", "deleteTenant", id);
    },
  };
}
