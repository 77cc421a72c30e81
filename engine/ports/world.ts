/**
 * The World as the engine sees it: types only. The guarantees W1…Wn are in prose in
 * `worlds/world.ts`, and `worlds/conformance/` attacks each.
 *
 * Everything a tenant owns is reached through `forTenant`, so that no look-up can forget whose it
 * is. Names and shapes follow the spec's "World contract changes"; times are epoch ms.
 */
import type { NewEvent, RunEvent } from "../events.ts";
import type { BundleHash, EntityId, RunId, TenantId } from "../ids.ts";
import type { Payload } from "../payload.ts";
import type { Slot } from "../slots.ts";
import type { Queue, Send } from "./queue.ts";

/** How many events a log holds, and how many of them are in-band. Counts, not positions. */
export interface LogCounts {
  readonly seq: number;
  readonly seqInBand: number;
}

export interface CreateParams {
  /** The run's orchestrator makes this write. Then `expectedSeqInBand` and `eventCount` are due. */
  readonly inBand?: boolean;
  readonly expectedSeqInBand?: number;
  /** The slot the decision was made against: the report covers what landed above it. */
  readonly eventCount?: number;
  /** A message that the event implies: both are stored or neither. */
  readonly send?: Send;
  /** Names one resume or request, so that its repetition converges on the first. */
  readonly resumeId?: string;
}

export interface EventResult {
  readonly event: RunEvent;
  /** Positions taken: 1, or 0 when the write converged on an event the log already held. */
  readonly allocated: number;
  /** In-band only: the events between `eventCount` and the write's own slot, in slot order. */
  readonly events: readonly RunEvent[];
  /** The report is not complete; load before consuming. */
  readonly hasMore: boolean;
}

export type BatchItemResult =
  | { readonly kind: "committed"; readonly event: RunEvent }
  | { readonly kind: "refused"; readonly error: Error };

export interface EventBatchResult {
  /** One for each item, in the order of the request. */
  readonly results: readonly BatchItemResult[];
  readonly allocated: number;
  readonly events: readonly RunEvent[];
  readonly hasMore: boolean;
}

export interface ListParams {
  /** Only events above this slot. */
  readonly afterSlot?: Slot;
  /** At most this many, 1 to 1,000; 1,000 if absent. */
  readonly limit?: number;
  /** Only events of this entity; its pages carry no digest chain. */
  readonly correlationId?: EntityId;
  readonly signal?: AbortSignal;
}

export interface EventPage {
  readonly events: readonly RunEvent[];
  /** There are events above the last one of this page. */
  readonly hasMore: boolean;
  /** Read before the listing, strongly consistent. */
  readonly snapshot: LogCounts;
  /** The running digest at `afterSlot`; null if the log does not reach that far. */
  readonly digestBefore: string | null;
}

export interface SubscribeOptions {
  readonly onError: (error: Error) => void;
  /** The highest slot so far, now and then, so that a silent feed is noticed. */
  readonly onHeartbeat?: (topSlot: Slot) => void;
  /** A client's feed counts against the caps (`RUN_FEED_LIMIT`); the engine's own does not. */
  readonly isClient?: boolean;
  /** Of the feeds of clients; absent: those that every World has. */
  readonly caps?: FeedCaps;
}

/** How many feeds of clients there may be; null: any number. */
export interface FeedCaps {
  readonly perRunMax: number | null;
  readonly perTenantMax: number | null;
}

export interface Events {
  /** Appends one event. `run_created` makes the run. */
  create(runId: RunId, event: NewEvent, params?: CreateParams): Promise<EventResult>;
  /** Appends step and wait events as one block; ordered per entity, not atomic. */
  createBatch(
    runId: RunId,
    events: readonly NewEvent[],
    params: CreateParams,
  ): Promise<EventBatchResult>;
  list(runId: RunId, params?: ListParams): Promise<EventPage>;
  get(runId: RunId, slot: Slot): Promise<RunEvent | null>;
  /** Pushes new events above `afterSlot` in slot order; returns what ends it. */
  subscribe(
    runId: RunId,
    afterSlot: Slot,
    onEvent: (event: RunEvent) => void,
    options: SubscribeOptions,
  ): Promise<() => void>;
}

export type RunStatus = "pending" | "running" | "completed" | "failed" | "cancelled";

/** What an operator has to mend before the run goes on. No event; its messages are kept. */
export interface ParkedReason {
  readonly code: string;
  /** For operators; no tenant payloads. */
  readonly message: string;
  /** Epoch ms. */
  readonly since: number;
}

export interface RunRow {
  readonly runId: RunId;
  readonly specVersion: number;
  readonly status: RunStatus;
  readonly workflowName: string;
  readonly deploymentId: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly counts: LogCounts;
  readonly parked: ParkedReason | null;
}

