/**
 * Reads what a guest host answers. It runs tenants' code in its process, so for a tenant that broke
 * out of its heap these are the only words that it can say to us: every field is checked again.
 */
import { z } from "zod";
import { ERROR_TABLE, RUN_ERROR_CODES } from "../engine/errors.ts";
import type { LimitExceeded } from "../engine/ports/sandbox.ts";
import { INCIDENT_KINDS } from "./threads.ts";
import type { Incident } from "./threads.ts";
import type { Answer, HeapId, NumberedAnswer, Order } from "./wire.ts";

const short = z.string().max(1024);
const long = z.string().max(1 << 17);
const size = z.number().min(0).max(Number.MAX_SAFE_INTEGER);
const usage = z.strictObject({ cpuMs: z.number().min(0).max(1e9), heapBytes: size });
const limitCodes = RUN_ERROR_CODES.filter((code) => Object.hasOwn(ERROR_TABLE, code));
const exceeded = z.strictObject({
  code: z.enum(limitCodes as [LimitExceeded["code"], ...LimitExceeded["code"][]]),
  limit: short,
  used: size,
  allowed: size,
});

const lost = z.strictObject({
  kind: z.literal("lost"),
  reason: long,
  isTrap: z.literal(true).optional(),
});
const limit = z.strictObject({ kind: z.literal("limit"), exceeded, usage: usage.optional() });
const bundleAnswers = [
  z.strictObject({
    kind: z.literal("bundle_failed"),
    error: z.strictObject({ message: long, stack: long }),
  }),
  z.strictObject({ kind: z.literal("bundle_unknown") }),
  limit,
  lost,
] as const;

const stepTurnsAnswers = [
  z.strictObject({ kind: z.literal("step_report"), text: z.string(), usage }),
  limit,
  lost,
] as const;

const ANSWER_TO = {
  open: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("opened"), consumedSlot: z.int().min(0), heapBytes: size }),
    z.strictObject({ kind: z.literal("image_refused"), reason: long }),
    ...bundleAnswers,
  ]),
  pass: z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("report"),
      text: z.string(),
      isFull: z.boolean(),
      usage,
    }),
    z.strictObject({ kind: z.literal("diverged"), slot: z.int().min(1), text: z.string() }),
    limit.required({ usage: true }),
    z.strictObject({ kind: z.literal("unreadable"), slot: z.int().min(1) }),
    lost,
  ]),
  snapshot: z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("image"),
      fingerprint: z.string().regex(/^[0-9a-f]{64}$/),
      bytes: z.instanceof(Uint8Array),
    }),
    z.strictObject({ kind: z.literal("none") }),
  ]),
  inspect: z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("inspected"),
      text: z.string(),
      sharesImage: z.boolean(),
      notes: z.array(long).max(64),
    }),
    ...bundleAnswers,
  ]),
  step_begin: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("input_unreadable") }),
    bundleAnswers[0],
    bundleAnswers[1],
    ...stepTurnsAnswers,
  ]),
  step_turns: z.discriminatedUnion("kind", [...stepTurnsAnswers]),
  close: z.null(),
  bundle: z.null(),
} as const satisfies Record<Order["kind"], z.ZodType>;

const incident = z.strictObject({
  incident: z.strictObject({
    kind: z.enum(INCIDENT_KINDS),
    reason: short,
    tenantId: short.nullable(),
    runId: short.nullable(),
  }),
});

/** What the host says unasked, or null if the message is no such thing. */
export function incidentIn(message: unknown): Incident | null {
  const read = incident.safeParse(message);
  return read.success ? (read.data.incident as Incident) : null;
}

const gone = z.strictObject({ gone: z.strictObject({ heapId: z.int().min(1), reason: long }) });

/** The heap that is gone, or null if the message is no such thing. */
export function goneIn(message: unknown): { heapId: HeapId; reason: string } | null {
  const read = gone.safeParse(message);
  return read.success ? read.data.gone : null;
}

const numbered = z.strictObject({ number: z.int().min(1), answer: z.unknown() });

/** The answer and whose it is, or null if it is none. `kindOf`: what was ordered by that number. */
export function answerIn(
  message: unknown,
  kindOf: (number: number) => Order["kind"] | undefined,
): NumberedAnswer | null {
  const envelope = numbered.safeParse(message);
  if (!envelope.success) return null;
  const { number } = envelope.data;
  const kind = kindOf(number);
  if (kind === undefined) return null;
  const answer = ANSWER_TO[kind].safeParse(envelope.data.answer);
  return answer.success ? { number, answer: answer.data as Answer | null } : null;
}
