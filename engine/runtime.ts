/**
 * The running engine of one process: what callers use, what the queue calls, and how it ends.
 *
 * Owns the process's memory between deliveries. Joins the parts it is given and knows no concrete
 * one: `engine/compose.ts` does.
 */
import { runHandle } from "./client.ts";
import type { RunHandle } from "./client.ts";
import { ConsumedPositions } from "./consumed-position.ts";
import { Endings } from "./endings.ts";
import { BatonError } from "./errors.ts";
import type { RunRef, TenantId } from "./ids.ts";
import { hookByToken, resumeHook } from "./intake.ts";
import type { HookResume } from "./intake.ts";
import { CONSUMED_POSITIONS_MAX, RESEND_PASSES_MAX, STREAM_FLUSH_MS } from "./limits.ts";
import { Lifecycle } from "./lifecycle.ts";
import type { LifecycleHooks } from "./lifecycle.ts";
import { LiveHeaps } from "./live-heaps.ts";
import { route } from "./orchestrator.ts";
import type { Engine, EngineParts, ProcessMemory } from "./parts.ts";
import type { Clock } from "./ports/host.ts";
import type { ConsumeOptions, Consumer, DeliveryResult, QueueHandlers } from "./ports/queue.ts";
import type { TenantInUse } from "./ports/tenants.ts";
import type { StepStreams, StreamPlace } from "./ports/access.ts";
import type { HookRow, StreamInfo } from "./ports/world.ts";
import { Stopping } from "./progress.ts";
import { recoverOpenRuns, recoveryOf } from "./recovery.ts";
import { RecentKeys } from "./recent-keys.ts";
import { RunStreams } from "./run-streams.ts";
import { SnapshotShelf } from "./snapshot-shelf.ts";
import { startRun } from "./start.ts";
import type { StartRequest, StartResult } from "./start.ts";
import { deliverStep } from "./step-delivery.ts";
import { StepSeats } from "./step-seats.ts";
import { TenantDeliveryCounts } from "./tenant-deliveries.ts";
import { resumeWebhook } from "./webhooks.ts";

export interface EngineRuntime {
  start(request: StartRequest): Promise<StartResult>;
  getRun(tenantId: TenantId, runId: string): RunHandle;
  resumeHook(resume: HookResume): Promise<HookRow>;
  getHookByToken(tenantId: TenantId, token: string): Promise<HookRow>;
  /** Answers an HTTP request to a webhook's address. */
  resumeWebhook(
    to: { readonly tenantId: TenantId; readonly token: string },
    request: Request,
  ): Promise<Response>;
  /** The streams of a tenant's runs, as steps and clients read and write them. */
  streamsOf(tenantId: TenantId): StepStreams;
  streamInfo(tenantId: TenantId, place: StreamPlace): Promise<StreamInfo | null>;
  /** Functions that hear of runs that ended here; returns what ends that. */
  registerLifecycleHooks(hooks: LifecycleHooks): () => void;
  /** Lets a parked run go on; false if it was not parked. */
  unpark(run: RunRef): Promise<boolean>;
  /** Has a run looked at as if all its messages had been lost. */
  recover(run: RunRef): Promise<void>;
  /** What of this process a tenant holds now. */
  inUse(tenantId: TenantId): TenantInUse;
  /** What the World's queue is to call. */
  readonly handlers: QueueHandlers;
  /** Has all open runs of a tenant looked at. How many. */
  recoverTenant(tenantId: TenantId): Promise<number>;
  /** Drops the heaps that this process keeps of a tenant's runs. */
  forgetTenant(tenantId: TenantId): void;
  /** Begins to take deliveries from the World's queue. Once. */
  consume(options: ConsumeOptions): void;
  /**
   * Deliveries hand off as soon as they can; resolves when the last one has answered. Bodies that may
   * run again are cut short after `STOP_GRACE_MS`; one that may not is waited for to its own limit.
   */
  stop(): Promise<void>;
}

