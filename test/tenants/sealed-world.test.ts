import { beforeEach, describe, expect, it } from "vitest";
import type { NewEvent, RunEvent } from "../../engine/events.ts";
import type { TenantId } from "../../engine/ids.ts";
import { payloadOfText } from "../../engine/payload.ts";
import type { Message, OrchestratorMessage, StepMessage } from "../../engine/ports/queue.ts";
import type { World } from "../../engine/ports/world.ts";
import { slotOf } from "../../engine/slots.ts";
import { sealWorld } from "../../tenants/sealed-world.ts";
import { Vault } from "../../tenants/vault.ts";
import { RecordingWorld } from "./recording-world.ts";
import {
  ACME,
  HOOK,
  OTHER_RUN,
  OTHER_STEP,
  RUN,
  STEP,
  ZETA,
  keysInMemory,
  masterKeys,
  vaultOf,
} from "./vaults.ts";

const CANARY = "canary-8f14e45f";
const secret = (n: string) => payloadOfText(JSON.stringify([`${CANARY}-${n}`]));
const refused = expect.objectContaining({ code: "PAYLOAD_UNREADABLE" }) as Error;

let below: RecordingWorld;
let vault: Vault;
let world: World;
beforeEach(() => {
  below = new RecordingWorld();
  vault = vaultOf();
  world = sealWorld(below.world, vault);
});

const base = { specVersion: 9 } as const;
const runCreated: NewEvent = {
  ...base,
  eventType: "run_created",
  correlationId: null,
  eventData: {
    deploymentId: "b",
    workflowName: "w",
    input: secret("input"),
    seed: secret("seed"),
  },
};
const step = (eventData: object, eventType: string, correlationId = STEP): NewEvent =>
  ({ ...base, eventType, correlationId, eventData: { stepName: "s", ...eventData } }) as NewEvent;
const hookCreated: NewEvent = {
  ...base,
  eventType: "hook_created",
  correlationId: HOOK,
  eventData: { token: secret("token"), tokenHash: "a".repeat(64), metadata: secret("metadata") },
};
const EVENTS: readonly NewEvent[] = [
  runCreated,
  step({ input: secret("1"), inline: false }, "step_created"),
  step({ attempt: 1, input: secret("2"), inline: true }, "step_started", OTHER_STEP),
  step({ attempt: 1, error: secret("3"), retryAfter: 1 }, "step_retrying"),
  step({ result: secret("4") }, "step_completed"),
  step({ error: secret("5") }, "step_failed", OTHER_STEP),
  hookCreated,
  { ...base, eventType: "hook_received", correlationId: HOOK, eventData: { payload: secret("6") } },
  { ...base, eventType: "run_completed", correlationId: null, eventData: { output: secret("7") } },
  {
    ...base,
    eventType: "run_failed",
    correlationId: null,
    eventData: { error: secret("8"), errorCode: "USER_ERROR" },
  },
];

const startMessage: OrchestratorMessage = {
  kind: "orchestrator",
  tenantId: ACME,
  runId: RUN,
  specVersion: 9,
  reason: "start",
  runInput: {
    workflowName: "w",
    deploymentId: "b",
    input: secret("mi"),
    seed: secret("ms"),
    createdAt: 0,
  },
};
const stepMessage: StepMessage = {
  kind: "step",
  tenantId: ACME,
  runId: RUN,
  specVersion: 9,
  stepId: STEP,
  stepName: "s",
  stepAttempt: 1,
  stepCreatedAt: 0,
  deploymentId: "b",
  stepInput: secret("si"),
};

async function deliver(message: Message): Promise<Message> {
  let seen: Message | null = null;
  const see = (given: Message) => {
    seen = given;
    return Promise.resolve({ kind: "ack" } as const);
  };
  world.queue.consume({ orchestrator: see, step: see }, { orchestratorsMax: 1, stepsMax: 1 });
  const meta = {
    messageId: "m" as never,
    deliveryCount: 1,
    attempt: 1,
    invocationStartedAt: 0,
    recovery: false,
    timers: [],
  };
  if (message.kind === "step") await below.handlers?.step(message, meta);
  else await below.handlers?.orchestrator(message, meta);
  return seen as unknown as Message;
}

