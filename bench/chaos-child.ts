/**
 * A chaos child: works over one local World until it is killed, and says what it does.
 *
 * `work`: appends in-band and out-of-band, sends, sends with events, and consumes with every kind
 * of answer. `trace`: a fixed number of appends, one after another, and then the end.
 */
import { writeSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { SPEC_VERSION } from "../engine/events.ts";
import type { NewEvent } from "../engine/events.ts";
import type { RunId, TenantId } from "../engine/ids.ts";
import { entityIdOf, runIdOf, tenantIdOf, ulid } from "../engine/ids.ts";
import type { DeliveryMeta, DeliveryResult, Message, StepMessage } from "../engine/ports/queue.ts";
import type { TenantStore, World } from "../engine/ports/world.ts";
import { openLocalWorld } from "../worlds/local/index.ts";
import type { Said } from "./chaos-lines.ts";
import { TENANT, TRACED_APPENDS, nonceOf } from "./chaos-lines.ts";

const [path = "", mode = "work"] = process.argv.slice(2);
const tenantId: TenantId = tenantIdOf(TENANT);
let nextOp = 1;

/** At once and whole, so that what was said before a kill is heard. */
function say(said: Said): void {
  writeSync(1, `${JSON.stringify(said)}\n`);
}

const newRunId = (): RunId => runIdOf(`wrun_${ulid(Date.now(), randomBytes(10))}`);

function created(): NewEvent {
  const bytes = randomBytes(64);
  return {
    eventType: "run_created",
    eventData: { deploymentId: "chaos", workflowName: "chaos", input: bytes, seed: bytes },
    correlationId: null,
    specVersion: SPEC_VERSION,
  };
}

function noted(key: string, nonce: string): NewEvent {
  return {
    eventType: "attr_set",
    eventData: { changes: [{ key, value: nonce }], writer: { kind: "client" } },
    correlationId: null,
    specVersion: SPEC_VERSION,
  };
}

function stepMessage(runId: RunId, stepName: string): StepMessage {
  return {
    kind: "step",
    tenantId,
    runId,
    specVersion: SPEC_VERSION,
    stepId: entityIdOf(`step_${ulid(Date.now(), randomBytes(10))}`),
    stepName,
    stepAttempt: 1,
    stepCreatedAt: Date.now(),
    deploymentId: "chaos",
  };
}

/** One run's writer: in-band at its counts, then out-of-band, then with a message. */
async function write(store: TenantStore): Promise<void> {
  const runId = newRunId();
  await store.events.create(runId, created());
  say({ kind: "run", runId });
  let seqInBand = 1;
  for (let i = 0; ; i++) {
    const nonce = randomBytes(12).toString("hex");
    const op = nextOp++;
    const withMessage = i % 3 === 2;
    say({ kind: "begin", op });
    const { event } = await store.events.create(
      runId,
      noted(withMessage ? "with-message" : "plain", nonce),
      i % 3 === 0
        ? { inBand: true, expectedSeqInBand: seqInBand++ }
        : withMessage
          ? { send: { message: stepMessage(runId, nonce) } }
          : {},
    );
    say({ kind: "appended", runId, slot: event.slot, nonce });
    say({ kind: "end", op });
  }
}

async function send(world: World): Promise<void> {
  const runId = newRunId();
  await world.forTenant(tenantId).events.create(runId, created());
  for (let i = 0; ; i++) {
    const op = nextOp++;
    say({ kind: "begin", op });
    // Only steps: a wake may rightly be coalesced away and never be delivered itself.
    const { messageId } = await world.queue.send(
      stepMessage(runId, "plain"),
      i % 4 === 0 ? { delayMs: 40 } : {},
    );
    say({ kind: "sent", messageId });
    say({ kind: "end", op });
    if (i % 8 === 0) {
      await world.queue.send({
        kind: "orchestrator",
        tenantId,
        runId,
        specVersion: SPEC_VERSION,
        reason: "wake",
      });
    }
  }
}

async function take(message: Message, meta: DeliveryMeta): Promise<DeliveryResult> {
  const { messageId, deliveryCount } = meta;
  const op = nextOp++;
  say({ kind: "begin", op });
  say({ kind: "delivered", messageId, deliveryCount, nonce: nonceOf(message) });
  await new Promise<void>((resolve) => {
    setTimeout(resolve, Math.random() * 3);
  });
  say({ kind: "end", op });
  const dice = Math.random();
  if (dice < 0.7) return { kind: "ack" };
  if (dice < 0.8) return { kind: "handoff" };
  if (dice < 0.95) return { kind: "redeliver", afterMs: 5, counted: dice < 0.9 };
  throw new Error("a handler fails now and then");
}

async function trace(store: TenantStore): Promise<void> {
  const runId = newRunId();
  await store.events.create(runId, created());
  for (let i = 0; i < TRACED_APPENDS; i++) {
    writeSync(1, `begin append ${i}\n`);
    await store.events.create(runId, noted("plain", String(i)));
    writeSync(1, `answer append ${i}\n`);
  }
}

const world = await openLocalWorld({ path });
if (mode === "trace") {
  await trace(world.forTenant(tenantId));
  await world.close();
} else {
  world.queue.consume({ orchestrator: take, step: take }, { orchestratorsMax: 8, stepsMax: 8 });
  const store = world.forTenant(tenantId);
  await Promise.all([
    ...Array.from({ length: 6 }, async () => write(store)),
    ...Array.from({ length: 3 }, async () => send(world)),
  ]);
}
