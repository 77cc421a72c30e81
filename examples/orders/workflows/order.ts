/** An order from its lines to its shipment, as an ordinary durable workflow. */
import { FatalError, createHook, sleep } from "workflow";
import type { Approval, Order, Outcome } from "../order.ts";
import { chargeCard, refundCard } from "../steps/card.ts";
import { priceLine, shippingCents } from "../steps/price.ts";
import { ship } from "../steps/ship.ts";

/** From this total on a person has to approve. */
const APPROVAL_FROM_CENTS = 50_000;

export async function order(order: Order): Promise<Outcome> {
  "use workflow";
  if (order.lines.some((line) => line.quantity < 0)) {
    throw new FatalError(`order ${order.id} has a negative quantity`);
  }
  if (order.lines.length === 0) return { status: "empty" };

  const prices = await Promise.all(order.lines.map((line) => priceLine(order.id, line)));
  const goodsCents = prices.reduce((sum, price) => sum + price, 0);
  const totalCents = goodsCents + shippingCents(goodsCents);

  try {
    await chargeCard(order, totalCents);
  } catch (error) {
    // What the bank refused is told as it is; a network that never answered is told as that.
    const isRefusal = error instanceof FatalError && error.cause === undefined;
    return { status: "unpaid", reason: isRefusal ? error.message : "no answer" };
  }

  if (totalCents >= APPROVAL_FROM_CENTS) {
    const answer = await approvalOf(order);
    if (answer === null || !answer.approved) {
      const refundedCents = await refundCard(order.id, totalCents);
      return answer === null
        ? { status: "timed out", refundedCents }
        : { status: "refused", by: answer.by, refundedCents };
    }
  }

  await sleep(order.shipAfterMs);
  const label = await ship(order.id, order.customer);
  return { status: "shipped", totalCents, label };
}

/** What a person answered in time, or null. */
async function approvalOf(order: Order): Promise<Approval | null> {
  const hook = createHook<Approval>({ token: `approve:${order.id}` });
  const answer = await Promise.race([hook, sleep(order.approvalTimeoutMs).then(() => null)]);
  hook.dispose();
  return answer;
}