export interface Page<T> {
  readonly data: readonly T[];
  /** Pass it on to read the next page; null on the last. */
  readonly cursor: string | null;
}

export interface PageParams {
  readonly cursor?: string;
  /** 1 to 1,000; 100 if absent. */
  readonly limit?: number;
}

export interface RunFilter extends PageParams {
  readonly status?: RunStatus;
  readonly workflowName?: string;
  readonly parked?: boolean;
  /** Epoch ms; bounds on `createdAt`. */
  readonly createdFrom?: number;
  readonly createdBefore?: number;
}

export interface Runs {
  get(runId: RunId): Promise<RunRow | null>;
  /** Newest first. */
  list(filter?: RunFilter): Promise<Page<RunRow>>;
  /** How many are not over; counts no further than `max`. */
  countOpen(max: number): Promise<number>;
  park(runId: RunId, reason: ParkedReason): Promise<void>;
  /** True if it was parked. */
  unpark(runId: RunId): Promise<boolean>;
  /**
   * Removes up to `limit` runs that finished before that time, with all that belongs to them.
   * Answers how many; fewer than `limit` means that none is left.
   */
  purgeFinished(finishedBefore: number, limit: number): Promise<number>;
}

export interface StepRow {
  readonly stepId: EntityId;
  readonly stepName: string;
  readonly status: "pending" | "running" | "retrying" | "completed" | "failed";
  readonly inline: boolean;
  readonly attempt: number;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly retryAfter: number | null;
}

export interface WaitRow {
  readonly waitId: EntityId;
  readonly status: "waiting" | "completed";
  readonly resumeAt: number;
  readonly createdAt: number;
  readonly completedAt: number | null;
}

export interface HookRow {
  readonly hookId: EntityId;
  readonly runId: RunId;
  readonly tokenHash: string;
  /** Sealed by the tenants' layer on its way in, opened on its way out. */
  readonly token: Payload;
  readonly metadata: Payload | null;
  readonly isWebhook: boolean;
  readonly isSystem: boolean;
  readonly status: "open" | "disposed";
  readonly createdAt: number;
  readonly tokenRetentionUntil: number | null;
  /** The run that a forced creation took the token from. */
  readonly claimedFrom: RunId | null;
}

/** Entities of one run that are not settled, folded by the World without reading the whole log. */
export interface OpenEntities {
  readonly steps: readonly StepRow[];
  readonly waits: readonly WaitRow[];
  readonly hooks: readonly HookRow[];
}

export interface Steps {
  get(runId: RunId, stepId: EntityId): Promise<StepRow | null>;
  list(runId: RunId, params?: PageParams): Promise<Page<StepRow>>;
}

export interface Waits {
  get(runId: RunId, waitId: EntityId): Promise<WaitRow | null>;
  list(runId: RunId, params?: PageParams): Promise<Page<WaitRow>>;
}

export interface Hooks {
  get(runId: RunId, hookId: EntityId): Promise<HookRow | null>;
  /** The open hook that holds the token, whichever of the tenant's runs it is of. */
  getByToken(tokenHash: string): Promise<HookRow | null>;
  list(runId: RunId, params?: PageParams): Promise<Page<HookRow>>;
}

/** A run's newest heap image with its folded log state: a cache, lost without harm. */
export interface StoredSnapshot {
  readonly slot: Slot;
  readonly digest: string;
  /** What the image was made with, 64 hexadecimal digits; the seal is bound to it. */
  readonly fingerprint: string;
  /** Sealed by the sandbox's caller; opaque to the World. */
  readonly bytes: Uint8Array;
}

export interface Snapshots {
  put(runId: RunId, snapshot: StoredSnapshot): Promise<void>;
  get(runId: RunId): Promise<StoredSnapshot | null>;
  delete(runId: RunId): Promise<void>;
  /** Those of all the tenant's runs, the one that was put longest ago first. */
  list(params?: PageParams): Promise<Page<SnapshotSize>>;
}

export interface SnapshotSize {
  readonly runId: RunId;
  readonly bytes: number;
}

/** A bundle as it is stored: named by its hash, never changed. */
export interface StoredBundle {
  readonly hash: BundleHash;
  /** Source of the workflow side, evaluated in heaps. */
  readonly workflowCode: string;
  /** Source of the step side. */
  readonly stepCode: string;
  /** JSON; parsed and checked by its readers. */
  readonly manifest: string;
  /** Source of the guest library that the bundle was admitted with. */
  readonly guestLibrary: string;
  readonly createdAt: number;
}

