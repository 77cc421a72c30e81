/**
 * An engine over the memory World, a held clock and fakes of the other neighbours: what delivery
 * tests share. Nothing moves unless the test moves it.
 */
import type { RunRef } from "../../engine/ids.ts";
import { bundleHashOf, tenantIdOf } from "../../engine/ids.ts";
import type { EventType, RunEvent } from "../../engine/events.ts";
import type { RunOutcome } from "../../engine/client.ts";
import type { Log } from "../../engine/ports/host.ts";
import type { DeliveryMeta, DeliveryResult, Message, Send } from "../../engine/ports/queue.ts";
import type { BundleCode, HeapLimits, Sandbox } from "../../engine/ports/sandbox.ts";
import type { StepAttempt, StepOutcome, StepRunner } from "../../engine/ports/steps.ts";
import type {
  TenantLimits,
  TenantStatus,
  TenantStorage,
  Tenants,
  UsageSample,
} from "../../engine/ports/tenants.ts";
import type { World } from "../../engine/ports/world.ts";
import { createEngine } from "../../engine/runtime.ts";
import type { EngineRuntime } from "../../engine/runtime.ts";
import { DEFAULT_SETTINGS, settingsOf } from "../../engine/settings.ts";
import type { Settings } from "../../engine/settings.ts";
import { stepCodec } from "../../sandbox/step-codec.ts";
import { HeldClock, SeededRandom } from "../../worlds/conformance/index.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import { Caller, reachedBy } from "./crashing-world.ts";
import type { CrashPoint } from "./crashing-world.ts";
import { createFakeSandbox } from "./fake-sandbox.ts";
import type { FakeSandbox, FakeSandboxOptions, Program } from "./fake-sandbox.ts";
import { bytes, textOf } from "./log-of.ts";

export type Body = (attempt: StepAttempt) => Promise<StepOutcome> | StepOutcome;

export interface StepSpec {
  readonly maxRetries?: number;
  readonly body: Body;
  /** False: nothing here can run it. */
  readonly isHere?: () => boolean;
}

export interface RigOptions {
  readonly programs: Readonly<Record<string, Program>>;
  readonly steps?: Readonly<Record<string, StepSpec | Body>>;
  readonly settings?: Partial<Settings>;
  readonly limits?: Partial<TenantLimits>;
  readonly storage?: () => TenantStorage | null;
  readonly interfere?: NonNullable<FakeSandboxOptions["interfere"]>;
  readonly crash?: CrashPoint;
  /** Real heaps in place of the fake ones, with the code that they run. */
  readonly real?: {
    readonly sandbox: Sandbox;
    readonly code: Pick<BundleCode, "workflowCode" | "guestLibrary">;
    readonly heap: HeapLimits;
  };
  /** Wraps the World that the engine sees. */
  readonly wrap?: (world: World) => World;
}

export interface Delivered {
  readonly message: Message;
  readonly meta: DeliveryMeta;
  answer: DeliveryResult | "rejected" | null;
}

export interface Rig {
  readonly world: World;
  readonly clock: HeldClock;
  readonly sandbox: FakeSandbox;
  readonly engine: () => EngineRuntime;
  /** Every delivery, in the order they began. */
  readonly deliveries: Delivered[];
  /** Messages that the engine sent by itself, deduplicated ones included. */
  readonly sends: Send[];
  /** Messages that its out-of-band events implied. */
  readonly implied: Send[];
  readonly attempts: StepAttempt[];
  readonly lines: { fields: Record<string, unknown>; message: string }[];
  readonly calls: () => readonly string[];
  /** What was counted of the tenant's use. */
  readonly counted: (name: keyof UsageSample) => number;
  status: TenantStatus;
  start(workflowName?: string, input?: string, idempotencyKey?: string): Promise<RunRef>;
  /** Gives the hook of this token a payload. */
  resume(token: string, payload: string, resumeId?: string): Promise<void>;
  /** Moves time from timer to timer until the run is over, at most so far. */
  runOut(run: RunRef, msMax?: number): Promise<void>;
  /** Lets everything happen that needs no time. */
  settle(): Promise<void>;
  advance(ms: number): Promise<void>;
  log(run: RunRef): Promise<readonly RunEvent[]>;
  types(run: RunRef): Promise<readonly EventType[]>;
  outcome(run: RunRef): Promise<RunOutcome | null>;
  output(run: RunRef): Promise<string>;
  /** As after a restart of the process: nothing is remembered. */
  restart(): void;
}

export const TENANT = tenantIdOf("acme");
const BUNDLE = "b".repeat(64);

