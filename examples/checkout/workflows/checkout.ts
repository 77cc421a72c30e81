/** A checkout: reserve, authorise, approve, capture, ship; and all of it undone where it stops. */
import { FatalError, createHook, setAttributes, sleep } from "workflow";
import type { Approval, Order, Outcome } from "../order.ts";
import { note } from "../steps/audit.ts";
import { authorise, capture, voidPayment } from "../steps/payment.ts";
import { release, reserve } from "../steps/stock.ts";
import { ship } from "../steps/shipping.ts";

const APPROVAL_FROM_CENTS = 100_000;
const APPROVAL_WITHIN = "2d";

export async function checkout(order: Order): Promise<Outcome> {
  "use workflow";
  const totalCents = order.lines.reduce((sum, line) => sum + line.quantity * line.unitCents, 0);
  const undo: (() => Promise<string>)[] = [];
  try {
    await reach(order, "reserving");
    for (const line of order.lines) {
      const reservation = await reserve(order.id, line);
      undo.unshift(() => release(reservation));
    }

    await reach(order, "paying");
    const payment = await authorise(order, totalCents);
    undo.unshift(() => voidPayment(payment));

    if (totalCents >= APPROVAL_FROM_CENTS) {
      await reach(order, "awaiting approval");
      const by = await approvalOf(order);
      await setAttributes({ approvedBy: by });
    }
    await capture(payment);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    await reach(order, "cancelling");
    const undone: string[] = [];
    for (const step of undo) undone.push(await step());
    await reach(order, "cancelled");
    return { status: "cancelled", why, undone };
  }

  await reach(order, "shipping");
  const parcel = await ship(order.id);
  await reach(order, "shipped");
  return { status: "shipped", totalCents, parcel };
}

/** Who approved. Throws where nobody did in time, or somebody refused. */
async function approvalOf(order: Order): Promise<string> {
  using hook = createHook<Approval>({
    token: `approve:${order.id}`,
    metadata: { lines: order.lines.length },
  });
  const answer = await Promise.race([hook, sleep(APPROVAL_WITHIN).then(() => null)]);
  if (answer === null) throw new FatalError(`nobody approved within ${APPROVAL_WITHIN}`);
  if (!answer.approved) throw new FatalError(`refused by ${answer.by}`);
  return answer.by;
}

async function reach(order: Order, phase: string): Promise<void> {
  await setAttributes({ phase });
  await note(order.id, phase);
}
