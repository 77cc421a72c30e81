/**
 * What does a durable append cost, next to the disk's own price, and does it stay that way?
 *
 * All figures are ratios of measurements taken in turns, in one run, on one disk, or times of one
 * run. Left out: the engine, payload encryption, and everything that a real disk cache may lie about.
 */
import {
  closeSync,
  fdatasyncSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SPEC_VERSION } from "../engine/events.ts";
import type { NewEvent } from "../engine/events.ts";
import type { EntityId, RunId } from "../engine/ids.ts";
import { entityIdOf, runIdOf, tenantIdOf, ulid } from "../engine/ids.ts";
import type { TenantStore } from "../engine/ports/world.ts";
import { SLOT_NONE } from "../engine/slots.ts";
import type { LocalDurability } from "../worlds/local/index.ts";
import { openLocalWorld } from "../worlds/local/index.ts";
import { systemRandom } from "../worlds/platform.ts";
import type { CheckContext, CheckForm, CheckResult } from "./check.ts";
import { rounded, spread } from "./check.ts";

const BOUNDS = {
  append_vs_fdatasync_p50_ratio: 2,
  concurrent_rate_ratio: 5,
  load_10k_ms_p50: 100,
  crowded_file_ratio: 1.3,
} as const;

const PAYLOAD = new Uint8Array(256).fill(97);
const TENANT = tenantIdOf("bench");
const CROWDED_EVENTS = 1_000_000;
const EVENTS_PER_RUN = 2_000;

const newRunId = (): RunId => runIdOf(`wrun_${ulid(Date.now(), systemRandom.bytes(10))}`);
const newStepId = (): EntityId => entityIdOf(`step_${ulid(Date.now(), systemRandom.bytes(10))}`);

