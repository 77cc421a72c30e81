import { FatalError, RetryableError, getStepMetadata } from "workflow";
import type { Order } from "../order.ts";
import { recordBody } from "./ledger.ts";

const NETWORK_MS = 150;

/** Charges the order's card; the step's id is the key under which a bank would do so once. */
export async function chargeCard(order: Order, cents: number): Promise<void> {
  "use step";
  const { attempt } = getStepMetadata();
  const { card } = order;
  await new Promise((resolve) => setTimeout(resolve, NETWORK_MS));
  const isDown = card.kind === "unreachable" || (card.kind === "flaky" && attempt <= card.failures);
  if (isDown) {
    recordBody("charge failed", order.id, { cents });
    throw new RetryableError("the card network does not answer", { retryAfter: 200 });
  }
  if (card.kind === "declined") {
    recordBody("charge declined", order.id, { cents });
    throw new FatalError(card.reason);
  }
  recordBody("charge", order.id, { cents });
}
chargeCard.maxRetries = 6;

/** Gives back what was charged. */
export async function refundCard(orderId: string, cents: number): Promise<number> {
  "use step";
  await new Promise((resolve) => setTimeout(resolve, NETWORK_MS));
  recordBody("refund", orderId, { cents });
  return cents;
}
