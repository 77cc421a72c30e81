/** The three ways in which a run's heap can come to a point, as lists of what was decided there. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { bundleHashOf, runIdOf, tenantIdOf } from "../../../engine/ids.ts";
import type {
  GuestEvent,
  Heap,
  HeapImage,
  HeapRequest,
  PassResult,
  Sandbox,
} from "../../../engine/ports/sandbox.ts";
import { slotOf } from "../../../engine/slots.ts";
import { Outside, PLAIN_ANSWERS, decisionsOf } from "../outside.ts";
import { WORKFLOW_NAME } from "../tenant-source.ts";

const CREATED_AT = 1_700_000_000_000;
const PASSES_MAX = 4000;

export const guestLibrary = readFileSync(
  createRequire(import.meta.url).resolve("#built/guest/workflow.js"),
  "utf8",
);

export function requestOf(source: string, seedByte = 7): HeapRequest {
  const tenantId = tenantIdOf("acme");
  return {
    run: { tenantId, runId: runIdOf("wrun_01HF7YAT00TEST00000000000A") },
    bundle: {
      tenantId,
      hash: bundleHashOf(createHash("sha256").update(source).digest("hex")),
      workflowCode: source,
      guestLibrary,
    },
    workflowName: WORKFLOW_NAME,
    seed: new Uint8Array(32).fill(seedByte),
    createdAt: CREATED_AT,
    limits: {
      heapBytesMax: 64 << 20,
      cpuSoftMs: 20_000,
      cpuHardMs: 40_000,
      stackBytesMax: 256 << 10,
      jobsPerEventMax: 1_000_000,
      openOperationsMax: 5000,
      payloadBytesMax: 128 << 10,
      consoleBytesPerPassMax: 64 << 10,
    },
  };
}

/** One pass of a run: what came in, and all that was decided. */
export interface Pass {
  readonly events: readonly GuestEvent[];
  readonly decisions: string;
  readonly result: PassResult;
}

export async function openedHeap(sandbox: Sandbox, request: HeapRequest): Promise<Heap> {
  const opened = await sandbox.open(request);
  if (opened.kind === "opened") return opened.heap;
  throw new Error(`not opened: ${JSON.stringify(opened)}`);
}

/** Leads the run from its start to its end in one heap; `choose` picks what happens next. */
export async function leadLive(
  sandbox: Sandbox,
  request: HeapRequest,
  choose: (bound: number) => number,
): Promise<readonly Pass[]> {
  const outside = new Outside({ startedAt: CREATED_AT, answers: PLAIN_ANSWERS, choose });
  const heap = await openedHeap(sandbox, request);
  const passes: Pass[] = [];
  let events = outside.begin();
  while (events.length > 0 && passes.length < PASSES_MAX) {
    const result = await heap.pass(events);
    passes.push({ events, result, decisions: decisionsOf(result) });
    if (result.kind !== "quiet") break;
    events = outside.next(result);
  }
  heap.close();
  return passes;
}

/** A heap that is fed the log up to the end of the pass at `index`, all in one. */
export async function replayCold(
  sandbox: Sandbox,
  request: HeapRequest,
  passes: readonly { readonly events: readonly GuestEvent[] }[],
  index: number,
): Promise<string> {
  const heap = await openedHeap(sandbox, request);
  const result = await heap.pass(passes.slice(0, index + 1).flatMap(({ events }) => events));
  heap.close();
  return decisionsOf(result);
}

/** Opens the image, or begins; says what is open; takes the events; puts the heap away again. */
export async function passRestored(
  sandbox: Sandbox,
  request: HeapRequest,
  events: readonly GuestEvent[],
): Promise<{ readonly before: string; readonly after: string; readonly image: HeapImage | null }> {
  const heap = await openedHeap(sandbox, request);
  const before = request.image === undefined ? "" : decisionsOf(await heap.pass([]));
  const after = decisionsOf(await heap.pass(events));
  const slot = slotOf(events.at(-1)?.slot ?? 1);
  const image = await heap.snapshot({ slot, digest: `digest of ${slot}` });
  heap.close();
  return { before, after, image };
}

/** Without what a pass only says once: its console lines. */
export function lasting(decisions: string): string {
  const { console: _lines, ...rest } = JSON.parse(decisions) as Record<string, unknown>;
  return JSON.stringify(rest);
}

export function linesOf(decisions: string): unknown[] {
  return (JSON.parse(decisions) as { console?: unknown[] }).console ?? [];
}
