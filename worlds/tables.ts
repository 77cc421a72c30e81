/**
 * What the shared ledger needs of storage: synchronous tables, called inside one transaction.
 *
 * Owns types only. The memory World keeps them in maps, the local World in SQLite. No rule of the
 * contract lives behind this border; the ledger decides, a table stores.
 */
import type { BundleHash, EntityId, MessageId, RunId, TenantId } from "../engine/ids.ts";
import type { Message } from "../engine/ports/queue.ts";
import type { ParkedReason, RunStatus, StepRow, WaitRow } from "../engine/ports/world.ts";
import type { Slot } from "../engine/slots.ts";
import type { PackedRows } from "./event-record.ts";

/** A run as it is stored. Changed by replacing it. */
export interface RunRecord {
  /** The table's own short name for the run; set by `insert`. */
  readonly key: number;
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly specVersion: number;
  readonly status: RunStatus;
  readonly workflowName: string;
  readonly deploymentId: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly seq: number;
  readonly seqInBand: number;
  /** Of its events, as they are stored. */
  readonly bytes: number;
  /** Of the whole log. */
  readonly digest: Uint8Array;
  readonly parked: ParkedReason | null;
}

/** Where a listing of runs goes on: below this one, newest first. */
export interface RunPosition {
  readonly createdAt: number;
  readonly runId: RunId;
}

export interface HookBody {
  readonly tokenHash: string;
  readonly isWebhook: boolean;
  readonly isSystem: boolean;
  /** `conflict`: the token was taken, so the hook never came to be. */
  readonly status: "open" | "disposed" | "conflict";
  readonly createdAt: number;
  readonly tokenRetentionUntil: number | null;
  readonly claimedFrom: RunId | null;
  readonly forceClaimedBy: RunId | null;
}

interface EntityPlace {
  readonly id: EntityId;
  /** Of the event that created it: the order of listings. */
  readonly slot: Slot;
  readonly isOpen: boolean;
}

export type StepRecord = EntityPlace & {
  readonly kind: "step";
  readonly body: Omit<StepRow, "stepId">;
};
export type WaitRecord = EntityPlace & {
  readonly kind: "wait";
  readonly body: Omit<WaitRow, "waitId">;
};
export type HookRecord = EntityPlace & { readonly kind: "hook"; readonly body: HookBody };
export type EntityRecord = StepRecord | WaitRecord | HookRecord;

export interface TokenRecord {
  readonly tenantId: TenantId;
  readonly tokenHash: string;
  readonly runId: RunId;
  readonly hookId: EntityId;
  /** Null while its hook is open; then the time until which the token stays taken. */
  readonly reservedUntil: number | null;
}

export interface MessageRow {
  readonly messageId: MessageId;
  readonly message: Message;
  /** What a second send is dropped by while this row exists; scoped to tenant and run. */
  readonly key: string | null;
  /** Epoch ms; ignored while claimed. */
  readonly dueAt: number;
  /** A delivery holds it, or the run gate does. */
  readonly isClaimed: boolean;
  /** How often it was claimed, re-runs included. */
  readonly deliveryCount: number;
  /** How many of those were handoffs, re-runs, or redeliveries that are nobody's failure. */
  readonly uncounted: number;
}

export type MessageKind = Message["kind"];

/** Small values beside the logs: one row per (tenant, space, owner, name, index). */
export interface CellPlace {
  readonly tenantId: TenantId | "";
  readonly space:
    "snapshot" | "bundle" | "alias" | "blob" | "stream" | "chunk" | "tenant" | "usage";
  /** A run id, or empty. */
  readonly owner: string;
  readonly name: string;
  readonly index: number;
}

export interface Cell {
  readonly head: string;
  readonly bytes: Uint8Array | null;
}

export interface CellSize {
  readonly owner: string;
  readonly bytes: number;
  /** Grows with each cell that is put where none was. */
  readonly order: number;
}

/** The cells of one space and owner, together. */
export interface CellSum {
  readonly space: CellPlace["space"];
  readonly count: number;
  /** Without their heads. */
  readonly bytes: number;
}

