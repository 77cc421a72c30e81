/**
 * Which thread a step's body gets. Step heaps cannot be resumed, so they have threads of their own,
 * and who shares one decides whose bodies a kill interrupts. Pure but for starting threads.
 *
 * S20  A body that is to be alone shares its thread with no other tenant, from its first instant to
 *     its last.
 * S21  Waiting tenants take turns, and no tenant's bodies that are to be alone hold more than half
 *     of the threads; all tenants' together leave one for the others.
 */
import { assert, present } from "../engine/assert.ts";
import type { TenantId } from "../engine/ids.ts";

export interface StepThreadsParts<T> {
  readonly threadsMax: number;
  readonly start: () => T;
}

/** A body's place on a thread. */
export interface Seat<T> {
  readonly thread: T;
  leave(): void;
}

interface Crew<T> {
  readonly thread: T;
  /** Bodies by tenant. */
  readonly bodies: Map<TenantId, number>;
  /** Bodies that are to be alone; then `bodies` has one tenant. */
  loneCount: number;
  /** Takes nobody else until this tenant's body has come: otherwise it might never be empty. */
  heldFor: TenantId | null;
  /** Whose bundle its images may be of. */
  lastTenant: TenantId | null;
}

interface Request<T> {
  readonly isAlone: boolean;
  readonly resolve: (seat: Seat<T> | null) => void;
}

export class StepThreads<T> {
  readonly #threadsMax: number;
  readonly #startThread: () => T;
  readonly #crews = new Map<T, Crew<T>>();
  /** In the order of their turns. */
  readonly #waiting = new Map<TenantId, Request<T>[]>();

  constructor({ threadsMax, start }: StepThreadsParts<T>) {
    assert(threadsMax > 0, "there is a thread for steps");
    this.#threadsMax = threadsMax;
    this.#startThread = start;
  }

  get threads(): readonly T[] {
    return [...this.#crews.keys()];
  }

  /** Waits until there is a thread that the body may be on; null: it was closed meanwhile. */
  take(tenantId: TenantId, isAlone: boolean): Promise<Seat<T> | null> {
    return new Promise((resolve) => {
      const queue = this.#waiting.get(tenantId) ?? [];
      queue.push({ isAlone, resolve });
      this.#waiting.set(tenantId, queue);
      this.#seatAll();
    });
  }

  /** The thread is gone, with all bodies on it. */
  forget(thread: T): void {
    if (this.#crews.delete(thread)) this.#seatAll();
  }

  /** Whoever waits is told that there is nothing to wait for. */
  close(): void {
    const requests = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const { resolve } of requests) resolve(null);
  }

  #seatAll(): void {
    for (let seated = true; seated;) {
      seated = false;
      // A snapshot of the turns: who was seated goes to the end.
      for (const tenantId of Array.from(this.#waiting.keys())) {
        const queue = present(this.#waiting.get(tenantId), "who waits has a queue");
        const request = present(queue[0], "a waiting tenant waits for something");
        const crew = this.#crewFor(tenantId, request.isAlone);
        if (crew === null) continue;
        seated = true;
        queue.shift();
        this.#waiting.delete(tenantId);
        if (queue.length > 0) this.#waiting.set(tenantId, queue);
        request.resolve(this.#seat(crew, tenantId, request.isAlone));
      }
    }
  }

  /** Null: the body waits. An idle thread first, then a new one, then the one with the fewest. */
  #crewFor(tenantId: TenantId, isAlone: boolean): Crew<T> | null {
    const allowed = [...this.#crews.values()].filter((crew) => mayJoin(crew, tenantId, isAlone));
    if (!isAlone || this.#mayHoldOneMore(tenantId)) {
      const idle = allowed.filter((crew) => crew.bodies.size === 0);
      const own = idle.find((crew) => crew.lastTenant === tenantId) ?? idle[0];
      if (own !== undefined) return own;
      if (this.#crews.size < this.#threadsMax) return this.#start();
    }
    const shared = allowed.filter((crew) => crew.bodies.size > 0);
    const [fewest] = shared.sort((a, b) => bodiesOf(a) - bodiesOf(b));
    if (fewest !== undefined) return fewest;
    this.#holdOneFor(tenantId);
    return null;
  }

  #start(): Crew<T> {
    const thread = this.#startThread();
    const crew = { thread, bodies: new Map(), loneCount: 0, heldFor: null, lastTenant: null };
    this.#crews.set(thread, crew);
    return crew;
  }

  #seat(crew: Crew<T>, tenantId: TenantId, isAlone: boolean): Seat<T> {
    crew.bodies.set(tenantId, (crew.bodies.get(tenantId) ?? 0) + 1);
    crew.lastTenant = tenantId;
    if (crew.heldFor === tenantId) crew.heldFor = null;
    if (isAlone) crew.loneCount += 1;
    assert(crew.loneCount === 0 || crew.bodies.size === 1, "a lone body's thread has one tenant");
    let isSeated = true;
    return {
      thread: crew.thread,
      leave: () => {
        if (!isSeated) return;
        isSeated = false;
        const left = (crew.bodies.get(tenantId) ?? 0) - 1;
        if (left > 0) crew.bodies.set(tenantId, left);
        else crew.bodies.delete(tenantId);
        if (isAlone) crew.loneCount -= 1;
        this.#seatAll();
      },
    };
  }

  #mayHoldOneMore(tenantId: TenantId): boolean {
    const lone = this.#loneCrews;
    return this.#holdsFewOf(lone, tenantId) && lone.length < Math.max(1, this.#threadsMax - 1);
  }

  get #loneCrews(): readonly Crew<T>[] {
    return [...this.#crews.values()].filter((crew) => crew.loneCount > 0);
  }

  #holdsFewOf(lone: readonly Crew<T>[], tenantId: TenantId): boolean {
    const own = lone.filter((crew) => crew.bodies.has(tenantId)).length;
    return own < Math.max(1, this.#threadsMax / 2);
  }

  /** Lets one thread run empty, so that who comes next on others cannot keep this tenant out. */
  #holdOneFor(tenantId: TenantId): void {
    const crews = [...this.#crews.values()];
    if (crews.some((crew) => crew.heldFor === tenantId)) return;
    if (!this.#holdsFewOf(this.#loneCrews, tenantId)) return;
    const free = crews.filter((crew) => crew.heldFor === null && !crew.bodies.has(tenantId));
    const shared = this.#mayHoldOneMore(tenantId)
      ? free.filter((crew) => crew.loneCount === 0)
      : [];
    const [fewest] = (shared.length > 0 ? shared : free.filter((crew) => crew.loneCount > 0)).sort(
      (a, b) => bodiesOf(a) - bodiesOf(b),
    );
    if (fewest !== undefined) fewest.heldFor = tenantId;
  }
}

function mayJoin<T>(crew: Crew<T>, tenantId: TenantId, isAlone: boolean): boolean {
  if (crew.heldFor !== null && crew.heldFor !== tenantId) return false;
  const isOwn = crew.bodies.size === 0 || (crew.bodies.size === 1 && crew.bodies.has(tenantId));
  return isOwn || (!isAlone && crew.loneCount === 0);
}

function bodiesOf<T>(crew: Crew<T>): number {
  let count = 0;
  for (const bodies of crew.bodies.values()) count += bodies;
  return count;
}
