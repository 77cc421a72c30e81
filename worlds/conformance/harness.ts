/**
 * What a World must give the suite, and the small language that its cases are written in.
 */
import { createHash } from "node:crypto";
import { expect, vi } from "vitest";
import { BatonError } from "../../engine/errors.ts";
import type { ErrorCode } from "../../engine/errors.ts";
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import type { EntityId, EntityKind, RunId, TenantId } from "../../engine/ids.ts";
import { entityIdOf, runIdOf, tenantIdOf, ulid } from "../../engine/ids.ts";
import { SPEC_VERSION } from "../../engine/events.ts";
import type {
  ConsumeOptions,
  Consumer,
  DeliveryMeta,
  DeliveryResult,
  Message,
  OrchestratorMessage,
  StepMessage,
} from "../../engine/ports/queue.ts";
import type { CreateParams, LogCounts, TenantStore, World } from "../../engine/ports/world.ts";
import type { Slot } from "../../engine/slots.ts";
import { SLOT_NONE } from "../../engine/slots.ts";
import { SeededRandom } from "../seeded-random.ts";

/** One World under test, empty, with time that the case moves. */
export interface OpenWorld {
  readonly world: World;
  now(): number;
  /** Moves time on, lets what falls due happen, and returns when all is quiet again. */
  advance(ms: number): Promise<void>;
  /** The process dies and another opens the same store; there where the harness is durable. */
  readonly crash?: () => Promise<World>;
  close(): Promise<void>;
}

/** How the suite opens the World that it attacks. */
export interface Harness {
  readonly name: string;
  /** It stores, so the cases of W32 and W33 are for it. */
  readonly isDurable: boolean;
  open(): Promise<OpenWorld>;
}

export const A = tenantIdOf("tenant-a");
export const B = tenantIdOf("tenant-b");

const ids = new SeededRandom(20_260_101);
const text = new TextEncoder();

export function newRunId(): RunId {
  return runIdOf(`wrun_${ulid(1_800_000_000_000, ids.bytes(10))}`);
}

export function newId(kind: EntityKind): EntityId {
  return entityIdOf(`${kind}_${ulid(1_800_000_000_000, ids.bytes(10))}`);
}

export function bytes(value: string): Uint8Array<ArrayBuffer> {
  return text.encode(`devl${value}`);
}

export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** A case's view of one World: a tenant's store and the events that cases write. */
export class Bench {
  readonly open: OpenWorld;
  world: World;

  constructor(open: OpenWorld) {
    this.open = open;
    this.world = open.world;
  }

  store(tenantId: TenantId = A): TenantStore {
    return this.world.forTenant(tenantId);
  }

  /** A run with only `run_created`. */
  async started(tenantId: TenantId = A, runId: RunId = newRunId()): Promise<RunId> {
    await this.store(tenantId).events.create(runId, runCreated());
    return runId;
  }

  async counts(runId: RunId, tenantId: TenantId = A): Promise<LogCounts> {
    return (await this.store(tenantId).events.list(runId, { limit: 1 })).snapshot;
  }

  /** The whole log, page by page. */
  async log(runId: RunId, tenantId: TenantId = A): Promise<RunEvent[]> {
    const found: RunEvent[] = [];
    for (let afterSlot: Slot = SLOT_NONE, hasMore = true; hasMore;) {
      const page = await this.store(tenantId).events.list(runId, { afterSlot });
      found.push(...page.events);
      afterSlot = found.at(-1)?.slot ?? SLOT_NONE;
      hasMore = page.hasMore;
    }
    return found;
  }

  /** In-band at the present counts, as an orchestrator that has just loaded the log. */
  async inBand(runId: RunId, event: NewEvent, params: CreateParams = {}) {
    const { seq, seqInBand } = await this.counts(runId);
    return this.store().events.create(runId, event, {
      inBand: true,
      expectedSeqInBand: seqInBand,
      eventCount: seq,
      ...params,
    });
  }

  /** Waits until nothing that was set off is still on its way. */
  async quiet(): Promise<void> {
    await this.open.advance(0);
  }

  async until(check: () => unknown): Promise<void> {
    await vi.waitFor(check, { timeout: 10_000, interval: 2 });
  }
}

export function runCreated(
  data: Partial<Extract<NewEvent, { eventType: "run_created" }>["eventData"]> = {},
): NewEvent {
  return {
    eventType: "run_created",
    eventData: {
      deploymentId: "d".repeat(64),
      workflowName: "orders",
      input: bytes("[[]]"),
      seed: bytes("seed"),
      ...data,
    },
    correlationId: null,
    specVersion: SPEC_VERSION,
  };
}

type EventParts = { readonly type: NewEvent["eventType"]; readonly id?: EntityId | null };

/** An event of any type; what the schema does not need is left out. */
export function event(
  { type, id = null }: EventParts,
  data: Readonly<Record<string, unknown>> = {},
  occurredAt?: number,
): NewEvent {
  return {
    eventType: type,
    eventData: data,
    correlationId: id,
    specVersion: SPEC_VERSION,
    ...(occurredAt === undefined ? {} : { occurredAt }),
  } as NewEvent;
}

