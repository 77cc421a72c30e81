/**
 * Recorded logs: what is kept of each, and how one is replayed.
 *
 * A history is a run's log as a World held it, sealed under its own test key, with the decisions
 * that a heap made at each slot. The bundle that made it, its guest library included, is kept beside
 * it, since a run keeps its bundle for life. Histories are only ever added to.
 */
import { createHash } from "node:crypto";
import { nextFeed } from "../../engine/consume.ts";
import type { RunEvent } from "../../engine/events.ts";
import { bundleHashOf, runIdOf, tenantIdOf } from "../../engine/ids.ts";
import type { RunRef } from "../../engine/ids.ts";
import { RunLog } from "../../engine/log.ts";
import type { Heap, OpenOperation, PassResult, Sandbox } from "../../engine/ports/sandbox.ts";
import type { World } from "../../engine/ports/world.ts";
import { parseMasterKeys } from "../../tenants/master-key-file.ts";
import type { WrappedKey } from "../../tenants/keys.ts";
import { sealWorld } from "../../tenants/sealed-world.ts";
import { Vault } from "../../tenants/vault.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import type { SimulatedSources } from "../sim/bundle.ts";
import { HEAP_LIMITS } from "../sim/simulated-tenants.ts";

export interface RecordedBundle {
  readonly hash: string;
  readonly workflowCode: string;
  readonly guestLibrary: string;
  /** Only for these histories; it protects nothing. */
  readonly masterKey: string;
  readonly wrappedKey: WrappedKey;
}

export interface History {
  readonly tenantId: string;
  readonly runId: string;
  /** JSON of each event, bytes as `{"base64": …}`. */
  readonly events: readonly unknown[];
  /** What was open, or how the run ended, once the events up to each slot were fed. */
  readonly decisions: readonly string[];
}

export function vaultOf({ masterKey, wrappedKey }: RecordedBundle): Vault {
  return new Vault(parseMasterKeys(masterKey, "a history's test key"), {
    get: () => Promise.resolve(wrappedKey),
    add: () => Promise.resolve(false),
    destroy: () => Promise.reject(new Error("a history's key is kept")),
    replace: () => Promise.resolve(false),
    tenantIds: () => Promise.resolve([]),
  });
}

/** A World that holds one recorded log, and takes what is appended to it. */
export function worldHolding(events: RunEvent[]): World {
  const world = createMemoryWorld();
  return {
    ...world,
    forTenant: (tenantId) => {
      const store = world.forTenant(tenantId);
      return {
        ...store,
        events: {
          create: (runId, event) => {
            events.push({ ...event, runId } as RunEvent);
            return Promise.resolve({ event: events.at(-1) as RunEvent, allocated: 1, events: [], hasMore: false });
          },
          createBatch: (...args) => store.events.createBatch(...args),
          list: () =>
            Promise.resolve({
              events,
              hasMore: false,
              snapshot: { seq: events.length, seqInBand: 1 },
              digestBefore: null,
            }),
          get: (...args) => store.events.get(...args),
          subscribe: (...args) => store.events.subscribe(...args),
        },
      };
    },
  };
}

/** The events of a history, opened with its key. */
export async function openedEvents(
  history: History,
  bundle: RecordedBundle,
): Promise<readonly RunEvent[]> {
  const sealed = history.events.map((event) => withBytes(event) as RunEvent);
  const world = sealWorld(worldHolding(sealed), vaultOf(bundle));
  const store = world.forTenant(tenantIdOf(history.tenantId));
  return (await store.events.list(runIdOf(history.runId))).events;
}

/** What a cold heap decides after each event of the log, fed one at a time. */
export async function decisionsOf(
  run: RunRef,
  events: readonly RunEvent[],
  parts: { readonly sandbox: Sandbox; readonly sources: Omit<SimulatedSources, "modelCode"> },
): Promise<readonly string[]> {
  const heap = await coldHeap(run, events, parts);
  try {
    const log = new RunLog();
    const decisions = [textOfPass(await heap.pass([]))];
    for (const event of events) {
      log.append(event);
      const feed = nextFeed(log, 1);
      if (feed === null) throw new Error("each event is one to consume");
      decisions.push(textOfPass(await heap.pass(feed.events)));
      log.markConsumed(feed.upTo);
    }
    return decisions;
  } finally {
    heap.close();
  }
}

async function coldHeap(
  run: RunRef,
  events: readonly RunEvent[],
  { sandbox, sources }: Parameters<typeof decisionsOf>[2],
): Promise<Heap> {
  const created = events[0];
  if (created?.eventType !== "run_created") throw new Error("a log begins with `run_created`");
  const { hash, workflowCode, guestLibrary } = sources;
  const opened = await sandbox.open({
    run,
    bundle: { tenantId: run.tenantId, hash: bundleHashOf(hash), workflowCode, guestLibrary },
    workflowName: created.eventData.workflowName,
    seed: created.eventData.seed,
    createdAt: created.createdAt,
    limits: HEAP_LIMITS,
  });
  if (opened.kind !== "opened") throw new Error(`the heap could not be opened: ${opened.kind}`);
  return opened.heap;
}

function textOfPass(result: PassResult): string {
  if (result.kind !== "quiet") return JSON.stringify({ ...result, usage: null });
  const end = result.completion === null ? "" : ` ended ${result.completion.kind} ${digestOf(result.completion)}`;
  return `${result.operations.map((operation) => textOfOperation(operation)).join(", ")}${end}`;
}

function textOfOperation(operation: OpenOperation): string {
  return `${operation.kind} ${operation.correlationId} ${digestOf(operation)}`;
}

/** Stands for all fields, payloads included. */
function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(withoutBytes(value))).digest("hex").slice(0, 16);
}

export function withoutBytes(value: unknown): unknown {
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString("base64") };
  if (Array.isArray(value)) return value.map((each) => withoutBytes(each));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutBytes(each)]));
}

function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => withBytes(each));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  const [only] = entries;
  if (entries.length === 1 && only?.[0] === "base64") {
    return Uint8Array.from(Buffer.from(String(only[1]), "base64"));
  }
  return Object.fromEntries(entries.map(([key, each]) => [key, withBytes(each)]));
}
