/**
 * The border of the queue: what a message may be, and how it is sent.
 *
 * Owns the schema of messages, and the rule that a message of a tenant's write stays with that
 * tenant and run.
 */
import { z } from "zod";
import { BatonError } from "../engine/errors.ts";
import type { RunRef } from "../engine/ids.ts";
import { entityIdOf, runIdOf, tenantIdOf } from "../engine/ids.ts";
import type {
  ConsumeOptions,
  Message,
  Send,
  SendOptions,
  TenantDeliveries,
} from "../engine/ports/queue.ts";
import { EVENT_PAYLOAD_BYTES_MAX, checkedInteger, owned, refusing } from "./border.ts";

const DELAY_MS_MAX = 8.64e15;
export const DELIVERIES_MAX = 10_000;

const epochMs = z.number().int().min(0).max(8.64e15);
const payload = z
  .instanceof(Uint8Array)
  .refine((bytes) => bytes.length <= EVENT_PAYLOAD_BYTES_MAX, "a payload is bounded")
  .transform(owned);
const place = {
  tenantId: z.string().transform(tenantIdOf),
  runId: z.string().transform(runIdOf),
  specVersion: z.number().int().min(1),
};
const name = z.string().min(1).max(1024);
const deploymentId = z.string().min(1).max(128);
const entityId = z.string().transform(entityIdOf);

const orchestratorMessage = z.strictObject({
  kind: z.literal("orchestrator"),
  ...place,
  reason: z.enum(["start", "wake", "timer", "recovery"]),
  runInput: z
    .strictObject({
      workflowName: name,
      deploymentId,
      input: payload,
      seed: payload,
      attributes: z.record(z.string(), z.string()).optional(),
      executionContext: z.record(z.string(), z.string()).optional(),
      createdAt: epochMs,
    })
    .optional(),
  waitContinuation: z
    .strictObject({
      correlationId: entityId,
      resumeAtMs: epochMs.optional(),
      hopAtMs: epochMs.optional(),
      attempt: z.number().int().min(1),
    })
    .optional(),
  recovery: z.literal(true).optional(),
});

const stepMessage = z.strictObject({
  kind: z.literal("step"),
  ...place,
  stepId: entityId,
  stepName: name,
  stepAttempt: z.number().int().min(1),
  stepCreatedAt: epochMs,
  deploymentId,
  stepInput: payload.optional(),
  stepResent: z.literal(true).optional(),
});

const messageSchema = z.discriminatedUnion("kind", [orchestratorMessage, stepMessage]);
const optionsSchema = z.strictObject({
  idempotencyKey: z.string().min(1).max(512).optional(),
  delayMs: z.number().min(0).max(DELAY_MS_MAX).optional(),
});

export interface CheckedSend {
  readonly message: Message;
  readonly key: string | null;
  readonly delayMs: number;
}

export function checkedSend(message: unknown, options: SendOptions | undefined): CheckedSend {
  const sound = refusing("message", () => messageSchema.parse(message)) as Message;
  const { idempotencyKey, delayMs } = refusing("options", () => optionsSchema.parse(options ?? {}));
  return { message: sound, key: idempotencyKey ?? null, delayMs: Math.ceil(delayMs ?? 0) };
}

/** A message that comes with a write: it says nothing about any other run. */
export function checkedSendOf(run: RunRef, send: Send): CheckedSend {
  const checked = checkedSend(send.message, send.options);
  const { tenantId, runId } = checked.message;
  if (tenantId === run.tenantId && runId === run.runId) return checked;
  throw new BatonError("INVALID_ARGUMENT", "a write's message is for the run that it writes to", {
    field: "send.message",
    used: `${tenantId}/${runId}`,
    allowed: `${run.tenantId}/${run.runId}`,
  });
}

export function checkedConsumeOptions(options: ConsumeOptions): ConsumeOptions {
  const { orchestratorsMax, stepsMax, perTenantMax, timesFreeMax } = options;
  checkedInteger("orchestratorsMax", orchestratorsMax, 0, DELIVERIES_MAX);
  checkedInteger("stepsMax", stepsMax, 0, DELIVERIES_MAX);
  const share = (name: string, value: number | undefined) =>
    value === undefined ? {} : { [name]: checkedInteger(name, value, 1, DELIVERIES_MAX) };
  return {
    orchestratorsMax,
    stepsMax,
    ...share("perTenantMax", perTenantMax),
    ...share("timesFreeMax", timesFreeMax),
  };
}

export function checkedTenantDeliveries(limits: TenantDeliveries): TenantDeliveries {
  const checked = (name: keyof TenantDeliveries) => {
    const value = limits[name];
    return value === null ? null : checkedInteger(name, value, 0, Number.MAX_SAFE_INTEGER);
  };
  return { orchestratorsMax: checked("orchestratorsMax"), stepsMax: checked("stepsMax") };
}