export const form: CheckForm = {
  name: "worlds",
  description: "The price of durable appends, loads, and a crowded file.",
  options: [
    {
      flags: "--world <name>",
      description: "which World",
      choices: ["local"],
      fallback: "local",
    },
  ],
  run: async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "baton-bench-"));
    try {
      return await measured(folder, context);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

async function measured(folder: string, context: CheckContext): Promise<CheckResult> {
  const rounds = context.full ? 4_000 : 800;
  const fresh = await opened(join(folder, "fresh.db"));
  const single = await againstDisk(fresh.store, join(folder, "bare"), rounds);
  const rates = await againstOne(fresh.store, context.full ? 8_000 : 3_000);
  const load = await loads(fresh.store, context.full ? 25 : 9);
  await filled(join(folder, "crowded.db"), context);
  const crowded = await opened(join(folder, "crowded.db"));
  const crowd = await inTurns(fresh.store, crowded.store, rounds);
  const megabytes = statSync(join(folder, "crowded.db")).size / 2 ** 20;
  await fresh.close();
  await crowded.close();
  const figures = {
    append_vs_fdatasync_p50_ratio: rounded(single.append.p50 / single.bare.p50),
    concurrent_rate_ratio: rounded(rates.many / rates.one),
    load_10k_ms_p50: rounded(load.p50),
    crowded_file_ratio: rounded(crowd.crowded.p50 / crowd.fresh.p50),
    bare_fdatasync_ms_p50: rounded(single.bare.p50),
    append_ms_p50: rounded(single.append.p50),
    append_ms_p99: rounded(single.append.p99),
    one_run_events_per_s: Math.round(rates.one),
    concurrent_events_per_s: Math.round(rates.many),
    load_10k_ms_max: rounded(load.max),
    crowded_append_ms_p50: rounded(crowd.crowded.p50),
    crowded_file_mb: Math.round(megabytes),
  };
  return { ok: isWithin(figures), figures };
}

function isWithin(figures: Readonly<Record<keyof typeof BOUNDS, number>>): boolean {
  return (
    figures.append_vs_fdatasync_p50_ratio <= BOUNDS.append_vs_fdatasync_p50_ratio &&
    figures.concurrent_rate_ratio >= BOUNDS.concurrent_rate_ratio &&
    figures.load_10k_ms_p50 <= BOUNDS.load_10k_ms_p50 &&
    figures.crowded_file_ratio <= BOUNDS.crowded_file_ratio
  );
}

async function opened(path: string, durability: LocalDurability = "full") {
  const world = await openLocalWorld({ path, durability });
  return { store: world.forTenant(TENANT), close: async () => world.close() };
}

/** A run with a writer that knows its counts, as an orchestrator does. */
async function orchestrator(store: TenantStore) {
  const runId = newRunId();
  await store.events.create(runId, created());
  let count = 1;
  return {
    runId,
    append: async () => {
      const params = { inBand: true, expectedSeqInBand: count, eventCount: count };
      await store.events.create(runId, step(), params);
      count++;
    },
  };
}

/** Single durable appends, each in turn with a bare write + fdatasync of the same bytes. */
async function againstDisk(store: TenantStore, path: string, rounds: number) {
  const bytes = Buffer.alloc(PAYLOAD.length + 160, 98);
  const file = openSync(path, "a");
  const { append } = await orchestrator(store);
  const bare: number[] = [];
  const appends: number[] = [];
  for (let i = 0; i < rounds; i++) {
    bare.push(
      await timed(() => {
        writeSync(file, bytes);
        fdatasyncSync(file);
      }),
    );
    appends.push(await timed(append));
  }
  closeSync(file);
  return { bare: spread(bare), append: spread(appends) };
}

/** Events per second of one run, and of 200 runs at once. */
async function againstOne(store: TenantStore, ms: number) {
  const one = await rate([await orchestrator(store)], ms);
  const writers = await Promise.all(Array.from({ length: 200 }, async () => orchestrator(store)));
  const many = await rate(writers, ms);
  return { one, many };
}

async function rate(writers: readonly { append(): Promise<void> }[], ms: number): Promise<number> {
  let appended = 0;
  const startedAt = performance.now();
  await Promise.all(
    writers.map(async (writer) => {
      while (performance.now() - startedAt < ms) {
        await writer.append();
        appended++;
      }
    }),
  );
  return appended / ((performance.now() - startedAt) / 1_000);
}

/** A whole log of 10,000 events, read page by page and parsed. */
async function loads(store: TenantStore, times: number) {
  const runId = newRunId();
  await store.events.create(runId, created());
  await fill(store, runId, 9_999);
  const taken: number[] = [];
  for (let i = 0; i < times; i++) {
    taken.push(
      await timed(async () => {
        let read = 0;
        for (let afterSlot = SLOT_NONE, hasMore = true; hasMore;) {
          const page = await store.events.list(runId, { afterSlot });
          read += page.events.length;
          afterSlot = page.events.at(-1)?.slot ?? afterSlot;
          hasMore = page.hasMore;
        }
        if (read !== 10_000) throw new Error(`a load read ${read} events`);
      }),
    );
  }
  return spread(taken);
}

async function fill(store: TenantStore, runId: RunId, events: number): Promise<void> {
  for (let left = events; left > 0; left -= 64) {
    const batch = Array.from({ length: Math.min(64, left) }, step);
    await store.events.createBatch(runId, batch, {});
  }
}

/** A file that holds a million events of other runs. */
async function filled(path: string, context: CheckContext): Promise<void> {
  const { store, close } = await opened(path, "power-loss-may-corrupt");
  const runs = CROWDED_EVENTS / EVENTS_PER_RUN;
  for (let done = 0; done < runs; done += 10) {
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        const runId = newRunId();
        await store.events.create(runId, created());
        await fill(store, runId, EVENTS_PER_RUN - 1);
      }),
    );
    context.progress(`filling: ${(done + 10) * EVENTS_PER_RUN} of ${CROWDED_EVENTS} events`);
  }
  await close();
}

async function inTurns(fresh: TenantStore, crowded: TenantStore, rounds: number) {
  const [a, b] = [await orchestrator(fresh), await orchestrator(crowded)];
  const times: { fresh: number[]; crowded: number[] } = { fresh: [], crowded: [] };
  for (let i = 0; i < rounds; i++) {
    times.fresh.push(await timed(a.append));
    times.crowded.push(await timed(b.append));
  }
  return { fresh: spread(times.fresh), crowded: spread(times.crowded) };
}

async function timed(run: () => unknown): Promise<number> {
  const startedAt = performance.now();
  await run();
  return performance.now() - startedAt;
}

function created(): NewEvent {
  return {
    eventType: "run_created",
    eventData: { deploymentId: "bench", workflowName: "bench", input: PAYLOAD, seed: PAYLOAD },
    correlationId: null,
    specVersion: SPEC_VERSION,
  };
}

function step(): NewEvent {
  return {
    eventType: "step_created",
    eventData: { stepName: "charge", input: PAYLOAD, inline: false },
    correlationId: newStepId(),
    specVersion: SPEC_VERSION,
  };
}
