/**
 * What one simulated schedule did, as data: what the oracle judges and a timeline prints.
 *
 * Written by the simulator at the borders of the engine (World calls, deliveries, bodies), never by
 * the engine itself.
 */
import type { RunEvent } from "../../engine/events.ts";
import type { EntityId, RunRef, TenantId } from "../../engine/ids.ts";
import type {
  DeliveryMeta,
  DeliveryResult,
  Message,
  SendOptions,
} from "../../engine/ports/queue.ts";
import type { ParkedReason } from "../../engine/ports/world.ts";
import type { Planned } from "./catalog.ts";

export interface BodyRecord {
  readonly ref: RunRef;
  readonly stepId: EntityId;
  readonly stepName: string;
  readonly label: string;
  /** What its arguments name the tenant by. */
  readonly canary: string;
  readonly attempt: number;
  /** The process that ran it; a restarted one has another name. */
  readonly owner: string;
  readonly startedAtMs: number;
  /** What it began to write to streams, in order; `isLate`: behind its outcome. */
  readonly wrote: { readonly name: string; readonly text: string; readonly isLate: boolean }[];
  /** `cut`: its process died, or the schedule ended, before it did. */
  end: "completed" | "failed" | "aborted" | "interrupted" | "cut";
}

export interface SendRecord {
  readonly message: Message;
  readonly options: SendOptions;
  readonly atMs: number;
  readonly owner: string;
  /** The World has it, whatever the caller was told. */
  readonly isStored: boolean;
}

export interface DeliveryRecord {
  readonly message: Message;
  readonly meta: DeliveryMeta;
  readonly owner: string;
  readonly startedAtMs: number;
  /** Null: it never answered. `rejected`: its handler threw. */
  answer: DeliveryResult | { readonly kind: "rejected"; readonly error: string } | null;
  answeredAtMs: number | null;
}

/** What the simulator knows of a run that it asked for. */
export interface RunRecord {
  readonly ref: RunRef;
  readonly planned: Planned;
  /** A client was told that it began. */
  isAcknowledged: boolean;
  /** Payloads that a client was told are in. */
  readonly resumed: { readonly hook: string; readonly value: string }[];
  cancelAcknowledged: boolean;
  /** Statuses of answers to webhook requests, in order of the requests that were answered. */
  readonly answers: number[];
  /** How many requests it made. */
  requests: number;
  /** What it read live of its run's stream, from the first chunk on. */
  readonly read: string[];
}

export interface FinalRun {
  readonly record: RunRecord;
  /** The whole log as the World holds it at the end; empty if the run was never created. */
  readonly events: readonly RunEvent[];
  readonly counts: { readonly seq: number; readonly seqInBand: number } | null;
  readonly status: string | null;
  readonly parked: ParkedReason | null;
  readonly attributes: Readonly<Record<string, string>>;
  readonly streams: readonly FinalStream[];
  /** What a heap that was fed the whole log, and nothing else, has open; null: not tried. */
  readonly coldReplay: ColdReplay | null;
}

export interface FinalStream {
  readonly name: string;
  readonly tailIndex: number;
  readonly chunks: readonly string[];
}

/** A write of one event that the World took, in the order taken. */
export type Commit = RunEvent;

export type ColdReplay =
  | { readonly kind: "quiet"; readonly open: readonly string[]; readonly isOver: boolean }
  | { readonly kind: "other"; readonly why: string };

export interface Observation {
  readonly seed: string;
  readonly runs: readonly FinalRun[];
  readonly bodies: readonly BodyRecord[];
  readonly sends: readonly SendRecord[];
  readonly deliveries: readonly DeliveryRecord[];
  readonly commits: readonly Commit[];
  /** What lifecycle hooks heard. */
  readonly heard: readonly { readonly runId: string; readonly outcome: string }[];
  /** Calls by name, over all processes. */
  readonly calls: ReadonlyMap<string, number>;
  /** `fault at call`, and how often it was met. */
  readonly faults: ReadonlyMap<string, number>;
  /** Errors of handlers and clients that no fault explains. */
  readonly surprises: readonly string[];
  /** How the schedule ended: `idle` means that nothing was left to happen. */
  readonly ended: "done" | "idle" | "time" | "steps";
  readonly endedAtMs: number;
  /** What each tenant's data is marked with; never to be seen under another tenant. */
  readonly canaries: ReadonlyMap<TenantId, string>;
}
