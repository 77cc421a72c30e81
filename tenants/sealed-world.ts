/**
 * A World behind a seal: everything of a tenant that is a value is ciphertext below this line and
 * plain above it.
 *
 * Owns which fields are sealed and what each is bound to. Sealed are the payload fields of events
 * (among them each run's seed and each hook's token), the inputs that messages carry, tokens and
 * metadata of hook rows, blobs and stream chunks. Snapshots come sealed already (by
 * `Tenants.sealSnapshot`), which is checked here.
 *
 * Plain stay: ids, names of workflows, steps and streams, attributes, cancel reasons, times, counts,
 * hashes of tokens, the code of bundles, and tenants' records.
 *
 * T16  No payload reaches the inner World unsealed, and none leaves this one unopened.
 * T48  Nothing of a tenant whose data key is destroyed is written: each write asks for the key first.
 * T17  A value opens only for the tenant, run, entity and field that it was sealed for.
 */
import { assert } from "../engine/assert.ts";
import { PAYLOAD_FIELDS, type NewEvent, type RunEvent } from "../engine/events.ts";
import type { RunRef, TenantId } from "../engine/ids.ts";
import type { Message, Queue, Send } from "../engine/ports/queue.ts";
import type {
  Blobs,
  Bundles,
  CreateParams,
  Events,
  HookRow,
  Hooks,
  Snapshots,
  Streams,
  TenantStore,
  World,
} from "../engine/ports/world.ts";
import { keyVersionOf } from "./envelope.ts";
import type { Place, TenantVault, Vault } from "./vault.ts";

/** Puts the seal between a World and everything above it. */
export function sealWorld(world: World, vault: Vault): World {
  return {
    name: world.name,
    specVersion: world.specVersion,
    capabilities: world.capabilities,
    durability: world.durability,
    forTenant: (tenantId) => sealStore(world.forTenant(tenantId), vault),
    queue: sealQueue(world.queue, vault),
    tenants: world.tenants,
    close: () => world.close(),
  };
}

function sealStore(store: TenantStore, vault: Vault): TenantStore {
  const seal = new Seal(store.tenantId, vault);
  return {
    tenantId: store.tenantId,
    runs: store.runs,
    steps: store.steps,
    waits: store.waits,
    bundles: guardedBundles(store.bundles, seal),
    events: sealEvents(store.events, seal),
    hooks: sealHooks(store.hooks, seal),
    snapshots: checkedSnapshots(store.snapshots, seal),
    blobs: sealBlobs(store.blobs, seal),
    streams: sealStreams(store.streams, seal),
    async openEntities(runId) {
      const open = await store.openEntities(runId);
      const keys = await seal.keys();
      return { ...open, hooks: open.hooks.map((row) => openHook(keys, store.tenantId, row)) };
    },
  };
}

/** A tenant's keys, fetched when first needed. */
class Seal {
  readonly tenantId: TenantId;
  readonly #vault: Vault;

  constructor(tenantId: TenantId, vault: Vault) {
    this.tenantId = tenantId;
    this.#vault = vault;
  }

  keys(): Promise<TenantVault> {
    return this.#vault.forTenant(this.tenantId);
  }

  run(runId: RunRef["runId"]): RunRef {
    return { tenantId: this.tenantId, runId };
  }
}

function sealEvents(inner: Events, seal: Seal): Events {
  return {
    async create(runId, event, params) {
      const keys = await seal.keys();
      const run = seal.run(runId);
      const result = await inner.create(runId, sealEvent(keys, run, event), sealed(keys, params));
      return {
        ...result,
        event: openEvent(keys, run, result.event),
        events: result.events.map((one) => openEvent(keys, run, one)),
      };
    },
    async createBatch(runId, events, params) {
      const keys = await seal.keys();
      const run = seal.run(runId);
      const block = events.map((event) => sealEvent(keys, run, event));
      const result = await inner.createBatch(runId, block, sealed(keys, params));
      return {
        ...result,
        results: result.results.map((item) =>
          item.kind === "committed" ? { ...item, event: openEvent(keys, run, item.event) } : item,
        ),
        events: result.events.map((one) => openEvent(keys, run, one)),
      };
    },
    async list(runId, params) {
      const keys = await seal.keys();
      const page = await inner.list(runId, params);
      const run = seal.run(runId);
      return { ...page, events: page.events.map((event) => openEvent(keys, run, event)) };
    },
    async get(runId, slot) {
      const keys = await seal.keys();
      const event = await inner.get(runId, slot);
      return event === null ? null : openEvent(keys, seal.run(runId), event);
    },
    async subscribe(runId, afterSlot, onEvent, options) {
      const keys = await seal.keys();
      const run = seal.run(runId);
      const opened = (event: RunEvent): void => {
        let plain: RunEvent;
        try {
          plain = openEvent(keys, run, event);
        } catch (error) {
          options.onError(error as Error);
          return;
        }
        onEvent(plain);
      };
      return inner.subscribe(runId, afterSlot, opened, options);
    },
  };
}

