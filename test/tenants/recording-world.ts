/**
 * A World that keeps what it is handed, so that tests can look below the seal and tamper there. It
 * stores events, hook rows, blobs, chunks and messages; it enforces nothing.
 */
import { eventIdOf, slotOf } from "../../engine/slots.ts";
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import type { EntityId, MessageId, RunId, TenantId } from "../../engine/ids.ts";
import type { Message, QueueHandlers } from "../../engine/ports/queue.ts";
import type {
  CreateParams,
  HookRow,
  StoredBundle,
  StoredSnapshot,
  StoredTenant,
  StoredUse,
  TenantStore,
  World,
} from "../../engine/ports/world.ts";

const NO_USE: StoredUse = {
  runs: 0,
  openRuns: 0,
  events: 0,
  eventBytes: 0,
  blobBytes: 0,
  streamBytes: 0,
  snapshotBytes: 0,
  bundles: 0,
  bundleBytes: 0,
};

export class RecordingWorld {
  readonly events = new Map<string, RunEvent[]>();
  readonly blobs = new Map<string, Uint8Array>();
  readonly chunks = new Map<string, Uint8Array[]>();
  readonly snapshots = new Map<string, StoredSnapshot>();
  readonly bundles = new Map<string, StoredBundle>();
  readonly messages: Message[] = [];
  readonly records = new Map<TenantId, StoredTenant>();
  readonly usage = new Map<TenantId, StoredTenant>();
  readonly world: World;
  handlers: QueueHandlers | null = null;

  constructor() {
    this.world = {
      name: "recording",
      specVersion: 9,
      capabilities: { inBandFence: true, maxConcurrency: true, liveFeed: true, createBatch: true },
      durability: "none",
      forTenant: (tenantId) => this.#store(tenantId),
      queue: {
        send: (message) => {
          this.messages.push(message);
          return Promise.resolve({ messageId: "" as MessageId, deduplicated: false });
        },
        sendBatch: (sends) => {
          this.messages.push(...sends.map((send) => send.message));
          return Promise.resolve([]);
        },
        consume: (handlers) => {
          this.handlers = handlers;
          return { limitTenant: () => undefined, stop: () => Promise.resolve() };
        },
      },
      tenants: {
        get: (tenantId) => Promise.resolve(this.records.get(tenantId) ?? null),
        list: () => Promise.resolve({ data: [...this.records.values()], cursor: null }),
        put: (tenantId, body, expectedRevision) => {
          const revision = this.records.get(tenantId)?.revision ?? 0;
          if (revision !== expectedRevision) return Promise.resolve(false);
          this.records.set(tenantId, { tenantId, revision: revision + 1, body });
          return Promise.resolve(true);
        },
        measure: () => Promise.resolve({ use: NO_USE, cursor: null }),
        getUsage: (tenantId) => Promise.resolve(this.usage.get(tenantId) ?? null),
        putUsage: (tenantId, body, expectedRevision) => {
          const revision = this.usage.get(tenantId)?.revision ?? 0;
          if (revision !== expectedRevision) return Promise.resolve(false);
          this.usage.set(tenantId, { tenantId, revision: revision + 1, body });
          return Promise.resolve(true);
        },
        purge: (tenantId) => {
          this.records.delete(tenantId);
          return Promise.resolve();
        },
      },
      close: () => Promise.resolve(),
    };
  }

  /** Every byte and text that was handed down, as one buffer. */
  everything(): Buffer {
    const found: Buffer[] = [];
    const walk = (value: unknown): void => {
      if (value instanceof Uint8Array) found.push(Buffer.from(value));
      else if (typeof value === "string") found.push(Buffer.from(value));
      else if (value instanceof Map) for (const pair of value) walk(pair);
      else if (typeof value === "object" && value !== null) Object.values(value).forEach(walk);
    };
    for (const kept of [this.events, this.blobs, this.chunks, this.snapshots, this.messages]) {
      walk(kept);
    }
    return Buffer.concat(found);
  }

  logOf(tenantId: TenantId, runId: RunId): RunEvent[] {
    const key = `${tenantId}/${runId}`;
    const log = this.events.get(key) ?? [];
    this.events.set(key, log);
    return log;
  }

