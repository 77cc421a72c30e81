/**
 * Appends and reads of logs over any tables. Synchronous: one call is one atomic step.
 *
 * Owns slots, digests and the counts, and carries out what `append.ts` decides: the event, the rows
 * it folds into, the token it takes or frees, and the message it implies, in one transaction.
 *
 * W4  Slots are dense: an accepted event has slot `seq + 1`, and a refusal leaves no hole.
 * W5  An in-band answer reports every event between `eventCount` and its own slot, or `hasMore`.
 * W6  An in-band event, and the run's creation, is stored under its `occurredAt`.
 * W8  A run's status follows its first terminal event, by slot.
 */
import { assert, assertNever, present } from "../engine/assert.ts";
import { BatonError } from "../engine/errors.ts";
import { IN_BAND_SEQ_AT_RUN_CREATION, SPEC_VERSION } from "../engine/events.ts";
import type { EntityId, RunId, RunRef } from "../engine/ids.ts";
import type { Slot } from "../engine/slots.ts";
import { positionOf, slotOf } from "../engine/slots.ts";
import type { AppendItem, Surroundings, Verdict } from "./append.ts";
import {
  earlierItemRefusal,
  fenceRefusal,
  isTerminal,
  verdictOn,
  versionRefusal,
} from "./append.ts";
import { crossing } from "./crossing.ts";
import { closedHook, foldedEntity, newHook } from "./entity-rows.ts";
import type { EventRow, PackedRows } from "./event-record.ts";
import { EMPTY_DIGEST, joinRows, nextDigest, packRow, rowOf } from "./event-record.ts";
import type { QueueLedger } from "./queue-ledger.ts";
import type {
  AppendAnswer,
  AppendRequest,
  Appended,
  ListAnswer,
  StoredItem,
} from "./ledger-answers.ts";
import { rowsUpTo } from "./row-pages.ts";
import { conflictItem, itemOf, newRun, runChange, tokenOf } from "./run-rows.ts";
import type { HookRecord, RunRecord, Tables, TokenRecord } from "./tables.ts";

/** A skipped-slot report holds at most so many events and bytes; the rest is `hasMore`. */
const REPORT_EVENTS_MAX = 1_000;
const REPORT_BYTES_MAX = 1024 * 1024;
/** A page of a log ends here, however few events that are. */
const PAGE_BYTES_MAX = 8 * 1024 * 1024;

/** The tail of a run while a write is being carried out. */
interface Tail {
  run: RunRecord;
  allocated: number;
  readonly fresh: PackedRows[];
}

export class EventLedger {
  readonly #tables: Tables;
  readonly #queue: QueueLedger;
  readonly #watched = new Map<string, number>();
  #appended: Appended[] = [];

  constructor(tables: Tables, queue: QueueLedger) {
    this.#tables = tables;
    this.#queue = queue;
  }

  /** One event. A refusal is thrown, and has written nothing. */
  create(request: AppendRequest): AppendAnswer {
    const { tail, base } = this.#admitted(request);
    const item = present(request.items[0], "a write has an event");
    const verdict = this.#verdict(tail.run, item, request);
    if (verdict.kind === "refuse") throw verdict.error;
    const stored = this.#carryOut(tail, item, verdict, request);
    if (request.send !== null && tail.allocated > 0) {
      this.#queue.sendAll([request.send], request.now);
    }
    return this.#answer(tail, base, [stored], request);
  }

  /** Step and wait events as one block; each item has its own outcome. */
  createBatch(request: AppendRequest): AppendAnswer {
    const { tail, base } = this.#admitted(request);
    const refused = new Set<EntityId>();
    const items: StoredItem[] = [];
    for (const item of request.items) {
      const id = present(item.correlationId, "a batch holds step and wait events only");
      const verdict: Verdict = refused.has(id)
        ? { kind: "refuse", error: earlierItemRefusal(id) }
        : this.#verdict(tail.run, item, request);
      if (verdict.kind === "refuse") {
        refused.add(id);
        items.push({ kind: "refused", refusal: crossing(verdict.error) });
      } else {
        items.push(this.#carryOut(tail, item, verdict, request));
      }
    }
    return this.#answer(tail, base, items, request);
  }

  list(
    place: RunRef & { afterSlot: Slot; limit: number; correlationId: EntityId | null },
  ): ListAnswer {
    const run = this.#tables.runs.get(place.tenantId, place.runId);
    if (run === null) throw runNotFound();
    const { afterSlot, limit, correlationId } = place;
    const { events } = this.#tables;
    const page = rowsUpTo(
      (after, count) =>
        correlationId === null
          ? events.range(run, after, count)
          : events.ofEntity(run, correlationId, after, count),
      { afterSlot, limit, bytesMax: PAGE_BYTES_MAX },
    );
    return {
      rows: joinRows(page.rows),
      hasMore: page.hasMore,
      snapshot: { seq: run.seq, seqInBand: run.seqInBand },
      digestBefore: this.#digestAt(run, afterSlot),
    };
  }

  #digestAt(run: RunRecord, slot: Slot): Uint8Array | null {
    if (slot === 0) return EMPTY_DIGEST;
    const row = this.#tables.events.get(run, slot);
    return row === null ? null : new Uint8Array(rowOf(row).digest);
  }

