/**
 * Faulty deliveries: between the inner World's queue and a caller's handlers.
 *
 * Owns nothing that the inner queue does not offer: a lost delivery, a lapsed lease and a dead
 * worker are all answers to it, so its own rules decide what comes next.
 */
import type { Clock } from "../../engine/ports/host.ts";
import type {
  ConsumeOptions,
  Consumer,
  DeliveryResult,
  Message,
  Queue,
  QueueHandlers,
} from "../../engine/ports/queue.ts";
import type { Caller } from "./caller.ts";
import type { Dice } from "./dice.ts";

export interface DeliveryParts {
  readonly queue: Queue;
  readonly dice: Dice;
  readonly caller: Caller;
  readonly clock: Clock;
  /** Deliveries that wait until a later one has begun. */
  readonly heldBack: Set<() => void>;
}

/** The message comes again, counted: what a queue does with a delivery that it never heard of. */
const LAPSED: DeliveryResult = { kind: "redeliver", afterMs: 0, counted: true };

export function consumeFaulty(
  parts: DeliveryParts,
  handlers: QueueHandlers,
  options: ConsumeOptions,
): Consumer {
  const take = async (message: Message, run: () => Promise<DeliveryResult>) =>
    delivered(parts, `deliver.${message.kind}`, run);
  const consumer = parts.queue.consume(
    {
      orchestrator: async (message, meta) =>
        take(message, async () => handlers.orchestrator(message, meta)),
      step: async (message, meta) => take(message, async () => handlers.step(message, meta)),
    },
    options,
  );
  const stop = async () => consumer.stop();
  parts.caller.onCrash(() => {
    // The dead take no more deliveries; those in flight end when their leases do.
    stop().catch(() => undefined);
  });
  return { limitTenant: (tenantId, limits) => consumer.limitTenant(tenantId, limits), stop };
}

async function delivered(
  parts: DeliveryParts,
  site: string,
  handle: () => Promise<DeliveryResult>,
): Promise<DeliveryResult> {
  const { dice, clock, caller } = parts;
  if (caller.isDead || dice.strikes("dropDelivery", site)) {
    await passed(clock, dice.profile.leaseMs);
    return LAPSED;
  }
  await heldUp(parts, site);
  if (caller.isDead) {
    await passed(clock, dice.profile.leaseMs);
    return LAPSED;
  }
  const handling = handle();
  const answer = await firstOf(parts, site, handling);
  if (answer === "died") {
    await passed(clock, dice.profile.leaseMs);
    return LAPSED;
  }
  if (answer === "lapsed") return LAPSED;
  if (answer.kind === "ack" && dice.strikes("duplicateDelivery", site)) return LAPSED;
  return answer;
}

/** Delayed, or kept until a later delivery has begun (or some time has passed, so none is stuck). */
async function heldUp({ dice, clock, heldBack }: DeliveryParts, site: string): Promise<void> {
  for (const release of heldBack) release();
  if (dice.strikes("reorderDelivery", site)) {
    await new Promise<void>((resolve) => {
      const release = () => {
        heldBack.delete(release);
        takeBack();
        resolve();
      };
      const takeBack = clock.setTimer(dice.profile.delayMsMax, release);
      heldBack.add(release);
    });
  }
  if (dice.strikes("delayDelivery", site)) {
    await passed(clock, dice.upTo(dice.profile.delayMsMax));
  }
}

/** What comes first: the handler's answer, the caller's death, or the end of the lease. */
async function firstOf(
  { dice, clock, caller }: DeliveryParts,
  site: string,
  handling: Promise<DeliveryResult>,
): Promise<DeliveryResult | "died" | "lapsed"> {
  return new Promise((resolve, reject) => {
    let takeBack: () => void = () => undefined;
    const forget = caller.onCrash(() => {
      takeBack();
      resolve("died");
    });
    if (dice.profile.lapseLease > 0) {
      takeBack = clock.setTimer(dice.upTo(dice.profile.leaseMs), () => {
        if (!dice.strikes("lapseLease", site)) return;
        forget();
        resolve("lapsed");
      });
    }
    const settle = (end: () => void) => {
      forget();
      takeBack();
      if (caller.isDead) resolve("died");
      else end();
    };
    handling.then(
      (answer) => {
        settle(() => {
          resolve(answer);
        });
      },
      (error: unknown) => {
        settle(() => {
          reject(
            error instanceof Error ? error : new Error("the handler failed", { cause: error }),
          );
        });
      },
    );
  });
}

async function passed(clock: Clock, ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    clock.setTimer(ms, resolve);
  });
}