export function createEngine(given: EngineParts): EngineRuntime {
  const { settings, world } = given;
  const deliveries = new TenantDeliveryCounts();
  const seats = new StepSeats(given.steps, (tenantId) => deliveries.limitsOf(tenantId).stepsMax);
  const parts: EngineParts = { ...given, steps: seats };
  const memory: ProcessMemory = {
    liveHeaps: new LiveHeaps(settings.isCold ? 0 : settings.liveHeapBytesMax),
    positions: new ConsumedPositions(CONSUMED_POSITIONS_MAX),
    resendPasses: new RecentKeys(RESEND_PASSES_MAX),
    endings: new Endings(world),
    lifecycle: new Lifecycle(parts.log),
    streams: new RunStreams(parts),
    flushing: new Set(),
    stopping: new Stopping(parts.clock),
    snapshotShelf: new SnapshotShelf(),
    deliveries,
    runAhead: { isOff: false },
  };
  const engine: Engine = { parts, memory };
  const underway = new Set<Promise<DeliveryResult>>();
  const handlers: QueueHandlers = {
    orchestrator: (message, meta) => noted(underway, route(engine, message, meta)),
    step: (message, meta) => noted(underway, deliverStep(engine, message, meta)),
  };
  let consumer: Consumer | null = null;
  const recover = async (run: RunRef): Promise<void> => {
    await world.queue.send(recoveryOf(run).message);
  };
  return {
    start: (request) => startRun(parts, request),
    getRun: (tenantId, runId) => runHandle(engine, tenantId, runId),
    resumeHook: (resume) => resumeHook(parts, resume),
    getHookByToken: (tenantId, token) => hookByToken(parts, tenantId, token),
    resumeWebhook: (to, request) => resumeWebhook(engine, to, request),
    streamsOf: (tenantId) => memory.streams.forTenant(tenantId),
    streamInfo: (tenantId, place) => memory.streams.info(tenantId, place),
    registerLifecycleHooks: (hooks) => memory.lifecycle.register(hooks),
    unpark: async (run) => {
      const wasParked = await world.forTenant(run.tenantId).runs.unpark(run.runId);
      await recover(run);
      return wasParked;
    },
    recover,
    inUse: (tenantId) => ({
      runsDelivered: deliveries.runningOf(tenantId),
      steps: seats.runningOf(tenantId),
      liveHeapBytes: memory.liveHeaps.bytesOf(tenantId),
      snapshotBytes: memory.snapshotShelf.bytesOf(tenantId),
    }),
    recoverTenant: (tenantId) => recoverOpenRuns(world, tenantId),
    forgetTenant: (tenantId) => memory.liveHeaps.dropTenant(tenantId),
    handlers,
    consume: (options) => {
      if (consumer !== null || memory.stopping.hasBegun) {
        throw new BatonError("CLOSED", "an engine takes deliveries once");
      }
      consumer = world.queue.consume(handlers, options);
      deliveries.attach(consumer);
    },
    stop: async () => {
      memory.stopping.begin();
      await consumer?.stop();
      await Promise.allSettled(underway);
      memory.stopping.end();
      await flushed(parts.clock, memory.flushing);
      memory.liveHeaps.close();
    },
  };
}

/** The delivery, which `underway` holds until it has answered. */
function noted(
  underway: Set<Promise<DeliveryResult>>,
  delivery: Promise<DeliveryResult>,
): Promise<DeliveryResult> {
  underway.add(delivery);
  const forget = (): void => void underway.delete(delivery);
  delivery.then(forget, forget);
  return delivery;
}

/** What bodies left behind for streams lands, if it does so soon. */
async function flushed(clock: Clock, writes: ReadonlySet<Promise<void>>): Promise<void> {
  await new Promise<void>((resolve) => {
    const cancel = clock.setTimer(STREAM_FLUSH_MS, resolve);
    void Promise.all(writes).then(() => {
      cancel();
      resolve();
    });
  });
}