export const done = (text: string): StepOutcome => ({ kind: "completed", result: bytes(text) });
export const fails = (text: string, more: Partial<StepOutcome> = {}): StepOutcome =>
  ({ kind: "failed", error: bytes(text), isFatal: false, retryAt: null, ...more }) as StepOutcome;

/**
 * Settings under which a test sees one thing at a time: no linger, nothing ahead of its commit. With
 * `BATON_COLD=1` every delivery replays from cold, unless a test is about what is kept.
 */
const QUIET: Partial<Settings> = {
  isCold: settingsOf(process.env).isCold,
  lingerMs: 0,
  runAheadDepth: 0,
  turbo: false,
  replayCheckEvery: 0,
};

export function createRig(options: RigOptions): Rig {
  const clock = new HeldClock();
  const random = new SeededRandom(7);
  const world = createMemoryWorld({ clock, random });
  const sandbox = createFakeSandbox(options);
  const attempts: StepAttempt[] = [];
  const deliveries: Delivered[] = [];
  const sends: Send[] = [];
  const implied: Send[] = [];
  const samples: UsageSample[] = [];
  const lines: Rig["lines"] = [];
  const settings = { ...DEFAULT_SETTINGS, ...QUIET, ...options.settings };
  const parts = {
    sandbox: options.real?.sandbox ?? sandbox,
    codec: stepCodec,
    steps: stepRunner(options.steps ?? {}, attempts),
    clock,
    random,
    log: recordingLog(lines),
    settings,
  };
  let caller = new Caller(options.crash ?? null, () => restart());
  const build = (): EngineRuntime => {
    const reached = recordingSends(reachedBy(caller, world), { sends, implied });
    return createEngine({
      ...parts,
      world: options.wrap?.(reached) ?? reached,
      tenants: fakeTenants(() => rig.status, options, samples),
    });
  };
  const restart = (): void => {
    caller = new Caller(null, () => undefined);
    engine = build();
  };
  const handle = async (message: Message, meta: DeliveryMeta): Promise<DeliveryResult> => {
    const delivered: Delivered = { message, meta, answer: null };
    deliveries.push(delivered);
    try {
      const { handlers } = engine;
      const answer = await (message.kind === "step"
        ? handlers.step(message, meta)
        : handlers.orchestrator(message, meta));
      delivered.answer = answer;
      return answer;
    } catch (error) {
      delivered.answer = "rejected";
      throw error;
    }
  };
  world.queue.consume(
    { orchestrator: handle, step: handle },
    { orchestratorsMax: 50, stepsMax: 50 },
  );
  const settle = async (): Promise<void> => {
    let quietTurns = 0;
    let seen = -1;
    while (quietTurns < 30) {
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
      const now = caller.calls.length + sandbox.activity() + deliveries.length + attempts.length;
      quietTurns = now === seen ? quietTurns + 1 : 0;
      seen = now;
    }
  };
  const log = async ({ tenantId, runId }: RunRef): Promise<readonly RunEvent[]> => {
    const events: RunEvent[] = [];
    for (;;) {
      const { events: store } = world.forTenant(tenantId);
      const last = events.at(-1);
      const page = await store.list(runId, last === undefined ? {} : { afterSlot: last.slot });
      events.push(...page.events);
      if (!page.hasMore) return events;
    }
  };
  // Who looks at a run's end is not the process under test.
  const observer = createEngine({
    ...parts,
    world,
    tenants: fakeTenants(() => "active", options, []),
  });
  const outcome = (run: RunRef) => observer.getRun(run.tenantId, run.runId).outcome();
  const rig: Rig = {
    world,
    clock,
    sandbox,
    engine: () => engine,
    deliveries,
    sends,
    implied,
    attempts,
    lines,
    calls: () => caller.calls,
    counted: (name) => samples.reduce((sum, sample) => sum + (sample[name] ?? 0), 0),
    status: "active",
    start: async (workflowName = "main", input = "", idempotencyKey) => {
      const request = { tenantId: TENANT, workflowName, deploymentId: BUNDLE, input: bytes(input) };
      const key = idempotencyKey === undefined ? {} : { idempotencyKey };
      return (await engine.start({ ...request, ...key })).run;
    },
    resume: async (token, payload, resumeId) => {
      const id = resumeId === undefined ? {} : { resumeId };
      await engine.resumeHook({ tenantId: TENANT, token, payload: bytes(payload), ...id });
    },
    runOut: async (run, msMax = 1e12) => {
      const endMs = clock.now() + msMax;
      await settle();
      while ((await world.forTenant(run.tenantId).runs.get(run.runId))?.completedAt === null) {
        const next = clock.nextTimerAt;
        if (next === null || next > endMs) return;
        await clock.advance(Math.max(0, next - clock.now()), settle);
      }
    },
    settle,
    advance: (ms) => clock.advance(ms, settle),
    log,
    types: async (run) => (await log(run)).map((event) => event.eventType),
    outcome,
    output: async (run) => {
      const ended = await outcome(run);
      if (ended === null) return "still running";
      if (ended.kind === "cancelled") return "cancelled";
      return ended.kind === "completed" ? textOf(ended.output) : `failed: ${textOf(ended.error)}`;
    },
    restart,
  };
  let engine = build();
  return rig;
}