  /** Packed; empty if there is none. */
  get(place: RunRef & { slot: Slot }): PackedRows {
    const run = this.#tables.runs.get(place.tenantId, place.runId);
    const row = run === null ? null : this.#tables.events.get(run, place.slot);
    return row ?? joinRows([]);
  }

  /** From now on new events of the run are put out. Answers its top slot. */
  watch(place: RunRef): Slot {
    const run = this.#tables.runs.get(place.tenantId, place.runId);
    if (run === null) throw runNotFound();
    const key = watchKey(place);
    this.#watched.set(key, (this.#watched.get(key) ?? 0) + 1);
    return positionOf(run.seq);
  }

  unwatch(place: RunRef): void {
    const key = watchKey(place);
    const watchers = (this.#watched.get(key) ?? 0) - 1;
    if (watchers > 0) this.#watched.set(key, watchers);
    else this.#watched.delete(key);
  }

  /** What was appended to watched runs since the last call. Only after a commit. */
  takeAppended(): readonly Appended[] {
    if (this.#appended.length === 0) return [];
    const taken = this.#appended;
    this.#appended = [];
    return taken;
  }

  /** The transaction failed: nothing of it was appended. */
  dropAppended(): void {
    this.#appended = [];
  }

  /** The run, if this writer may write to it now; `run_created` makes it. */
  #admitted(request: AppendRequest): { tail: Tail; base: number } {
    const { tenantId, runId, fence, items, now } = request;
    const stored = this.#tables.runs.get(tenantId, runId);
    const [first] = items;
    if (stored === null && first?.eventType !== "run_created") {
      // A missing count is the caller's fault whatever run it names.
      const refusal = fenceRefusal({ seq: 0, seqInBand: fence.expectedSeqInBand ?? 0 }, fence);
      if (refusal?.code === "IN_BAND_COUNT_MISSING") throw refusal;
      throw runNotFound();
    }
    const run = stored ?? newRun(tenantId, runId, present(first, "a write has an event"), now);
    const refusal = fenceRefusal(run, fence) ?? versionRefusal(run.specVersion);
    if (refusal !== null) throw refusal;
    for (const item of items) {
      const refusal = versionRefusal(item.specVersion);
      if (refusal !== null) throw refusal;
    }
    return { tail: { run, allocated: 0, fresh: [] }, base: run.seq };
  }

  #verdict(run: RunRecord, item: AppendItem, request: AppendRequest): Verdict {
    if (run.seq === 0) return { kind: "append" };
    const { resumeId, now, fence } = request;
    const resumedAt = resumeId === null ? null : this.#tables.resumes.get(run, resumeId);
    const around: Surroundings = { hook: null, token: null, resumedAt, now };
    const id = item.correlationId;
    if (id === null || !item.eventType.startsWith("hook_")) {
      return verdictOn(run, item, fence, around);
    }
    const entity = this.#tables.entities.get(run, id);
    const hook = entity?.kind === "hook" ? entity : null;
    const token =
      item.eventType === "hook_created" && hook === null
        ? this.#tables.tokens.get(run.tenantId, item.plain["tokenHash"] as string)
        : null;
    return verdictOn(run, item, fence, { ...around, hook, token });
  }