  #append(tenantId: TenantId, runId: RunId, event: NewEvent, params?: CreateParams): RunEvent {
    const log = this.logOf(tenantId, runId);
    const slot = slotOf(log.length + 1);
    const stored = { ...event, runId, slot, eventId: eventIdOf(slot), createdAt: 0, digest: "" };
    log.push(stored);
    if (params?.send !== undefined) this.messages.push(params.send.message);
    return stored;
  }

  #hookRows(tenantId: TenantId): HookRow[] {
    return [...this.events].flatMap(([key, log]) =>
      key.startsWith(`${tenantId}/`)
        ? log.flatMap((event) => (event.eventType === "hook_created" ? [hookRow(event)] : []))
        : [],
    );
  }

  #store(tenantId: TenantId): TenantStore {
    const keyOf = (runId: RunId, name: string): string => `${tenantId}/${runId}/${name}`;
    const counts = { seq: 0, seqInBand: 0 };
    const none = () => Promise.resolve(null);
    const noPage = () => Promise.resolve({ data: [], cursor: null });
    return {
      tenantId,
      events: {
        create: (runId, event, params) =>
          Promise.resolve({
            event: this.#append(tenantId, runId, event, params),
            allocated: 1,
            events: this.logOf(tenantId, runId).slice(0, -1),
            hasMore: false,
          }),
        createBatch: (runId, events, params) =>
          Promise.resolve({
            results: events.map((event) => ({
              kind: "committed" as const,
              event: this.#append(tenantId, runId, event, params),
            })),
            allocated: events.length,
            events: [],
            hasMore: false,
          }),
        list: (runId) =>
          Promise.resolve({
            events: this.logOf(tenantId, runId),
            hasMore: false,
            snapshot: counts,
            digestBefore: null,
          }),
        get: (runId, slot) => Promise.resolve(this.logOf(tenantId, runId)[slot - 1] ?? null),
        subscribe: (runId, _afterSlot, onEvent) => {
          this.logOf(tenantId, runId).forEach(onEvent);
          return Promise.resolve(() => undefined);
        },
      },
      runs: {
        get: none,
        list: noPage,
        countOpen: () => Promise.resolve(0),
        park: () => Promise.resolve(),
        unpark: () => Promise.resolve(false),
        purgeFinished: () => Promise.resolve(0),
      },
      steps: { get: none, list: noPage },
      waits: { get: none, list: noPage },
      hooks: {
        get: (runId, hookId: EntityId) =>
          Promise.resolve(
            this.#hookRows(tenantId).find((row) => row.runId === runId && row.hookId === hookId) ??
              null,
          ),
        getByToken: (tokenHash) =>
          Promise.resolve(
            this.#hookRows(tenantId).find((row) => row.tokenHash === tokenHash) ?? null,
          ),
        list: () => Promise.resolve({ data: this.#hookRows(tenantId), cursor: null }),
      },
      snapshots: {
        put: (runId, snapshot) => {
          this.snapshots.set(keyOf(runId, ""), snapshot);
          return Promise.resolve();
        },
        get: (runId) => Promise.resolve(this.snapshots.get(keyOf(runId, "")) ?? null),
        delete: () => Promise.resolve(),
        list: noPage,
      },
      bundles: {
        put: (bundle) => {
          this.bundles.set(`${tenantId}/${bundle.hash}`, bundle);
          return Promise.resolve();
        },
        get: (hash) => Promise.resolve(this.bundles.get(`${tenantId}/${hash}`) ?? null),
        list: () =>
          Promise.resolve({
            data: [...this.bundles]
              .filter(([key]) => key.startsWith(`${tenantId}/`))
              .map(([, bundle]) => bundle),
            cursor: null,
          }),
        delete: (hash) => Promise.resolve(this.bundles.delete(`${tenantId}/${hash}`)),
        setAlias: () => Promise.resolve(),
        getAlias: none,
        listAliases: () => Promise.resolve([]),
      },
      blobs: {
        put: (runId, key, bytes) => {
          this.blobs.set(keyOf(runId, key), bytes);
          return Promise.resolve();
        },
        get: (runId, key) => Promise.resolve(this.blobs.get(keyOf(runId, key)) ?? null),
        delete: () => Promise.resolve(),
      },
      streams: {
        write: (runId, name, chunks) => {
          const kept = [...(this.chunks.get(keyOf(runId, name)) ?? []), ...chunks];
          this.chunks.set(keyOf(runId, name), kept);
          return Promise.resolve(kept.length - 1);
        },
        close: () => Promise.resolve(),
        getChunks: (runId, name) =>
          Promise.resolve({
            chunks: this.chunks.get(keyOf(runId, name)) ?? [],
            startIndex: 0,
            done: false,
          }),
        getInfo: none,
        list: () => Promise.resolve([]),
      },
      openEntities: () =>
        Promise.resolve({ steps: [], waits: [], hooks: this.#hookRows(tenantId) }),
    };
  }
}

function hookRow(event: RunEvent & { eventType: "hook_created" }): HookRow {
  return {
    hookId: event.correlationId as EntityId,
    runId: event.runId,
    tokenHash: event.eventData.tokenHash,
    token: event.eventData.token,
    metadata: event.eventData.metadata ?? null,
    isWebhook: false,
    isSystem: false,
    status: "open",
    createdAt: 0,
    tokenRetentionUntil: null,
    claimedFrom: null,
  };
}
