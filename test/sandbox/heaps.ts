/** What the sandbox's tests share: programs over the stand-in library, and requests for heaps. */
import { createHash } from "node:crypto";
import { buildSync } from "esbuild";
import { expect } from "vitest";
import { bundleHashOf, runIdOf, tenantIdOf } from "../../engine/ids.ts";
import type { EntityId } from "../../engine/ids.ts";
import { payloadOfText, textOfPayload } from "../../engine/payload.ts";
import type {
  BundleCode,
  GuestEvent,
  Heap,
  HeapLimits,
  HeapRequest,
  OpenOperation,
  PassResult,
  Sandbox,
} from "../../engine/ports/sandbox.ts";
import { slotOf } from "../../engine/slots.ts";

export const standIn: string =
  buildSync({
    entryPoints: [new URL("stand-in.guest.ts", import.meta.url).pathname],
    bundle: true,
    write: false,
    format: "iife",
    globalName: "__baton_guest",
    target: "es2022",
  }).outputFiles[0]?.text ?? "";

export const LIMITS: HeapLimits = {
  heapBytesMax: 32 << 20,
  cpuSoftMs: 250,
  cpuHardMs: 1000,
  stackBytesMax: 256 << 10,
  jobsPerEventMax: 100_000,
  openOperationsMax: 5000,
  payloadBytesMax: 128 << 10,
  consoleBytesPerPassMax: 64 << 10,
};

export const CREATED_AT = 1_700_000_000_000;

export function bundleOf(workflowCode: string, tenant = "acme"): BundleCode {
  return {
    tenantId: tenantIdOf(tenant),
    hash: bundleHashOf(createHash("sha256").update(workflowCode).digest("hex")),
    workflowCode,
    guestLibrary: standIn,
  };
}

/** A bundle whose one workflow, `main`, has this body; `input` is its argument. */
export function program(body: string, tenant?: string): BundleCode {
  return bundleOf(`workflow("main", async (input) => {${body}});`, tenant);
}

export function requestFor(bundle: BundleCode, over: Partial<HeapRequest> = {}): HeapRequest {
  return {
    run: { tenantId: bundle.tenantId, runId: runIdOf("wrun_01HF7YAT00TEST00000000000A") },
    bundle,
    workflowName: "main",
    seed: new Uint8Array(32).fill(7),
    createdAt: CREATED_AT,
    limits: LIMITS,
    ...over,
  };
}

export async function opened(sandbox: Sandbox, request: HeapRequest): Promise<Heap> {
  const result = await sandbox.open(request);
  expect(result).toMatchObject({ kind: "opened" });
  if (result.kind !== "opened") throw new Error("unreachable");
  return result.heap;
}

/** Events in the order of their slots, from `slot` on. */
export function eventFrom(slot: number, event: Partial<GuestEvent>, value?: unknown): GuestEvent {
  return {
    slot: slotOf(slot),
    eventType: "noop",
    correlationId: null,
    createdAt: CREATED_AT + slot * 1000,
    payload: value === undefined ? null : payloadOfText(JSON.stringify(value)),
    asked: null,
    conflictingRunId: null,
    ...event,
  };
}

export function started(slot = 1, input: unknown = null): GuestEvent {
  return eventFrom(slot, { eventType: "run_started" }, input);
}

export function stepCompleted(slot: number, id: EntityId, value: unknown): GuestEvent {
  return eventFrom(slot, { eventType: "step_completed", correlationId: id }, value);
}

export type Quiet = Extract<PassResult, { kind: "quiet" }>;

export function quiet(result: PassResult): Quiet {
  expect(result).toMatchObject({ kind: "quiet" });
  return result as Quiet;
}

/** The one operation that is open. */
export function only(result: PassResult): OpenOperation {
  const { operations } = quiet(result);
  expect(operations).toHaveLength(1);
  return operations[0] as OpenOperation;
}

export function outputOf(result: PassResult): unknown {
  const { completion } = quiet(result);
  expect(completion).toMatchObject({ kind: "completed" });
  return completion?.kind === "completed" ? JSON.parse(textOfPayload(completion.output)) : null;
}