  #carryOut(tail: Tail, item: AppendItem, verdict: Verdict, request: AppendRequest): StoredItem {
    switch (verdict.kind) {
      case "converge": {
        const row = this.#tables.events.get(tail.run, verdict.slot);
        const { slot, createdAt, digest, body } = rowOf(
          present(row, "what a write converges on exists"),
        );
        return { kind: "stored", slot, createdAt, digest, body };
      }
      case "conflict": {
        const conflict = conflictItem(item, verdict.conflictingRunId);
        const row = this.#push(tail, conflict, request);
        this.#tables.entities.put(tail.run, newHook(item, row, "conflict", null));
        return { ...row, kind: "stored" };
      }
      case "claim":
        this.#disposeVictim(verdict.victim, tail.run, request.now);
        return this.#accept(tail, item, request, verdict.victim.runId);
      case "append":
        return this.#accept(tail, item, request, null);
      case "refuse":
        throw verdict.error;
      default:
        return assertNever(verdict);
    }
  }

  #accept(
    tail: Tail,
    item: AppendItem,
    request: AppendRequest,
    claimedFrom: RunId | null,
  ): StoredItem {
    const row = this.#push(tail, item, request);
    this.#foldEntity(tail.run, item, row, claimedFrom);
    if (request.resumeId !== null) {
      this.#tables.resumes.put(tail.run, request.resumeId, row.slot);
    }
    return { ...row, kind: "stored", body: null };
  }

  /** Takes the next slot. The run's row is written once, at the end of the write. */
  #push(tail: Tail, item: AppendItem, request: Pick<AppendRequest, "fence" | "now">): EventRow {
    const { run } = tail;
    const isCreation = run.seq === 0;
    const inBand = request.fence.inBand || isCreation;
    const place = {
      slot: slotOf(run.seq + 1),
      createdAt: (inBand ? item.occurredAt : null) ?? request.now,
      body: item.body,
    };
    const row = { ...place, digest: nextDigest(run.digest, run.runId, place) };
    const packed = packRow(row);
    const moved = {
      ...run,
      ...runChange(run, item, row.createdAt),
      createdAt: isCreation ? row.createdAt : run.createdAt,
      seq: row.slot,
      seqInBand: isCreation ? IN_BAND_SEQ_AT_RUN_CREATION : run.seqInBand + (inBand ? 1 : 0),
      bytes: run.bytes + packed.length,
      digest: row.digest,
    };
    tail.run = isCreation ? this.#tables.runs.insert(moved) : moved;
    this.#tables.events.insert(tail.run, row.slot, packed, item.correlationId);
    if (!isTerminal(run.status) && isTerminal(moved.status)) this.#releaseHooks(tail.run);
    tail.allocated++;
    tail.fresh.push(packed);
    return row;
  }

  #foldEntity(run: RunRecord, item: AppendItem, row: EventRow, claimedFrom: RunId | null): void {
    const id = item.correlationId;
    if (id === null || item.eventType === "attr_set") return;
    const { entities, tokens } = this.#tables;
    if (item.eventType === "hook_created") {
      const isOver = isTerminal(run.status);
      const hook = newHook(item, row, isOver ? "disposed" : "open", claimedFrom);
      entities.put(run, hook);
      if (!isOver) tokens.put(tokenOf(run, hook, null));
      return;
    }
    if (item.eventType === "hook_received") return;
    const before = entities.get(run, id);
    const after = foldedEntity(before, item, row);
    if (after !== null) entities.put(run, after);
    // A disposal frees the token at once, a retained one too.
    if (item.eventType === "hook_disposed" && before?.kind === "hook") {
      this.#freeToken(run, before);
    }
  }

  #freeToken(run: RunRecord, hook: HookRecord): void {
    const held = this.#tables.tokens.get(run.tenantId, hook.body.tokenHash);
    if (held?.runId !== run.runId || held.hookId !== hook.id) return;
    this.#tables.tokens.delete(run.tenantId, hook.body.tokenHash);
  }

  /** A run's end closes its hooks; a retained token stays taken until its time. */
  #releaseHooks(run: RunRecord): void {
    for (const entity of this.#tables.entities.open(run)) {
      if (entity.kind !== "hook") continue;
      this.#tables.entities.put(run, closedHook(entity, null));
      const until = entity.body.tokenRetentionUntil;
      if (until === null) this.#freeToken(run, entity);
      else this.#tables.tokens.put(tokenOf(run, entity, until));
    }
  }

  /**
   * The victim's log says who took its token, and the victim is woken, in the same transaction: no
   * claimer can die in between. A token that only stays reserved has no run left to tell.
   */
  #disposeVictim(victim: TokenRecord, claimer: RunRecord, now: number): void {
    if (victim.reservedUntil !== null) return;
    const run = present(
      this.#tables.runs.get(victim.tenantId, victim.runId),
      "an open hook has a run",
    );
    const tail: Tail = { run, allocated: 0, fresh: [] };
    const item = itemOf({
      eventType: "hook_disposed",
      eventData: { forceClaimedBy: claimer.runId },
      correlationId: victim.hookId,
      specVersion: SPEC_VERSION,
    });
    const fence = { inBand: false, expectedSeqInBand: null, eventCount: null };
    const row = this.#push(tail, item, { fence, now });
    this.#foldEntity(tail.run, item, row, null);
    this.#finish(tail);
    this.#queue.wake(run, now);
  }

  #finish(tail: Tail): void {
    if (tail.allocated === 0) return;
    this.#tables.runs.update(tail.run);
    if (!this.#watched.has(watchKey(tail.run))) return;
    const { tenantId, runId, seq } = tail.run;
    this.#appended.push({ tenantId, runId, rows: joinRows(tail.fresh), topSlot: slotOf(seq) });
  }

  #answer(
    tail: Tail,
    base: number,
    items: readonly StoredItem[],
    request: AppendRequest,
  ): AppendAnswer {
    this.#finish(tail);
    const from = request.fence.eventCount;
    const skipped = request.fence.inBand && from !== null ? base - from : 0;
    assert(skipped >= 0, "a report covers events that exist");
    const report = rowsUpTo((after, count) => this.#tables.events.range(tail.run, after, count), {
      afterSlot: positionOf(from ?? 0),
      limit: Math.min(skipped, REPORT_EVENTS_MAX),
      bytesMax: REPORT_BYTES_MAX,
    });
    return {
      items,
      allocated: tail.allocated,
      report: joinRows(report.rows),
      hasMore: report.rows.length < skipped,
    };
  }
}

function watchKey({ tenantId, runId }: RunRef): string {
  return `${tenantId}/${runId}`;
}

export function runNotFound(): BatonError {
  return new BatonError("RUN_NOT_FOUND", "the tenant has no run of this id", { field: "runId" });
}
