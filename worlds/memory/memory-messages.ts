/**
 * The queue's table in memory: by id, by key, and waiting messages by kind, tenant and due time.
 */
import type { MessageId, RunId, TenantId } from "../../engine/ids.ts";
import type { Message } from "../../engine/ports/queue.ts";
import type { MessageKind, MessageRow, MessageTable } from "../tables.ts";

/** A row with its place among equals: messages due at one time go in the order they were sent. */
interface Waiting {
  readonly row: MessageRow;
  readonly order: number;
}

export class MemoryMessages implements MessageTable {
  readonly #rows = new Map<MessageId, Waiting>();
  readonly #byKey = new Map<string, MessageId>();
  /** Unclaimed rows of each kind and tenant, sorted by due time. */
  readonly #waiting = new Map<MessageKind, Map<TenantId, Waiting[]>>([
    ["orchestrator", new Map()],
    ["step", new Map()],
  ]);
  #nextOrder = 0;

  get(messageId: MessageId): MessageRow | null {
    return this.#rows.get(messageId)?.row ?? null;
  }

  byKey(tenantId: TenantId, runId: RunId, key: string): MessageRow | null {
    const messageId = this.#byKey.get(scoped(tenantId, runId, key));
    return messageId === undefined ? null : this.get(messageId);
  }

  insert(row: MessageRow): void {
    const own = { ...row, message: structuredClone(row.message) };
    this.#place({ row: own, order: this.#nextOrder++ });
    const { message, key } = own;
    if (key !== null) this.#byKey.set(scoped(message.tenantId, message.runId, key), row.messageId);
  }

  update(row: MessageRow): void {
    const old = this.#rows.get(row.messageId);
    if (old === undefined) return;
    this.#unplace(old);
    this.#place({ row: { ...row, message: old.row.message }, order: old.order });
  }

  delete(messageId: MessageId): void {
    const old = this.#rows.get(messageId);
    if (old === undefined) return;
    this.#unplace(old);
    this.#rows.delete(messageId);
    const { message, key } = old.row;
    if (key !== null) this.#byKey.delete(scoped(message.tenantId, message.runId, key));
  }

  tenantWithDue(kind: MessageKind, after: string, now: number): TenantId | null {
    let first: TenantId | null = null;
    for (const [tenantId, waiting] of this.#tenantsOf(kind)) {
      const isDue = (waiting[0]?.row.dueAt ?? Number.POSITIVE_INFINITY) <= now;
      if (isDue && tenantId > after && (first === null || tenantId < first)) first = tenantId;
    }
    return first;
  }

  firstDue(kind: MessageKind, tenantId: TenantId, now: number): MessageRow | null {
    const first = this.#tenantsOf(kind).get(tenantId)?.[0]?.row;
    return first !== undefined && first.dueAt <= now ? first : null;
  }

  nextDueAt(now: number): number | null {
    let next: number | null = null;
    for (const tenants of this.#waiting.values()) {
      for (const waiting of tenants.values()) {
        const later = waiting[placeIn(waiting, { dueAt: now, order: Number.POSITIVE_INFINITY })];
        if (later !== undefined && (next === null || later.row.dueAt < next)) {
          next = later.row.dueAt;
        }
      }
    }
    return next;
  }

  releaseClaimed(now: number): void {
    for (const { row } of this.#rows.values()) {
      if (row.isClaimed) this.update({ ...row, isClaimed: false, dueAt: now });
    }
  }

  removeRun(tenantId: TenantId, runId: RunId): void {
    this.#removeWhere((message) => message.tenantId === tenantId && message.runId === runId);
  }

  removeTenant(tenantId: TenantId): void {
    this.#removeWhere((message) => message.tenantId === tenantId);
  }

  #removeWhere(isGone: (message: Message) => boolean): void {
    for (const { row } of this.#rows.values()) {
      if (isGone(row.message)) this.delete(row.messageId);
    }
  }

  #place(entry: Waiting): void {
    const { row } = entry;
    this.#rows.set(row.messageId, entry);
    if (row.isClaimed) return;
    const tenants = this.#tenantsOf(row.message.kind);
    const waiting = tenants.get(row.message.tenantId) ?? [];
    waiting.splice(placeIn(waiting, { dueAt: row.dueAt, order: entry.order }), 0, entry);
    tenants.set(row.message.tenantId, waiting);
  }

  #unplace(entry: Waiting): void {
    const { row } = entry;
    if (row.isClaimed) return;
    const tenants = this.#tenantsOf(row.message.kind);
    const waiting = tenants.get(row.message.tenantId) ?? [];
    waiting.splice(placeIn(waiting, { dueAt: row.dueAt, order: entry.order }), 1);
    if (waiting.length === 0) tenants.delete(row.message.tenantId);
  }

  #tenantsOf(kind: MessageKind): Map<TenantId, Waiting[]> {
    const tenants = this.#waiting.get(kind);
    if (tenants === undefined) throw new Error("there is a table for each kind");
    return tenants;
  }
}

/** Where an entry of this time and order stands, or would stand. */
function placeIn(waiting: readonly Waiting[], place: { dueAt: number; order: number }): number {
  let low = 0;
  let high = waiting.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { row, order } = waiting[middle] as Waiting;
    const isBelow = row.dueAt < place.dueAt || (row.dueAt === place.dueAt && order < place.order);
    if (isBelow) low = middle + 1;
    else high = middle;
  }
  return low;
}

function scoped(tenantId: TenantId, runId: RunId, key: string): string {
  return `${tenantId}/${runId}/${key}`;
}
