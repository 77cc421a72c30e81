/**
 * The ledger's tables in maps: the reference that the other Worlds are held against.
 *
 * Owns isolation in memory: bytes and messages are copied in, rows are immutable.
 */
import type { BundleHash, EntityId, RunId, TenantId } from "../../engine/ids.ts";
import type { Slot } from "../../engine/slots.ts";
import type { PackedRows } from "../event-record.ts";
import type {
  Cell,
  CellPlace,
  CellSize,
  CellSum,
  CellTable,
  EntityRecord,
  EntityTable,
  EventTable,
  ResumeTable,
  RunPosition,
  RunRecord,
  RunTable,
  Tables,
  TokenRecord,
  TokenTable,
} from "../tables.ts";
import { MemoryMessages } from "./memory-messages.ts";

/** All that lives and dies with a run. */
interface RunData {
  readonly events: PackedRows[];
  readonly eventsOf: Map<EntityId, Slot[]>;
  readonly entities: Map<EntityId, EntityRecord>;
  readonly open: Map<EntityId, EntityRecord>;
  readonly resumes: Map<string, Slot>;
}

export function memoryTables(): Tables {
  const data = new Map<number, RunData>();
  return {
    runs: new MemoryRuns(data),
    events: eventTable(data),
    entities: entityTable(data),
    tokens: new MemoryTokens(),
    resumes: resumeTable(data),
    cells: new MemoryCells(),
    messages: new MemoryMessages(),
  };
}

class MemoryRuns implements RunTable {
  readonly #data: Map<number, RunData>;
  readonly #byTenant = new Map<TenantId, Map<RunId, RunRecord>>();
  #nextKey = 1;

  constructor(data: Map<number, RunData>) {
    this.#data = data;
  }

  get(tenantId: TenantId, runId: RunId): RunRecord | null {
    return this.#byTenant.get(tenantId)?.get(runId) ?? null;
  }