export interface Bundles {
  /** Stores it, or finds it there already. */
  put(bundle: StoredBundle): Promise<void>;
  get(hash: BundleHash): Promise<StoredBundle | null>;
  /** Newest first, without sources. */
  list(params?: PageParams): Promise<Page<{ hash: BundleHash; createdAt: number }>>;
  /** False if there is none. Refused with `ENTITY_CONFLICT` while an open run is on it. */
  delete(hash: BundleHash): Promise<boolean>;
  setAlias(alias: string, hash: BundleHash): Promise<void>;
  getAlias(alias: string): Promise<BundleHash | null>;
  listAliases(): Promise<readonly { alias: string; hash: BundleHash }[]>;
}

/** Payloads too large to stand in an event. Keys are ours, never a guest's. */
export interface Blobs {
  put(runId: RunId, key: string, bytes: Uint8Array): Promise<void>;
  get(runId: RunId, key: string): Promise<Uint8Array | null>;
  delete(runId: RunId, key: string): Promise<void>;
}

export interface StreamInfo {
  /** Index of the last chunk, -1 while there is none. */
  readonly tailIndex: number;
  /** Of all its chunks together, as they were written. */
  readonly bytes: number;
  readonly done: boolean;
}

export interface StreamPage {
  readonly chunks: readonly Uint8Array[];
  /** The index of the first chunk of the page. */
  readonly startIndex: number;
  /** The stream is closed and this page reaches its end. */
  readonly done: boolean;
}

export interface Streams {
  /** Appends chunks in order; returns the tail index. Refused once closed. */
  write(runId: RunId, name: string, chunks: readonly Uint8Array[]): Promise<number>;
  close(runId: RunId, name: string): Promise<void>;
  getChunks(
    runId: RunId,
    name: string,
    params: { startIndex: number; limit?: number },
  ): Promise<StreamPage>;
  getInfo(runId: RunId, name: string): Promise<StreamInfo | null>;
  list(runId: RunId): Promise<readonly string[]>;
}

/** All of one tenant's data. Cheap to make; does no I/O by itself. */
export interface TenantStore {
  readonly tenantId: TenantId;
  readonly events: Events;
  readonly runs: Runs;
  readonly steps: Steps;
  readonly waits: Waits;
  readonly hooks: Hooks;
  readonly snapshots: Snapshots;
  readonly bundles: Bundles;
  readonly blobs: Blobs;
  readonly streams: Streams;
  /** What is open in a run, without reading its log. */
  openEntities(runId: RunId): Promise<OpenEntities>;
}

/** A tenant's record. `body` is JSON that the tenants' part writes and parses. */
export interface StoredTenant {
  readonly tenantId: TenantId;
  /** Raised by each write; a write names the revision it was made from. */
  readonly revision: number;
  readonly body: string;
}

/** What a World holds of a tenant, counted in its rows. Sizes are of what is stored, sealed. */
export interface StoredUse {
  readonly runs: number;
  readonly openRuns: number;
  readonly events: number;
  readonly eventBytes: number;
  readonly blobBytes: number;
  readonly streamBytes: number;
  readonly snapshotBytes: number;
  readonly bundles: number;
  readonly bundleBytes: number;
}

/** A part of what is held; the parts of all pages are to be added up. */
export interface StoredUsePage {
  readonly use: StoredUse;
  /** Pass it on to go on counting; null: that was all. */
  readonly cursor: string | null;
}

export interface TenantRecords {
  get(tenantId: TenantId): Promise<StoredTenant | null>;
  list(params?: PageParams): Promise<Page<StoredTenant>>;
  /** False if the stored revision is not `expectedRevision` (0: there must be none). */
  put(tenantId: TenantId, body: string, expectedRevision: number): Promise<boolean>;
  /** Counts a bounded part of what is held of the tenant. */
  measure(tenantId: TenantId, cursor?: string): Promise<StoredUsePage>;
  /** What the tenants' part keeps of counted use, beside the record; its own revisions. */
  getUsage(tenantId: TenantId): Promise<StoredTenant | null>;
  /** As `put`; also false if there is no such tenant. */
  putUsage(tenantId: TenantId, body: string, expectedRevision: number): Promise<boolean>;
  /** Removes the record and everything of the tenant. */
  purge(tenantId: TenantId): Promise<void>;
}

export interface Capabilities {
  readonly inBandFence: true;
  readonly maxConcurrency: true;
  /** `events.subscribe` pushes; without it the engine polls. */
  readonly liveFeed: boolean;
  readonly createBatch: true;
  /** Whether other processes may have it open for writing at the same time; absent: they may. */
  readonly isShared?: boolean;
}

/** What survives: a power cut, the death of the process, or nothing. */
export type Durability = "power-loss" | "process-crash" | "none";

export interface World {
  readonly name: string;
  readonly specVersion: number;
  readonly capabilities: Capabilities;
  readonly durability: Durability;
  forTenant(tenantId: TenantId): TenantStore;
  readonly queue: Queue;
  readonly tenants: TenantRecords;
  close(): Promise<void>;
}
