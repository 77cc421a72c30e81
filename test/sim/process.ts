/**
 * One simulated process: what it sees of the World goes through here, so that it can be slow, be
 * told lies, stand still and die at any call.
 *
 * A dead process gets no answer and no timer any more; its deliveries come back to the queue. A
 * process that stood still longer than its leases goes on, but its deliveries are others' by then:
 * what it answers for them is not heard.
 */
import { BatonError } from "../../engine/errors.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type {
  ConsumeOptions,
  Consumer,
  DeliveryMeta,
  DeliveryResult,
  Message,
  QueueHandlers,
  Send,
  SendOptions,
} from "../../engine/ports/queue.ts";
import type { CreateParams, EventResult, StoredSnapshot, World } from "../../engine/ports/world.ts";
import type { Draws } from "./draws.ts";
import type { FaultKind, Faults } from "./faults.ts";
import type { Journal } from "./journal.ts";
import { subscriptionUnder } from "./simulated-feed.ts";
import type { FeedWay } from "./simulated-feed.ts";
import type { VirtualClock } from "./virtual-clock.ts";

export interface ProcessOptions {
  readonly name: string;
  readonly clock: VirtualClock;
  readonly draws: Draws;
  readonly faults: Faults;
  readonly journal: Journal;
  /** A snapshot of another run than this one, or null if there is none. */
  strangerSnapshot(runId: string): StoredSnapshot | null;
  /** Told once, when it dies. */
  onDeath(): void;
}

interface Flight {
  readonly reject: (error: Error) => void;
  isLapsed: boolean;
}

/** A promise of somebody who is dead. */
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);

export class Process {
  readonly name: string;
  readonly clock: Clock;
  readonly #options: ProcessOptions;
  readonly #flights = new Set<Flight>();
  readonly #consumers = new Set<Consumer>();
  /** Ends of the live feeds that it opened. */
  readonly #feeds: (() => void)[] = [];
  #isAlive = true;
  #stalledUntilMs = 0;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.name = options.name;
    const { clock } = options;
    this.clock = {
      now: () => clock.now(),
      setTimer: (delayMs, callback) => clock.setTimer(delayMs, () => this.#whenAwake(callback)),
    };
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  kill(why: string): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#options.journal.note(this.name, `dies: ${why}`);
    // Nobody waits for the end of deliveries that will never answer.
    for (const consumer of this.#consumers) consumer.stop().catch(() => undefined);
    this.#loseFlights("its process died");
    for (const end of this.#feeds) end();
    this.#options.onDeath();
  }

  /** The World as this process sees it. */
  over(world: World): World {
    const queue = this.#behind("queue", world.queue);
    return {
      name: world.name,
      specVersion: world.specVersion,
      capabilities: world.capabilities,
      durability: world.durability,
      forTenant: (tenantId) => {
        const store = world.forTenant(tenantId);
        return {
          tenantId,
          events: this.#behind("events", store.events),
          runs: this.#behind("runs", store.runs),
          steps: this.#behind("steps", store.steps),
          waits: this.#behind("waits", store.waits),
          hooks: this.#behind("hooks", store.hooks),
          snapshots: this.#behind("snapshots", store.snapshots),
          bundles: this.#behind("bundles", store.bundles),
          blobs: this.#behind("blobs", store.blobs),
          streams: this.#behind("streams", store.streams),
          openEntities: (runId) =>
            this.#call("openEntities", [runId], () => store.openEntities(runId)),
        };
      },
      queue: {
        send: (message, options) => queue.send(message, options),
        sendBatch: (sends) => queue.sendBatch(sends),
        consume: (handlers, options) => this.#consume(world, handlers, options),
      },
      tenants: this.#behind("tenants", world.tenants),
      close: () => Promise.resolve(),
    };
  }

  /** A part of the World whose every method is a call over the border. */
  #behind<T extends object>(part: string, target: T): T {
    return new Proxy(target, {
      get: (of, key) => {
        const method: unknown = Reflect.get(of, key);
        if (typeof method !== "function" || typeof key !== "string") return method;
        const site = `${part}.${key}`;
        return (...args: unknown[]) =>
          this.#call(site, args, (fault) => {
            const given =
              site === "events.subscribe" ? subscriptionUnder(fault, args, this.#feedWay) : args;
            return method.apply(of, given) as Promise<unknown>;
          });
      },
    });
  }

