/**
 * Snapshots: a run's heap image with the log state it belongs to, sealed and put away.
 *
 * Owns the form of what is stored and when a snapshot is worth its cost. A snapshot only saves
 * time: whatever does not fit, opens or parse here means "go cold", never an error of the run.
 *
 * E44  A snapshot is bound to tenant, run, slot, digest and fingerprint: it opens for no other.
 * E45  Only a heap that has consumed its whole log, and whose every decision is in that log, is
 *      put away.
 */
import { z } from "zod";
import { assert } from "./assert.ts";
import { entityIdOf } from "./ids.ts";
import type { RunRef } from "./ids.ts";
import { SNAPSHOT_EVENTS_MIN } from "./limits.ts";
import type { FoldedLog, RunLog } from "./log.ts";
import type { Log } from "./ports/host.ts";
import type { Heap, HeapImage } from "./ports/sandbox.ts";
import type { Tenants } from "./ports/tenants.ts";
import type { Snapshots, StoredSnapshot } from "./ports/world.ts";
import type { SnapshotShelf } from "./snapshot-shelf.ts";
import { positionOf, slotOf } from "./slots.ts";

export interface SnapshotStore {
  readonly run: RunRef;
  readonly tenants: Tenants;
  readonly snapshots: Snapshots;
  readonly shelf: SnapshotShelf;
}

export interface RestoredSnapshot {
  readonly folded: FoldedLog;
  readonly image: HeapImage;
}

/** Whether a replay from the newest snapshot has become dearer than a new one. */
export function isSnapshotDue(topSlot: number, snapshotSlot: number): boolean {
  return topSlot - snapshotSlot >= SNAPSHOT_EVENTS_MIN;
}

export interface ToSave {
  readonly heap: Heap;
  readonly log: RunLog;
  /** Of all the tenant's snapshots together; null: no limit. */
  readonly bytesMax: number | null;
}

/** Puts the heap away; the slot of the snapshot, or null if this heap cannot be put away. */
export async function saveSnapshot(
  store: SnapshotStore,
  { heap, log, bytesMax }: ToSave,
): Promise<number | null> {
  assert(log.consumedSlot === log.topSlot, "a heap is put away at the end of its log");
  assert(heap.consumedSlot <= log.topSlot, "no snapshot holds what is not committed");
  const position = { slot: log.topSlot, digest: log.digest };
  const image = await heap.snapshot(position);
  if (image === null) return null;
  const plain = packed(JSON.stringify(foldedJson(log.fold())), image.image);
  const sealed = await store.tenants.sealSnapshot(store.run, plain, boundTo(store.run, image));
  const { fingerprint } = image;
  await store.snapshots.put(store.run.runId, { ...position, fingerprint, bytes: sealed });
  if (bytesMax !== null) {
    await store.shelf.keepWithin({ ...store, ...store.run }, sealed.length, bytesMax);
  }
  return log.topSlot;
}

/** The newest snapshot, opened; null if there is none that is whole and this run's. */
export async function restoreSnapshot(store: SnapshotStore): Promise<RestoredSnapshot | null> {
  const stored = await store.snapshots.get(store.run.runId);
  if (stored === null) return null;
  const bound = boundTo(store.run, stored);
  const plain = await store.tenants.openSnapshot(store.run, stored.bytes, bound);
  const inner = plain === null ? null : unpacked(plain);
  const folded = inner === null ? null : foldedOf(inner.head);
  if (inner === null || folded === null || !isOf(folded, stored)) return null;
  const { slot, digest, fingerprint } = stored;
  return { folded, image: { slot, digest, fingerprint, image: inner.rest } };
}

/** Drops what was put away of a run that is over; what stays there is only space. */
export async function deleteSnapshot({ run, snapshots }: SnapshotStore, log: Log): Promise<void> {
  await snapshots.delete(run.runId).catch((error: unknown) => {
    log.warn({ error: String(error) }, "the snapshot of a run that is over was not deleted");
  });
}

function isOf(folded: FoldedLog, stored: StoredSnapshot): boolean {
  return folded.topSlot === stored.slot && folded.digest === stored.digest;
}

function boundTo(run: RunRef, image: Omit<HeapImage, "image">): readonly string[] {
  return [run.tenantId, run.runId, String(image.slot), image.digest, image.fingerprint];
}

/** The head's length in four bytes, the head, the rest. */
function packed(head: string, rest: Uint8Array): Uint8Array {
  const text = new TextEncoder().encode(head);
  const bytes = new Uint8Array(4 + text.length + rest.length);
  new DataView(bytes.buffer).setUint32(0, text.length);
  bytes.set(text, 4);
  bytes.set(rest, 4 + text.length);
  return bytes;
}

function unpacked(bytes: Uint8Array): { head: string; rest: Uint8Array } | null {
  if (bytes.length < 4) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = 4 + view.getUint32(0);
  if (end > bytes.length) return null;
  const head = new TextDecoder().decode(bytes.subarray(4, end));
  return { head, rest: bytes.subarray(end) };
}

const slot = z.number().int().min(1).transform(slotOf);
const epochMs = z.number().int();
const id = z.string().transform(entityIdOf);

const birth = z.strictObject({
  workflowName: z.string(),
  deploymentId: z.string(),
  seed: z.string().regex(/^[0-9a-f]*$/),
  createdAt: epochMs,
  specVersion: z.number().int(),
  webhookBaseUrl: z.string().nullable(),
});
const startedRun = z.strictObject({ kind: z.literal("started"), birth, startedAt: epochMs });
const step = z.strictObject({
  stepId: id,
  stepName: z.string(),
  mode: z.enum(["inline", "background"]),
  createdSlot: slot,
  createdAt: epochMs,
  starts: z.number().int(),
  interruptions: z.number().int(),
  startedAt: epochMs.nullable(),
  activeAt: epochMs,
  retry: z.strictObject({ retryAt: epochMs, recordedAt: epochMs, moved: z.boolean() }).nullable(),
  outcome: z.null(),
});
const wait = z.strictObject({
  waitId: id,
  resumeAt: epochMs,
  chain: z.string(),
  createdSlot: slot,
  isWoken: z.boolean(),
  completedSlot: z.null(),
});
const hook = z.strictObject({
  hookId: id,
  tokenHash: z.string(),
  isRetained: z.boolean(),
  createdSlot: slot,
  receivedAt: epochMs.nullable(),
  closedSlot: z.null(),
});
/** Only a started run rests, and of a rested log nothing closed is kept. */
const foldedSchema = z.strictObject({
  topSlot: z.number().int().transform(positionOf),
  digest: z.string(),
  run: startedRun,
  steps: z.array(step),
  waits: z.array(wait),
  hooks: z.array(hook),
});

function foldedJson(folded: FoldedLog): unknown {
  const { run } = folded;
  assert(run.kind === "started", "only a run under way is put away");
  return { ...folded, run: { ...run, birth: { ...run.birth, seed: hexOf(run.birth.seed) } } };
}

function foldedOf(json: string): FoldedLog | null {
  try {
    const folded = foldedSchema.parse(JSON.parse(json));
    const seed = bytesOfHex(folded.run.birth.seed);
    return { ...folded, run: { ...folded.run, birth: { ...folded.run.birth, seed } } };
  } catch {
    // Another build's form: a cold replay is always right.
    return null;
  }
}

function hexOf(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function bytesOfHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
