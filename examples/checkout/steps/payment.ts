/** The payment provider; a test card says how it behaves. */
import { FatalError, RetryableError, getStepMetadata } from "workflow";
import type { Order } from "../order.ts";

export interface Payment {
  /** Under which the provider knows it: asking twice charges once. */
  readonly key: string;
  readonly cents: number;
  readonly card: Order["card"];
}

/** Holds the money. A provider that is busy is asked again; what the bank declines stays declined. */
export async function authorise(order: Order, cents: number): Promise<Payment> {
  "use step";
  const { attempt, stepId } = getStepMetadata();
  if (order.card === "declined") throw new FatalError("the card was declined");
  if (order.card === "busy" && attempt < 3) {
    throw new RetryableError("the provider is busy", { retryAfter: "30s" });
  }
  return { key: stepId, cents, card: order.card };
}

/** Takes what was held. */
export async function capture(payment: Payment): Promise<void> {
  "use step";
  if (payment.card === "expires") throw new FatalError("the authorisation has expired");
}

export async function voidPayment({ cents }: Payment): Promise<string> {
  "use step";
  return `gave back ${cents}`;
}