function sealed<P extends CreateParams | undefined>(keys: TenantVault, params: P): P {
  if (params?.send === undefined) return params;
  return { ...params, send: sealSend(keys, params.send) };
}

function payloadPlace(run: RunRef, entity: string | null, field: string): Place {
  return { run, purpose: "payload", binding: [entity ?? "", field] };
}

type Turn = (place: Place, bytes: Uint8Array) => Uint8Array;

/** The event with each of its payload fields turned into its other form. */
function turnEvent<E extends NewEvent | RunEvent>(run: RunRef, event: E, turn: Turn): E {
  const fields = PAYLOAD_FIELDS[event.eventType];
  if (fields === undefined) return event;
  const data: Record<string, unknown> = { ...event.eventData };
  for (const field of fields) {
    const bytes = data[field];
    if (bytes === undefined) continue;
    assert(bytes instanceof Uint8Array, "a payload field holds bytes");
    const place = payloadPlace(run, event.correlationId, `${event.eventType}.${field}`);
    data[field] = turn(place, bytes);
  }
  return { ...event, eventData: data };
}

function sealEvent(keys: TenantVault, run: RunRef, event: NewEvent): NewEvent {
  return turnEvent(run, event, (place, bytes) => keys.seal(place, bytes));
}

function openEvent(keys: TenantVault, run: RunRef, event: RunEvent): RunEvent {
  return turnEvent(run, event, (place, bytes) => keys.open(place, bytes));
}

/** A row repeats what its `hook_created` holds, and so opens as that. */
function openHook(keys: TenantVault, tenantId: TenantId, row: HookRow): HookRow {
  const run = { tenantId, runId: row.runId };
  const opened = (field: string, bytes: Uint8Array): Uint8Array =>
    keys.open(payloadPlace(run, row.hookId, `hook_created.${field}`), bytes);
  return {
    ...row,
    token: opened("token", row.token),
    metadata: row.metadata === null ? null : opened("metadata", row.metadata),
  };
}

function sealHooks(inner: Hooks, seal: Seal): Hooks {
  const opened = async (row: HookRow | null): Promise<HookRow | null> =>
    row === null ? null : openHook(await seal.keys(), seal.tenantId, row);
  return {
    get: async (runId, hookId) => opened(await inner.get(runId, hookId)),
    getByToken: async (tokenHash) => opened(await inner.getByToken(tokenHash)),
    async list(runId, params) {
      const keys = await seal.keys();
      const page = await inner.list(runId, params);
      return { ...page, data: page.data.map((row) => openHook(keys, seal.tenantId, row)) };
    },
  };
}

/** Plain, but only of a tenant whose key is there: what is being deleted takes nothing more. */
function guardedBundles(inner: Bundles, seal: Seal): Bundles {
  return {
    get: (hash) => inner.get(hash),
    list: (params) => inner.list(params),
    delete: (hash) => inner.delete(hash),
    getAlias: (alias) => inner.getAlias(alias),
    listAliases: () => inner.listAliases(),
    async put(bundle) {
      await seal.keys();
      await inner.put(bundle);
    },
    async setAlias(alias, hash) {
      await seal.keys();
      await inner.setAlias(alias, hash);
    },
  };
}