  /** One call: there and back, with what may go wrong on the way. */
  async #call<T>(
    site: string,
    args: readonly unknown[],
    apply: (fault: FaultKind | null) => Promise<T>,
  ): Promise<T> {
    const { clock, draws, faults, journal } = this.#options;
    if (!this.#isAlive) return never();
    journal.count(site);
    const fault = faults.draw({ site, owner: this.name, args });
    if (fault !== null) journal.note(this.name, `${fault} at ${site}`);
    await clock.sleep(latencyMs(draws));
    if (fault === "stall") await this.#stall();
    if (fault === "crash before") this.kill(site);
    if (!this.#isAlive) return never();
    if (fault === "refused" || fault === "throttled") {
      journal.sends(this.name, site, args, false);
      throw refusal(fault, site);
    }
    if (fault === "feed hangs") return never();
    if (fault === "snapshot lost") return null as T;
    if (fault === "snapshot swapped") {
      return this.#options.strangerSnapshot(String(args[0])) as T;
    }
    const result = await this.#applied(site, args, () => apply(fault));
    if (site === "events.subscribe") this.#noteFeed(result as () => void);
    if (fault === "crash after") this.kill(site);
    await clock.sleep(latencyMs(draws));
    if (!this.#isAlive) return never();
    if (fault === "answer lost") throw refusal(fault, site);
    return fault === "short report" ? shortened(result) : result;
  }

  async #applied<T>(site: string, args: readonly unknown[], apply: () => Promise<T>): Promise<T> {
    const { journal } = this.#options;
    try {
      const result = await apply();
      journal.sends(this.name, site, args, true);
      journal.applied(this.name, site, args, result);
      return result;
    } catch (error) {
      journal.sends(this.name, site, args, false);
      journal.refused(this.name, site, args, error);
      throw error;
    }
  }

  /** A feed lives no longer than its process. */
  #noteFeed(end: () => void): void {
    if (this.#isAlive) this.#feeds.push(end);
    else end();
  }

  get #feedWay(): FeedWay {
    const { clock, draws } = this.#options;
    return { clock, draws, whenAwake: (callback) => this.#whenAwake(callback) };
  }

  async #stall(): Promise<void> {
    const { clock, draws } = this.#options;
    this.#stalledUntilMs = clock.now() + draws.between(5_000, 90_000);
    this.#loseFlights("its lease lapsed");
    await clock.sleep(this.#stalledUntilMs - clock.now());
  }

  #loseFlights(why: string): void {
    for (const flight of this.#flights) {
      flight.isLapsed = true;
      flight.reject(lost(why));
    }
    this.#flights.clear();
  }

  #whenAwake(callback: () => void): void {
    if (!this.#isAlive) return;
    const { clock } = this.#options;
    const stalledMs = this.#stalledUntilMs - clock.now();
    if (stalledMs > 0) clock.setTimer(stalledMs, () => this.#whenAwake(callback));
    else callback();
  }

  #consume(world: World, handlers: QueueHandlers, options: ConsumeOptions): Consumer {
    const consumer = world.queue.consume(
      {
        orchestrator: (message, meta) =>
          this.#deliver(message, meta, () => handlers.orchestrator(message, meta)),
        step: (message, meta) => this.#deliver(message, meta, () => handlers.step(message, meta)),
      },
      options,
    );
    this.#consumers.add(consumer);
    return consumer;
  }

  #deliver(
    message: Message,
    meta: DeliveryMeta,
    handle: () => Promise<DeliveryResult>,
  ): Promise<DeliveryResult> {
    // Handed over in the very moment of its death: it comes back like the others.
    if (!this.#isAlive) return Promise.reject(lost("its process died"));
    return new Promise((resolve, reject) => {
      const { clock, draws, faults, journal } = this.#options;
      const flight: Flight = { reject, isLapsed: false };
      this.#flights.add(flight);
      const record = journal.delivery(this.name, message, meta);
      const fault = faults.draw({ site: "delivery", owner: this.name, args: [message, meta] });
      const end = (settle: () => void) => {
        if (!this.#isAlive || flight.isLapsed) return;
        this.#flights.delete(flight);
        if (fault === "crash after") this.kill("its answer");
        if (fault === "crash after" || fault === "ack lost")
          reject(refusal("ack lost", "delivery"));
        else settle();
      };
      const run = async () => {
        await clock.sleep(latencyMs(draws));
        if (fault === "crash before") this.kill("a delivery");
        if (!this.#isAlive || flight.isLapsed) return;
        try {
          const answer = await handle();
          if (this.#isAlive) journal.answered(record, answer);
          end(() => resolve(answer));
        } catch (error) {
          if (this.#isAlive) journal.threw(record, error);
          end(() => reject(error));
        }
      };
      void run();
    });
  }
}

/** Mostly a network's latency, sometimes none, rarely long. */
function latencyMs(draws: Draws): number {
  const roll = draws.next();
  if (roll < 0.3) return 0;
  return roll < 0.97 ? draws.between(1, 20) : draws.between(20, 2_000);
}

function lost(why: string): BatonError {
  return new BatonError("WORLD_UNAVAILABLE", `the delivery is lost: ${why}`);
}

function refusal(fault: FaultKind, site: string): BatonError {
  if (fault === "throttled") {
    return new BatonError("THROTTLED", `simulated: ${site}`, { retryAfterMs: 1_000 });
  }
  return new BatonError("WORLD_UNAVAILABLE", `simulated: ${fault} at ${site}`);
}

/** A report without its last events, marked as incomplete. */
function shortened<T>(result: T): T {
  const { events } = result as EventResult;
  return { ...result, events: events.slice(0, Math.floor(events.length / 2)), hasMore: true };
}

/** The messages that a call sends. */
export function sendsOf(site: string, args: readonly unknown[]): readonly Send[] {
  if (site === "queue.send") {
    const [message, options] = args as [Message, SendOptions | undefined];
    return [options === undefined ? { message } : { message, options }];
  }
  if (site === "queue.sendBatch") return args[0] as readonly Send[];
  if (site !== "events.create") return [];
  const send = (args[2] as CreateParams | undefined)?.send;
  return send === undefined ? [] : [send];
}