describe("below the seal", () => {
  it("nothing that a tenant wrote is found, whichever way it was handed down", async () => {
    const store = world.forTenant(ACME);
    for (const event of EVENTS) await store.events.create(RUN, event);
    await store.events.createBatch(RUN, EVENTS.slice(1, 6), {});
    await store.events.create(OTHER_RUN, runCreated, { send: { message: startMessage } });
    await world.queue.send(startMessage);
    await world.queue.sendBatch([{ message: stepMessage }]);
    await store.blobs.put(RUN, "k", secret("blob"));
    await store.streams.write(RUN, "out", [secret("chunk"), secret("chunk2")]);
    const everything = below.everything();
    expect(everything.includes("step_completed")).toBe(true);
    expect(everything.includes("canary")).toBe(false);
    // The same without text encoding in between: base64 at each of its three alignments.
    for (const shift of [0, 1, 2]) {
      const encoded = Buffer.from(CANARY.slice(shift)).toString("base64").slice(0, 12);
      expect(everything.includes(encoded)).toBe(false);
    }
  });

  it("equal values look different each time", async () => {
    const store = world.forTenant(ACME);
    await store.blobs.put(RUN, "a", secret("x"));
    await store.blobs.put(RUN, "b", secret("x"));
    expect(below.blobs.get(`acme/${RUN}/a`)).not.toEqual(below.blobs.get(`acme/${RUN}/b`));
  });

  it("a snapshot that nobody sealed is not handed down", async () => {
    const snapshot = { slot: slotOf(1), digest: "", fingerprint: "", bytes: secret("heap") };
    await expect(world.forTenant(ACME).snapshots.put(RUN, snapshot)).rejects.toThrow("sealed");
    expect(below.snapshots.size).toBe(0);
  });
});

describe("above the seal", () => {
  it("events read as they were written, by every way of reading", async () => {
    const store = world.forTenant(ACME);
    for (const event of EVENTS) {
      const written = await store.events.create(RUN, event);
      expect(written.event.eventData).toEqual(event.eventData);
    }
    const batch = await store.events.createBatch(OTHER_RUN, EVENTS.slice(1, 3), {});
    expect(
      batch.results.map((item) => (item.kind === "committed" ? item.event.eventData : null)),
    ).toEqual(EVENTS.slice(1, 3).map((event) => event.eventData));
    const report = await store.events.create(RUN, runCreated);
    const listed = (await store.events.list(RUN)).events;
    const pushed: RunEvent[] = [];
    await store.events.subscribe(RUN, slotOf(1), (event) => pushed.push(event), {
      onError: (error) => expect.fail(error.message),
    });
    for (const seen of [listed, report.events, pushed]) {
      expect(seen.slice(0, EVENTS.length).map((event) => event.eventData)).toEqual(
        EVENTS.map((event) => event.eventData),
      );
    }
    expect((await store.events.get(RUN, slotOf(1)))?.eventData).toEqual(runCreated.eventData);
    expect(await store.events.get(RUN, slotOf(99))).toBe(null);
  });

  it("hook rows, blobs, chunks and messages read as they were written", async () => {
    const store = world.forTenant(ACME);
    await store.events.create(RUN, hookCreated);
    const rows = [
      await store.hooks.get(RUN, HOOK),
      await store.hooks.getByToken("a".repeat(64)),
      (await store.hooks.list(RUN)).data[0],
      (await store.openEntities(RUN)).hooks[0],
    ];
    for (const row of rows) {
      expect(row).toMatchObject({ token: secret("token"), metadata: secret("metadata") });
    }
    await store.blobs.put(RUN, "k", secret("blob"));
    await store.streams.write(RUN, "out", [secret("a"), secret("b")]);
    expect(await store.blobs.get(RUN, "k")).toEqual(secret("blob"));
    expect((await store.streams.getChunks(RUN, "out", { startIndex: 0 })).chunks).toEqual([
      secret("a"),
      secret("b"),
    ]);
    await world.queue.sendBatch([{ message: startMessage }, { message: stepMessage }]);
    for (const [n, message] of [startMessage, stepMessage].entries()) {
      expect(await deliver(below.messages[n] as Message)).toEqual(message);
    }
  });
});

