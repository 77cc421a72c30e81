/**
 * The form with child processes: one guest host for each trust group, started when it is first
 * needed, replaced when it is gone. For operators whose tenants are strangers to each other.
 *
 * S17  No two trust groups ever share a process; by default each tenant is a group of its own.
 */
import { availableParallelism, totalmem } from "node:os";
import { BatonError } from "../engine/errors.ts";
import type { TenantId } from "../engine/ids.ts";
import { GuestHost } from "./guest-host.ts";
import type { HostUser } from "./guest-host.ts";
import type { Lodging, LodgingRequest, Places } from "./place.ts";
import { STEP_THREADS_PER_CORE } from "./threads.ts";
import type { ThreadsOptions } from "./threads.ts";
import { WATCHDOG_DEFAULTS } from "./watchdog.ts";
import type { HeapId } from "./wire.ts";

/** `threads` and `heapBytesMax` are those of each group. */
export interface ProcessesOptions extends ThreadsOptions {
  /** Tenants with the same answer share a process. */
  readonly trustGroupOf?: (tenantId: TenantId) => string;
  /** Whom guest hosts run as; by default nobody if this process is root's, else its own user. */
  readonly user?: HostUser;
}

export class ProcessPlaces implements Places {
  readonly #options: ProcessesOptions;
  readonly #hosts = new Map<string, GuestHost>();
  #lastHeapId: HeapId = 0;
  #isClosed = false;

  constructor(options: ProcessesOptions) {
    this.#options = options;
  }

  /** Room is waited for inside the host, before it opens the heap. */
  async lodge({ tenantId, onGone }: LodgingRequest): Promise<Lodging> {
    if (this.#isClosed) throw new BatonError("CLOSED", "the sandbox is closed");
    const group = this.#options.trustGroupOf?.(tenantId) ?? tenantId;
    const place = this.#hosts.get(group) ?? this.#start(group);
    const heapId = ++this.#lastHeapId;
    if (onGone !== undefined) place.onGone(heapId, onGone);
    return { place, heapId, note() {}, release: () => place.release(heapId) };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const hosts = [...this.#hosts.values()];
    await Promise.all(hosts.map((host) => host.kill("the sandbox was closed")));
  }

  #start(group: string): GuestHost {
    const { threads, heapBytesMax, watchdog, user, onIncident } = this.#options;
    const { stepThreads, stepHeapBytesMax } = this.#options;
    const host = new GuestHost({
      hello: {
        threads: threads ?? availableParallelism(),
        heapBytesMax: heapBytesMax ?? totalmem() / 2,
        stepThreads: stepThreads ?? STEP_THREADS_PER_CORE * availableParallelism(),
        stepHeapBytesMax: stepHeapBytesMax ?? totalmem() / 4,
        watchdog: { ...WATCHDOG_DEFAULTS, ...watchdog },
      },
      user: user ?? null,
      onIncident: (incident) => {
        if (!this.#isClosed) onIncident?.(incident);
      },
      onEnd: () => this.#hosts.delete(group),
    });
    this.#hosts.set(group, host);
    return host;
  }
}