export interface RunTable {
  get(tenantId: TenantId, runId: RunId): RunRecord | null;
  insert(run: Omit<RunRecord, "key">): RunRecord;
  update(run: RunRecord): void;
  /** Newest first. */
  scan(tenantId: TenantId, below: RunPosition | null, limit: number): RunRecord[];
  finishedBefore(tenantId: TenantId, time: number, limit: number): RunRecord[];
  hasOpenOn(tenantId: TenantId, deploymentId: BundleHash): boolean;
  /** Runs that are not over, counted up to `max`. */
  countOpen(tenantId: TenantId, max: number): number;
  /** Takes the run and its events, entities and resume ids away. */
  remove(run: RunRecord): void;
  removeTenant(tenantId: TenantId): void;
}

export interface EventTable {
  insert(run: RunRecord, slot: Slot, row: PackedRows, correlationId: EntityId | null): void;
  get(run: RunRecord, slot: Slot): PackedRows | null;
  /** One packed row for each event. */
  range(run: RunRecord, afterSlot: Slot, limit: number): PackedRows[];
  ofEntity(run: RunRecord, id: EntityId, afterSlot: Slot, limit: number): PackedRows[];
}

export interface EntityTable {
  get(run: RunRecord, id: EntityId): EntityRecord | null;
  put(run: RunRecord, record: EntityRecord): void;
  open(run: RunRecord): EntityRecord[];
  list(run: RunRecord, kind: EntityRecord["kind"], afterSlot: Slot, limit: number): EntityRecord[];
}

export interface TokenTable {
  get(tenantId: TenantId, tokenHash: string): TokenRecord | null;
  put(record: TokenRecord): void;
  delete(tenantId: TenantId, tokenHash: string): void;
  removeTenant(tenantId: TenantId): void;
}

export interface ResumeTable {
  get(run: RunRecord, resumeId: string): Slot | null;
  put(run: RunRecord, resumeId: string, slot: Slot): void;
}

export interface CellTable {
  get(place: CellPlace): Cell | null;
  put(place: CellPlace, cell: Cell): void;
  delete(place: CellPlace): boolean;
  /** Consecutive indexes of one name, from `place.index`. */
  range(place: CellPlace, limit: number): Cell[];
  /** Index 0 of each name above `place.name`, in the order of names. */
  names(place: CellPlace, limit: number): { readonly name: string; readonly head: string }[];
  /** Cells of a space over all owners above `after`, in the order in which they were first put. */
  sizes(tenantId: TenantId, space: CellPlace["space"], after: number, limit: number): CellSize[];
  sums(tenantId: TenantId, owner: string): readonly CellSum[];
  removeOwner(tenantId: TenantId, owner: string): void;
  /** Takes away so many at most; false: none is left. */
  removeTenant(tenantId: TenantId, rowsMax: number): boolean;
}

export interface MessageTable {
  get(messageId: MessageId): MessageRow | null;
  byKey(tenantId: TenantId, runId: RunId, key: string): MessageRow | null;
  insert(row: MessageRow, now: number): void;
  update(row: MessageRow, now: number): void;
  delete(messageId: MessageId): void;
  /** The first tenant above `after` with an unclaimed message that is due. */
  tenantWithDue(kind: MessageKind, after: string, now: number): TenantId | null;
  /** The tenant's unclaimed message that has been due for longest. */
  firstDue(kind: MessageKind, tenantId: TenantId, now: number): MessageRow | null;
  /** When the next unclaimed message falls due after `now`. */
  nextDueAt(now: number): number | null;
  /** Makes what a dead process held due at once. */
  releaseClaimed(now: number): void;
  removeRun(tenantId: TenantId, runId: RunId): void;
  removeTenant(tenantId: TenantId): void;
}

export interface Tables {
  readonly runs: RunTable;
  readonly events: EventTable;
  readonly entities: EntityTable;
  readonly tokens: TokenTable;
  readonly resumes: ResumeTable;
  readonly cells: CellTable;
  readonly messages: MessageTable;
}