export const runStarted = () => event({ type: "run_started" });
export const waitCreated = (id = newId("wait"), resumeAt = 1_800_000_100_000) =>
  event({ type: "wait_created", id }, { resumeAt });
export const waitCompleted = (id: EntityId) => event({ type: "wait_completed", id });
export const attrSet = (key = "stage", value: string | null = "one", occurredAt?: number) =>
  event(
    { type: "attr_set" },
    { changes: [{ key, value }], writer: { kind: "client" } },
    occurredAt,
  );
export const stepCreated = (id = newId("step"), more = {}) =>
  event(
    { type: "step_created", id },
    { stepName: "charge", input: bytes("[1]"), inline: false, ...more },
  );
export const stepStarted = (id: EntityId, attempt = 1, more = {}) =>
  event({ type: "step_started", id }, { stepName: "charge", attempt, ...more });
export const stepCompleted = (id: EntityId) =>
  event({ type: "step_completed", id }, { stepName: "charge", result: bytes("[2]") });
export const runCompleted = () => event({ type: "run_completed" }, { output: bytes("[3]") });
export const runCancelled = () => event({ type: "run_cancelled" });
export const hookCreated = (id: EntityId, token: string, more = {}) =>
  event({ type: "hook_created", id }, { token: bytes(token), tokenHash: hashOf(token), ...more });
export const hookReceived = (id: EntityId, value = "[4]") =>
  event({ type: "hook_received", id }, { payload: bytes(value) });
export const hookDisposed = (id: EntityId) => event({ type: "hook_disposed", id });

export function wake(runId: RunId, more: Partial<OrchestratorMessage> = {}): OrchestratorMessage {
  return {
    kind: "orchestrator",
    tenantId: A,
    runId,
    specVersion: SPEC_VERSION,
    reason: "wake",
    ...more,
  };
}

export function stepMessage(runId: RunId, more: Partial<StepMessage> = {}): StepMessage {
  return {
    kind: "step",
    tenantId: A,
    runId,
    specVersion: SPEC_VERSION,
    stepId: newId("step"),
    stepName: "charge",
    stepAttempt: 1,
    stepCreatedAt: 1_800_000_000_000,
    deploymentId: "d".repeat(64),
    ...more,
  };
}

/** A delivery that a case holds until it answers it. */
export interface HeldDelivery {
  readonly message: Message;
  readonly meta: DeliveryMeta;
  answer(result: DeliveryResult): void;
  reject(error?: Error): void;
}

/** A consumer whose every delivery waits for the case's answer. */
export class HeldConsumer {
  readonly all: HeldDelivery[] = [];
  readonly #bench: Bench;
  readonly stop: () => Promise<void>;
  readonly limitTenant: Consumer["limitTenant"];

  constructor(bench: Bench, options: Partial<ConsumeOptions> = {}) {
    this.#bench = bench;
    const take = async (message: Message, meta: DeliveryMeta) =>
      new Promise<DeliveryResult>((answer, reject) => {
        const fail = (error = new Error("the handler failed")) => {
          reject(error);
        };
        this.all.push({ message, meta, answer, reject: fail });
      });
    const consumer = bench.world.queue.consume(
      { orchestrator: take, step: take },
      { orchestratorsMax: 16, stepsMax: 16, ...options },
    );
    this.stop = async () => consumer.stop();
    this.limitTenant = (tenantId, limits) => consumer.limitTenant(tenantId, limits);
  }

  /** The nth delivery, from 1, once it is there. */
  async nth(n: number): Promise<HeldDelivery> {
    await this.#bench.until(() => {
      expect(this.all.length).toBeGreaterThanOrEqual(n);
    });
    return this.all[n - 1] as HeldDelivery;
  }

  /** How many deliveries there are once all is quiet. */
  async count(): Promise<number> {
    await this.#bench.quiet();
    return this.all.length;
  }
}

export const ACK: DeliveryResult = { kind: "ack" };
export const HANDOFF: DeliveryResult = { kind: "handoff" };
export const redeliver = (afterMs: number, counted = true): DeliveryResult => ({
  kind: "redeliver",
  afterMs,
  counted,
});

/** The error of a write that must be refused. */
export async function refusal(attempt: Promise<unknown>, code: ErrorCode): Promise<BatonError> {
  const outcome = await attempt.then(
    () => null,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(BatonError);
  const error = outcome as BatonError;
  expect(error.code).toBe(code);
  return error;
}

/** An error as a batch's item carries it. */
export type Coded = Error & { readonly code: string };

/** A run that has started, and a consumer that holds what it is given. */
export async function stepConsumer(bench: Bench) {
  const runId = await bench.started();
  return { runId, consumer: new HeldConsumer(bench), queue: bench.world.queue };
}

/** Out-of-band events, as many as asked, without waiting for each. */
export async function filled(bench: Bench, runId: RunId, count: number): Promise<void> {
  const { events } = bench.store();
  for (let done = 0; done < count; done += 500) {
    const more = Math.min(500, count - done);
    await Promise.all(
      Array.from({ length: more }, async () => events.create(runId, attrSet("n", "1"))),
    );
  }
}