  insert(run: Omit<RunRecord, "key">): RunRecord {
    const stored = { ...run, key: this.#nextKey++ };
    this.#data.set(stored.key, {
      events: [],
      eventsOf: new Map(),
      entities: new Map(),
      open: new Map(),
      resumes: new Map(),
    });
    this.update(stored);
    return stored;
  }

  update(run: RunRecord): void {
    const runs = this.#byTenant.get(run.tenantId) ?? new Map<RunId, RunRecord>();
    runs.set(run.runId, run);
    this.#byTenant.set(run.tenantId, runs);
  }

  scan(tenantId: TenantId, below: RunPosition | null, limit: number): RunRecord[] {
    return [...(this.#byTenant.get(tenantId)?.values() ?? [])]
      .filter((run) => below === null || comparePlaces(run, below) < 0)
      .sort((a, b) => comparePlaces(b, a))
      .slice(0, limit);
  }

  finishedBefore(tenantId: TenantId, time: number, limit: number): RunRecord[] {
    return [...(this.#byTenant.get(tenantId)?.values() ?? [])]
      .filter((run) => run.completedAt !== null && run.completedAt < time)
      .slice(0, limit);
  }

  hasOpenOn(tenantId: TenantId, deploymentId: BundleHash): boolean {
    const runs = [...(this.#byTenant.get(tenantId)?.values() ?? [])];
    return runs.some((run) => run.completedAt === null && run.deploymentId === deploymentId);
  }

  countOpen(tenantId: TenantId, max: number): number {
    let open = 0;
    for (const run of this.#byTenant.get(tenantId)?.values() ?? []) {
      if (run.completedAt === null && ++open >= max) break;
    }
    return Math.min(open, max);
  }

  remove(run: RunRecord): void {
    this.#byTenant.get(run.tenantId)?.delete(run.runId);
    this.#data.delete(run.key);
  }

  removeTenant(tenantId: TenantId): void {
    for (const run of this.#byTenant.get(tenantId)?.values() ?? []) this.#data.delete(run.key);
    this.#byTenant.delete(tenantId);
  }
}

function eventTable(data: ReadonlyMap<number, RunData>): EventTable {
  return {
    insert: (run, slot, row, correlationId) => {
      const kept = dataOf(data, run);
      kept.events.push(row);
      if (correlationId === null) return;
      const slots = kept.eventsOf.get(correlationId) ?? [];
      slots.push(slot);
      kept.eventsOf.set(correlationId, slots);
    },
    get: (run, slot) => dataOf(data, run).events[slot - 1] ?? null,
    range: (run, afterSlot, limit) => dataOf(data, run).events.slice(afterSlot, afterSlot + limit),
    ofEntity: (run, id, afterSlot, limit) => {
      const { events, eventsOf } = dataOf(data, run);
      return (eventsOf.get(id) ?? [])
        .filter((slot) => slot > afterSlot)
        .slice(0, limit)
        .flatMap((slot) => events[slot - 1] ?? []);
    },
  };
}

function entityTable(data: ReadonlyMap<number, RunData>): EntityTable {
  return {
    get: (run, id) => dataOf(data, run).entities.get(id) ?? null,
    put: (run, record) => {
      const { entities, open } = dataOf(data, run);
      entities.set(record.id, record);
      if (record.isOpen) open.set(record.id, record);
      else open.delete(record.id);
    },
    open: (run) => [...dataOf(data, run).open.values()].sort((a, b) => a.slot - b.slot),
    list: (run, kind, afterSlot, limit) =>
      [...dataOf(data, run).entities.values()]
        .filter((record) => record.kind === kind && record.slot > afterSlot)
        .sort((a, b) => a.slot - b.slot)
        .slice(0, limit),
  };
}

function resumeTable(data: ReadonlyMap<number, RunData>): ResumeTable {
  return {
    get: (run, resumeId) => dataOf(data, run).resumes.get(resumeId) ?? null,
    put: (run, resumeId, slot) => {
      dataOf(data, run).resumes.set(resumeId, slot);
    },
  };
}

class MemoryTokens implements TokenTable {
  readonly #tokens = new Map<TenantId, Map<string, TokenRecord>>();

  get(tenantId: TenantId, tokenHash: string): TokenRecord | null {
    return this.#tokens.get(tenantId)?.get(tokenHash) ?? null;
  }

  put(record: TokenRecord): void {
    const tokens = this.#tokens.get(record.tenantId) ?? new Map<string, TokenRecord>();
    tokens.set(record.tokenHash, record);
    this.#tokens.set(record.tenantId, tokens);
  }

  delete(tenantId: TenantId, tokenHash: string): void {
    this.#tokens.get(tenantId)?.delete(tokenHash);
  }

  removeTenant(tenantId: TenantId): void {
    this.#tokens.delete(tenantId);
  }
}

/** Cells by tenant, then owner, then space and name; each a sparse list by index. */
class MemoryCells implements CellTable {
  readonly #tenants = new Map<string, Map<string, Map<string, Map<number, Cell>>>>();
  /** When each first cell of a name was put where none was. */
  readonly #orders = new WeakMap<Map<number, Cell>, number>();
  #lastOrder = 0;

  get(place: CellPlace): Cell | null {
    return this.#list(place)?.get(place.index) ?? null;
  }

  put(place: CellPlace, { head, bytes }: Cell): void {
    const owners = this.#tenants.get(place.tenantId) ?? new Map();
    const names = owners.get(place.owner) ?? new Map<string, Map<number, Cell>>();
    const list = names.get(nameKey(place)) ?? new Map<number, Cell>();
    if (list.size === 0) this.#orders.set(list, ++this.#lastOrder);
    list.set(place.index, { head, bytes: bytes === null ? null : new Uint8Array(bytes) });
    names.set(nameKey(place), list);
    owners.set(place.owner, names);
    this.#tenants.set(place.tenantId, owners);
  }

  delete(place: CellPlace): boolean {
    const list = this.#list(place);
    const existed = list?.delete(place.index) ?? false;
    if (list?.size === 0) {
      this.#tenants.get(place.tenantId)?.get(place.owner)?.delete(nameKey(place));
    }
    return existed;
  }

  range(place: CellPlace, limit: number): Cell[] {
    const list = this.#list(place);
    const cells: Cell[] = [];
    for (let index = place.index; cells.length < limit; index++) {
      const cell = list?.get(index);
      if (cell === undefined) break;
      cells.push(cell);
    }
    return cells;
  }

  names(place: CellPlace, limit: number): { name: string; head: string }[] {
    const names = this.#tenants.get(place.tenantId)?.get(place.owner) ?? new Map();
    const prefix = `${place.space}/`;
    return [...names.entries()]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, list]) => ({ name: key.slice(prefix.length), head: list.get(0)?.head ?? "" }))
      .filter(({ name }) => byteOrder(name, place.name) > 0)
      .sort((a, b) => byteOrder(a.name, b.name))
      .slice(0, limit);
  }

  sizes(tenantId: TenantId, space: CellPlace["space"], after: number, limit: number): CellSize[] {
    const found: CellSize[] = [];
    for (const [owner, names] of this.#tenants.get(tenantId) ?? []) {
      for (const [key, list] of names) {
        const order = this.#orders.get(list) ?? 0;
        if (!key.startsWith(`${space}/`) || order <= after) continue;
        for (const { bytes } of list.values()) {
          found.push({ owner, order, bytes: bytes?.length ?? 0 });
        }
      }
    }
    return found.sort((a, b) => a.order - b.order).slice(0, limit);
  }

  sums(tenantId: TenantId, owner: string): CellSum[] {
    const bySpace = new Map<CellPlace["space"], CellSum>();
    const lists: Iterable<[string, Map<number, Cell>]> =
      this.#tenants.get(tenantId)?.get(owner) ?? new Map<string, Map<number, Cell>>();
    for (const [key, list] of lists) {
      const space = key.slice(0, key.indexOf("/")) as CellPlace["space"];
      const known = bySpace.get(space) ?? { space, count: 0, bytes: 0 };
      const bytes = [...list.values()].reduce((sum, cell) => sum + (cell.bytes?.length ?? 0), 0);
      bySpace.set(space, { space, count: known.count + list.size, bytes: known.bytes + bytes });
    }
    return [...bySpace.values()];
  }

  removeOwner(tenantId: TenantId, owner: string): void {
    this.#tenants.get(tenantId)?.delete(owner);
  }

  removeTenant(tenantId: TenantId): boolean {
    this.#tenants.delete(tenantId);
    return false;
  }

  #list(place: CellPlace): Map<number, Cell> | undefined {
    return this.#tenants.get(place.tenantId)?.get(place.owner)?.get(nameKey(place));
  }
}

function nameKey({ space, name }: CellPlace): string {
  return `${space}/${name}`;
}

/** As SQLite orders text: by its UTF-8 bytes. */
function byteOrder(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function comparePlaces(a: RunPosition, b: RunPosition): number {
  return a.createdAt - b.createdAt || (a.runId < b.runId ? -1 : a.runId > b.runId ? 1 : 0);
}

function dataOf(data: ReadonlyMap<number, RunData>, run: RunRecord): RunData {
  const found = data.get(run.key);
  if (found === undefined) throw new Error("a run that is read has data");
  return found;
}
