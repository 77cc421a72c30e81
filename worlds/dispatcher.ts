/**
 * Consumers in this process: hands deliveries to handlers and their answers back to the ledger.
 *
 * Owns the handlers and the one timer for the next due message. Decides nothing: whose turn it is,
 * re-runs and counts are the ledger's.
 */
import { isBatonError } from "../engine/errors.ts";
import type { Clock, Log } from "../engine/ports/host.ts";
import type { ConsumeOptions, Consumer, QueueHandlers } from "../engine/ports/queue.ts";
import type { Core } from "./core.ts";
import { checkedTenantDeliveries } from "./message-border.ts";
import type { Delivery } from "./queue-ledger.ts";
import type { Outcome } from "./queue-rows.ts";

/** Timers of the platform overflow at 2^31 ms; a longer wait is looked at in between. */
const TIMER_MS_MAX = 86_400_000;
/** After an answer that the ledger could not take. */
const SETTLE_RETRY_MS = 200;

interface Attached {
  readonly handlers: QueueHandlers;
  /** Deliveries whose answers the ledger has not taken yet. */
  readonly running: Set<Promise<void>>;
}

export class Dispatcher {
  readonly #core: Core;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #attached = new Map<number, Attached>();
  #nextConsumerId = 1;
  #cancelTimer: (() => void) | null = null;
  #isClosed = false;

  constructor(core: Core, clock: Clock, log: Log) {
    this.#core = core;
    this.#clock = clock;
    this.#log = log;
  }

  consume(handlers: QueueHandlers, options: ConsumeOptions): Consumer {
    const consumerId = this.#nextConsumerId++;
    const attached: Attached = { handlers, running: new Set() };
    this.#attached.set(consumerId, attached);
    const opening = this.#core.call("queue", "attach", consumerId, options).catch((error) => {
      this.#log.error({ err: error }, "a consumer could not be attached");
    });
    return {
      limitTenant: (tenantId, limits) => {
        const checked = checkedTenantDeliveries(limits);
        this.#core.call("queue", "limitTenant", tenantId, checked).catch((error: unknown) => {
          this.#log.warn(
            { error: String(error), tenantId },
            "a tenant's deliveries are not limited",
          );
        });
      },
      stop: async () => {
        await opening;
        // A closed World delivers nothing more by itself.
        if (!this.#isClosed) await this.#core.call("queue", "detach", consumerId);
        // An answer may bring a last delivery that was decided before the consumer was detached.
        while (attached.running.size > 0) await Promise.all(attached.running);
        this.#attached.delete(consumerId);
      },
    };
  }

  take(deliveries: readonly Delivery[], nextDueAt: number | null): void {
    if (this.#isClosed) return;
    for (const delivery of deliveries) this.#start(delivery);
    this.#cancelTimer?.();
    this.#cancelTimer =
      nextDueAt === null
        ? null
        : this.#clock.setTimer(
            Math.min(Math.max(0, nextDueAt - this.#clock.now()), TIMER_MS_MAX),
            () => {
              this.#core.poke();
            },
          );
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  #start(delivery: Delivery): void {
    const attached = this.#attached.get(delivery.consumerId);
    if (attached === undefined) {
      this.#log.error({ messageId: delivery.meta.messageId }, "a delivery has no consumer");
      return;
    }
    // Not in this turn: what a handler does at once must come after what is being told here.
    const running = Promise.resolve()
      .then(async () => this.#run(delivery, attached.handlers))
      .finally(() => {
        attached.running.delete(running);
      });
    attached.running.add(running);
  }

  async #run({ message, meta }: Delivery, handlers: QueueHandlers): Promise<void> {
    let outcome: Outcome;
    try {
      outcome =
        message.kind === "step"
          ? await handlers.step(message, meta)
          : await handlers.orchestrator(message, meta);
    } catch (error) {
      const { messageId, attempt } = meta;
      this.#log.warn({ err: error, messageId, attempt }, "a delivery was rejected");
      outcome = { kind: "rejected" };
    }
    await this.#settle(meta.messageId, meta.deliveryCount, outcome);
  }

  /** The ledger must hear of the end, or the run stays held: only a closed World ends the trying. */
  async #settle(...[messageId, count, outcome]: SettleArgs): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#core.call("queue", "settle", messageId, count, outcome, this.#clock.now());
        return;
      } catch (error) {
        if (isBatonError(error, "CLOSED")) return;
        this.#log.error({ err: error, messageId }, "a delivery's answer was not taken");
        await new Promise<void>((resolve) => {
          this.#clock.setTimer(SETTLE_RETRY_MS, resolve);
        });
      }
    }
  }
}

type SettleArgs = [
  messageId: Delivery["meta"]["messageId"],
  deliveryCount: number,
  outcome: Outcome,
];