function checkedSnapshots(inner: Snapshots, seal: Seal): Snapshots {
  return {
    async put(runId, snapshot) {
      assert(keyVersionOf(snapshot.bytes) !== null, "a snapshot reaches a World sealed");
      await seal.keys();
      await inner.put(runId, snapshot);
    },
    get: (runId) => inner.get(runId),
    delete: (runId) => inner.delete(runId),
    list: (params) => inner.list(params),
  };
}

function sealBlobs(inner: Blobs, seal: Seal): Blobs {
  const placeOf = (runId: RunRef["runId"], key: string): Place => ({
    run: seal.run(runId),
    purpose: "blob",
    binding: [key],
  });
  return {
    async put(runId, key, bytes) {
      const keys = await seal.keys();
      await inner.put(runId, key, keys.seal(placeOf(runId, key), bytes));
    },
    async get(runId, key) {
      const keys = await seal.keys();
      const bytes = await inner.get(runId, key);
      return bytes === null ? null : keys.open(placeOf(runId, key), bytes);
    },
    delete: (runId, key) => inner.delete(runId, key),
  };
}

function sealStreams(inner: Streams, seal: Seal): Streams {
  const placeOf = (runId: RunRef["runId"], name: string): Place => ({
    run: seal.run(runId),
    purpose: "stream",
    binding: [name],
  });
  return {
    async write(runId, name, chunks) {
      const keys = await seal.keys();
      const place = placeOf(runId, name);
      return inner.write(
        runId,
        name,
        chunks.map((chunk) => keys.seal(place, chunk)),
      );
    },
    close: (runId, name) => inner.close(runId, name),
    async getChunks(runId, name, params) {
      const keys = await seal.keys();
      const place = placeOf(runId, name);
      const page = await inner.getChunks(runId, name, params);
      return { ...page, chunks: page.chunks.map((chunk) => keys.open(place, chunk)) };
    },
    getInfo: (runId, name) => inner.getInfo(runId, name),
    list: (runId) => inner.list(runId),
  };
}

function sealQueue(inner: Queue, vault: Vault): Queue {
  const sealOne = async (send: Send): Promise<Send> =>
    sealSend(await vault.forTenant(send.message.tenantId), send);
  return {
    async send(message, options) {
      const keys = await vault.forTenant(message.tenantId);
      return inner.send(sealMessage(keys, message), options);
    },
    sendBatch: async (sends) => inner.sendBatch(await Promise.all(sends.map(sealOne))),
    consume(handlers, options) {
      return inner.consume(
        {
          orchestrator: async (message, meta) =>
            handlers.orchestrator(await openMessage(vault, message), meta),
          step: async (message, meta) => handlers.step(await openMessage(vault, message), meta),
        },
        options,
      );
    },
  };
}

function sealSend(keys: TenantVault, send: Send): Send {
  return { ...send, message: sealMessage(keys, send.message) };
}

/** The inputs that a message carries, each with its place, turned into their other form. */
function turnMessage<M extends Message>(message: M, turn: Turn): M {
  if (message.kind === "step") {
    if (message.stepInput === undefined) return message;
    const place = payloadPlace(message, message.stepId, "message.stepInput");
    return { ...message, stepInput: turn(place, message.stepInput) };
  }
  if (message.runInput === undefined) return message;
  const { input, seed } = message.runInput;
  return {
    ...message,
    runInput: {
      ...message.runInput,
      input: turn(payloadPlace(message, null, "message.input"), input),
      seed: turn(payloadPlace(message, null, "message.seed"), seed),
    },
  };
}

function sealMessage<M extends Message>(keys: TenantVault, message: M): M {
  return turnMessage(message, (place, bytes) => keys.seal(place, bytes));
}

/**
 * What does not open is left out: the handler then reads the log, where the same failure is told
 * apart from others and parks the run.
 */
async function openMessage<M extends Message>(vault: Vault, message: M): Promise<M> {
  try {
    const keys = await vault.forTenant(message.tenantId);
    return turnMessage(message, (place, bytes) => keys.open(place, bytes));
  } catch {
    const {
      runInput: _run,
      stepInput: _step,
      ...rest
    } = message as Message & Record<"runInput" | "stepInput", unknown>;
    return rest as unknown as M;
  }
}