function stepRunner(
  specs: Readonly<Record<string, StepSpec | Body>>,
  attempts: StepAttempt[],
): StepRunner {
  const specOf = (name: string): StepSpec | null => {
    const spec = specs[name];
    if (spec === undefined) return null;
    return typeof spec === "function" ? { body: spec } : spec;
  };
  return {
    traitsOf: async (_run, _deploymentId, name) => {
      const spec = specOf(name);
      if (spec === null || spec.isHere?.() === false) return null;
      return { maxRetries: spec.maxRetries ?? 3 };
    },
    run: async (attempt) => {
      attempts.push(attempt);
      const spec = specOf(attempt.stepName);
      if (spec === null) throw new Error(`no step ${attempt.stepName}`);
      return spec.body(attempt);
    },
  };
}

function fakeTenants(
  status: () => TenantStatus,
  { limits, real, storage }: RigOptions,
  samples: UsageSample[],
): Tenants {
  const heap = real?.heap ?? {
    heapBytesMax: 1,
    cpuSoftMs: 1,
    cpuHardMs: 1,
    stackBytesMax: 1,
    jobsPerEventMax: 1,
    openOperationsMax: 1,
    payloadBytesMax: 1,
    consoleBytesPerPassMax: 1,
  };
  return {
    standingOf: async (tenantId) =>
      tenantId === TENANT
        ? {
            status: status(),
            limits: {
              heap,
              eventsWarn: null,
              eventsMax: null,
              streamBytesPerRunMax: null,
              cpuWeight: 1,
              liveHeapBytesMax: null,
              snapshotBytesMax: null,
              deliveries: { orchestratorsMax: null, stepsMax: null },
              ...limits,
            },
            storage: storage?.() ?? null,
          }
        : null,
    bundleOf: async (tenantId, hash) =>
      hash === BUNDLE
        ? { tenantId, hash: bundleHashOf(hash), workflowCode: "", guestLibrary: "", ...real?.code }
        : null,
    count: (_tenantId, sample) => void samples.push(sample),
    admitStart: async () => () => undefined,
    admitHookPayload: async () => undefined,
    cpuWaitMs: () => 0,
    tokenHash: async (tenantId, token) => {
      let hash = 0x811c9dc5;
      for (const byte of bytes(`${tenantId}/${token}`)) hash = Math.imul(hash ^ byte, 0x01000193);
      return (hash >>> 0).toString(16).padStart(8, "0").repeat(8);
    },
    sealSnapshot: async (_run, plain, boundTo) => {
      const head = bytes(JSON.stringify(boundTo));
      return new Uint8Array([head.length >> 8, head.length & 255, ...head, ...plain]);
    },
    openSnapshot: async (_run, sealed, boundTo) => {
      const length = ((sealed[0] ?? 0) << 8) + (sealed[1] ?? 0);
      const head = textOf(sealed.subarray(2, 2 + length));
      return head === JSON.stringify(boundTo) ? sealed.subarray(2 + length) : null;
    },
  };
}

function recordingSends(
  world: World,
  { sends, implied }: { readonly sends: Send[]; readonly implied: Send[] },
): World {
  return {
    ...world,
    forTenant: (tenantId) => {
      const store = world.forTenant(tenantId);
      const { events } = store;
      return {
        ...store,
        events: {
          ...events,
          create: (runId, event, params) => {
            if (params?.send !== undefined) implied.push(params.send);
            return events.create(runId, event, params);
          },
        },
      };
    },
    queue: {
      ...world.queue,
      send: (message, options) => {
        sends.push(options === undefined ? { message } : { message, options });
        return world.queue.send(message, options);
      },
      sendBatch: (batch) => {
        sends.push(...batch);
        return world.queue.sendBatch(batch);
      },
    },
  };
}

function recordingLog(lines: Rig["lines"]): Log {
  const record = (fields: Readonly<Record<string, unknown>>, message: string): void => {
    lines.push({ fields: { ...fields }, message });
  };
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  return log;
}
