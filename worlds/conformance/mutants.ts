/**
 * One way to break each guarantee, at least: `npm run conformance -- --mutants` applies each to a
 * copy of the sources and demands that some case of the suite fails.
 *
 * A mutant replaces a text that stands exactly once in its file; one that no longer applies fails
 * the run, so the table cannot rot.
 */

import { QUEUE_MUTANTS } from "./queue-mutants.ts";

export interface Mutant {
  /** The guarantee that it breaks, as numbered in `worlds/world.ts`. */
  readonly breaks: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The World whose cases must notice; memory unless the guarantee needs a store. */
  readonly world?: "memory" | "local";
  /** Part of the name of the groups of cases that must notice. */
  readonly cases: string;
}

const inLog = { cases: "events|paging|report|over|repeated" };

export const MUTANTS: readonly Mutant[] = [
  {
    breaks: "W1",
    file: "worlds/event-record.ts",
    find: "    .update(runId)\n",
    replace: "",
    ...inLog,
  },
  {
    breaks: "W1",
    file: "worlds/event-record.ts",
    find: "Object.keys(items).sort()",
    replace: "Object.keys(items)",
    ...inLog,
  },
  {
    breaks: "W2",
    file: "worlds/append.ts",
    find: "fence.expectedSeqInBand !== run.seqInBand",
    replace: "fence.expectedSeqInBand < run.seqInBand",
    cases: "in-band fence",
  },
  {
    breaks: "W2",
    file: "worlds/append.ts",
    find: "if (fence.expectedSeqInBand === null) {",
    replace: "if (fence.expectedSeqInBand === null && run.seq < 0) {",
    cases: "in-band fence",
  },
  {
    breaks: "W3",
    file: "worlds/event-ledger.ts",
    find: "run.seqInBand + (inBand ? 1 : 0)",
    replace: "run.seqInBand + 1",
    cases: "in-band fence",
  },
  {
    breaks: "W4",
    file: "worlds/event-ledger.ts",
    find: "slot: slotOf(run.seq + 1),",
    replace: "slot: slotOf(run.seq + (run.seq === 3 ? 2 : 1)),",
    ...inLog,
  },
  {
    breaks: "W5",
    file: "worlds/event-ledger.ts",
    find: "hasMore: report.rows.length < skipped,",
    replace: "hasMore: false,",
    ...inLog,
  },
  {
    breaks: "W5",
    file: "worlds/event-ledger.ts",
    find: "afterSlot: positionOf(from ?? 0),",
    replace: "afterSlot: positionOf((from ?? 0) + 1),",
    ...inLog,
  },
  {
    breaks: "W6",
    file: "worlds/event-ledger.ts",
    find: "(inBand ? item.occurredAt : null) ?? request.now",
    replace: "request.now",
    cases: "event time",
  },
  {
    breaks: "W6",
    file: "worlds/event-ledger.ts",
    find: "(inBand ? item.occurredAt : null) ?? request.now",
    replace: "item.occurredAt ?? request.now",
    cases: "event time",
  },
  {
    breaks: "W7",
    file: "worlds/append.ts",
    find: "if (isTerminal(run.status) && REFUSED_ON_TERMINAL_RUN.has(item.eventType)) {",
    replace: "if (run.seq < 0 && REFUSED_ON_TERMINAL_RUN.has(item.eventType)) {",
    ...inLog,
  },
  {
    breaks: "W7",
    file: "worlds/append.ts",
    find: "if (isTerminal(run.status) && REFUSED_ON_TERMINAL_RUN.has(item.eventType)) {",
    replace: "if (isTerminal(run.status)) {",
    ...inLog,
  },
  {
    breaks: "W8",
    file: "worlds/append.ts",
    find: "if (isTerminal(status)) return null;",
    replace: "",
    ...inLog,
  },
  {
    breaks: "W9",
    file: "worlds/event-ledger.ts",
    find: "refused.add(id);",
    replace: "",
    cases: "batches",
  },
  {
    breaks: "W9",
    file: "worlds/border.ts",
    find: "values.length > BATCH_EVENTS_MAX",
    replace: "values.length > BATCH_EVENTS_MAX + 1",
    cases: "batches",
  },
  {
    breaks: "W10",
    file: "worlds/entity-rows.ts",
    find: "if (record !== null && !record.isOpen) return null;",
    replace: "",
    cases: "rows of steps",
  },
  {
    breaks: "W11",
    file: "worlds/row-pages.ts",
    find: "if (found.length < count) return { rows, hasMore: false };",
    replace: "if (found.length < count) return { rows, hasMore: rows.length === limit };",
    ...inLog,
  },
  {
    breaks: "W11",
    file: "worlds/row-ledger.ts",
    find: "if (found.length === limit) return { runs: found, next: from };",
    replace: "if (found.length === limit) return { runs: found, next: null };",
    cases: "runs",
  },
  {
    breaks: "W12",
    file: "worlds/row-ledger.ts",
    find: "this.#tables.cells.removeOwner(tenantId, run.runId);",
    replace: "",
    cases: "removal",
  },
  {
    breaks: "W12",
    file: "worlds/row-ledger.ts",
    find: "this.#tables.messages.removeRun(tenantId, run.runId);",
    replace: "",
    cases: "removal",
  },
  {
    breaks: "W13",
    file: "worlds/cell-ledger.ts",
    find: "if (info.done) {",
    replace: "if (info.tailIndex < -1) {",
    cases: "streams",
  },
  {
    breaks: "W14",
    file: "worlds/cell-ledger.ts",
    find: "if (this.#tables.cells.get(place) !== null) return;",
    replace: "",
    cases: "bundles",
  },
  {
    breaks: "W14",
    file: "worlds/cell-ledger.ts",
    find: "if (this.#rows.hasOpenRunOn(tenantId, hash)) {",
    replace: 'if (hash === ("" as string)) {',
    cases: "bundles",
  },
  {
    breaks: "W15",
    file: "worlds/cell-ledger.ts",
    find: "if ((this.tenant(tenantId)?.revision ?? 0) !== expectedRevision) return false;",
    replace: "",
    cases: "tenants' records",
  },
  {
    breaks: "W16",
    file: "worlds/border.ts",
    find: "if (payloadBytes > EVENT_PAYLOAD_BYTES_MAX) {",
    replace: "if (payloadBytes > EVENT_PAYLOAD_BYTES_MAX + 1) {",
    cases: "limits",
  },
  {
    breaks: "W16",
    file: "worlds/border.ts",
    find: "  checkEntity(event);\n",
    replace: "",
    cases: "hostile ids",
  },
  {
    breaks: "W17",
    file: "worlds/feeds.ts",
    find: "    void this.#catchUp(feed);\n    return () => {",
    replace: "    return () => {",
    cases: "order and completeness",
  },
  {
    breaks: "W17",
    file: "worlds/feeds.ts",
    find: "while (!feed.isOver && feed.position < this.#topOf(feed)) {",
    replace: "if (!feed.isOver && feed.position < this.#topOf(feed)) {",
    cases: "order and completeness",
  },
  {
    breaks: "W18",
    file: "worlds/feeds.ts",
    find: "      feed.onEvent(event);\n    } catch (error) {\n      this.#fail(feed, error);",
    replace: "      feed.onEvent(event);\n    } catch (error) {\n      void error;",
    cases: "the end of a feed",
  },
  {
    breaks: "W19",
    file: "worlds/feeds.ts",
    find: "if (allowed === null || used < allowed) continue;",
    replace: "if (allowed === null || used <= allowed) continue;",
    cases: "caps and heartbeats",
  },
  {
    breaks: "W19",
    file: "worlds/feeds.ts",
    find: "      this.#remove(feed);\n      throw error;",
    replace: "      throw error;",
    cases: "caps and heartbeats",
  },
  ...QUEUE_MUTANTS,
  {
    breaks: "W29",
    file: "worlds/event-ledger.ts",
    find: "this.#tables.resumes.put(tail.run, request.resumeId, row.slot);",
    replace: "",
    ...inLog,
  },
  {
    breaks: "W29",
    file: "worlds/event-ledger.ts",
    find: "if (request.send !== null && tail.allocated > 0) {",
    replace: "if (request.send !== null) {",
    ...inLog,
  },
  {
    breaks: "W30",
    file: "worlds/append.ts",
    find: 'return { kind: "conflict", conflictingRunId: token.runId };',
    replace: 'return { kind: "append" };',
    cases: "hook tokens",
  },
  {
    breaks: "W30",
    file: "worlds/append.ts",
    find: "token.reservedUntil !== null && token.reservedUntil <= now",
    replace: "token.reservedUntil !== null",
    cases: "retention",
  },
  {
    breaks: "W30",
    file: "worlds/event-ledger.ts",
    find: "    this.#queue.wake(run, now);\n",
    replace: "",
    cases: "force-claim",
  },
  {
    breaks: "W30",
    file: "worlds/event-ledger.ts",
    find: "if (held?.runId !== run.runId || held.hookId !== hook.id) return;",
    replace: "",
    cases: "hook tokens",
  },
  {
    breaks: "W31",
    file: "worlds/message-border.ts",
    find: "if (tenantId === run.tenantId && runId === run.runId) return checked;",
    replace: "if (runId === run.runId) return checked;",
    cases: "walls",
  },
  {
    breaks: "W31",
    file: "worlds/queue-rows.ts",
    find: "return `${tenantId}/${runId}`;",
    replace: "return `${tenantId.length}/${runId}`;",
    cases: "walls",
  },
  {
    breaks: "W31",
    file: "worlds/feeds.ts",
    find: "return `${tenantId}/${runId}`;",
    replace: "return `${tenantId.length}/${runId}`;",
    cases: "walls",
  },
  {
    breaks: "W31",
    file: "worlds/memory/memory-messages.ts",
    find: "return `${tenantId}/${runId}/${key}`;",
    replace: "return `${tenantId.length}/${runId}/${key}`;",
    cases: "walls",
  },
  {
    breaks: "W32",
    file: "worlds/local/sqlite-thread.entry.ts",
    find: 'database.exec("COMMIT");',
    replace: 'database.exec("ROLLBACK");',
    world: "local",
    cases: "what was answered",
  },
  {
    breaks: "W33",
    file: "worlds/local/sqlite-thread.entry.ts",
    find: "database.transaction(() => handle.ledger.queue.recover(now))();",
    replace: "void now;",
    world: "local",
    cases: "dead process",
  },
  {
    breaks: "W33",
    file: "worlds/queue-rows.ts",
    find: "return { ...row, isClaimed: true, deliveryCount: row.deliveryCount + 1 };",
    replace: "return { ...row, isClaimed: false, deliveryCount: row.deliveryCount + 1 };",
    world: "local",
    cases: "dead process",
  },
];