describe("a sealed value that was moved", () => {
  const swaps: [string, TenantId, typeof RUN, Partial<RunEvent>][] = [
    ["tenant", ZETA, RUN, {}],
    ["run", ACME, OTHER_RUN, {}],
    ["entity", ACME, RUN, { correlationId: OTHER_STEP }],
    ["event type", ACME, RUN, { eventType: "step_failed" }],
  ];
  it.each(swaps)("to another %s does not open", async (_name, tenantId, runId, change) => {
    const store = world.forTenant(ACME);
    await store.events.create(
      RUN,
      step({ error: secret("3"), attempt: 1, retryAfter: 1 }, "step_retrying"),
    );
    const [stored] = below.logOf(ACME, RUN);
    below.logOf(tenantId, runId)[1] = { ...stored, runId, ...change } as RunEvent;
    await expect(world.forTenant(tenantId).events.get(runId, slotOf(2))).rejects.toThrow(refused);
    expect((await store.events.get(RUN, slotOf(1)))?.eventType).toBe("step_retrying");
  });

  it("to another field of its event does not open", async () => {
    await world.forTenant(ACME).events.create(RUN, runCreated);
    const log = below.logOf(ACME, RUN);
    const data = log[0]?.eventData as { input: Uint8Array; seed: Uint8Array };
    log[0] = { ...log[0], eventData: { ...data, input: data.seed, seed: data.input } } as RunEvent;
    await expect(world.forTenant(ACME).events.list(RUN)).rejects.toThrow(refused);
  });

  it("to another blob, stream or purpose does not open", async () => {
    const store = world.forTenant(ACME);
    await store.blobs.put(RUN, "out", secret("x"));
    const bytes = below.blobs.get(`acme/${RUN}/out`) as Uint8Array;
    below.blobs.set(`acme/${RUN}/other`, bytes);
    below.chunks.set(`acme/${RUN}/out`, [bytes]);
    await expect(store.blobs.get(RUN, "other")).rejects.toThrow(refused);
    await expect(store.streams.getChunks(RUN, "out", { startIndex: 0 })).rejects.toThrow(refused);
  });

  it("and one that was never sealed, is not taken for plain", async () => {
    below.blobs.set(`acme/${RUN}/k`, secret("planted"));
    await expect(world.forTenant(ACME).blobs.get(RUN, "k")).rejects.toThrow(refused);
  });

  it("reaches a feed as an error, not as an event", async () => {
    await world.forTenant(ACME).events.create(RUN, runCreated);
    below.logOf(ACME, OTHER_RUN).push(below.logOf(ACME, RUN)[0] as RunEvent);
    const errors: Error[] = [];
    await world
      .forTenant(ACME)
      .events.subscribe(OTHER_RUN, slotOf(1), () => expect.fail("an event"), {
        onError: (error) => errors.push(error),
      });
    expect(errors).toEqual([refused]);
  });

  it("inside a message is left out, so that the handler reads the log", async () => {
    await world.queue.sendBatch([{ message: startMessage }, { message: stepMessage }]);
    const [start, stepMade] = below.messages as [OrchestratorMessage, StepMessage];
    const { runInput: _run, ...startRest } = startMessage;
    const { stepInput: _step, ...stepRest } = stepMessage;
    expect(await deliver({ ...start, tenantId: ZETA })).toEqual({ ...startRest, tenantId: ZETA });
    expect(await deliver({ ...stepMade, stepId: OTHER_STEP })).toEqual({
      ...stepRest,
      stepId: OTHER_STEP,
    });
  });
});

describe("the vault", () => {
  it("keys hook tokens by tenant: equal tokens of two have different hashes", async () => {
    const acme = await vault.forTenant(ACME);
    const zeta = await vault.forTenant(ZETA);
    expect(acme.tokenHash("t")).toMatch(/^[0-9a-f]{64}$/);
    expect(acme.tokenHash("t")).toBe((await vault.forTenant(ACME)).tokenHash("t"));
    expect(acme.tokenHash("t")).not.toBe(zeta.tokenHash("t"));
  });

  it("opens after a restart with the same keys, and not with another master key", async () => {
    const keys = keysInMemory();
    const before = vaultOf(masterKeys(1), keys);
    const place = { run: { tenantId: ACME, runId: RUN }, purpose: "blob" as const, binding: ["k"] };
    const sealed = (await before.forTenant(ACME)).seal(place, secret("x"));
    expect((await new Vault(masterKeys(1), keys).forTenant(ACME)).open(place, sealed)).toEqual(
      secret("x"),
    );
    await expect(new Vault(masterKeys(2), keys).forTenant(ACME)).rejects.toMatchObject({
      code: "MASTER_KEY",
    });
  });

  it("opens nothing of a tenant whose data key was destroyed, and never makes a second key", async () => {
    const store = world.forTenant(ACME);
    await vault.createDataKey(ACME);
    await store.blobs.put(RUN, "k", secret("x"));
    await vault.createDataKey(ACME);
    expect(await store.blobs.get(RUN, "k")).toEqual(secret("x"));
    await vault.destroyDataKey(ACME);
    await expect(store.blobs.get(RUN, "k")).rejects.toThrow(refused);
    await expect(store.blobs.put(RUN, "k", secret("x"))).rejects.toThrow(refused);
    await vault.createDataKey(ACME);
    await expect(store.blobs.get(RUN, "k")).rejects.toThrow(refused);
  });
});
