import type { OrderLine } from "../order.ts";
import { recordBody } from "./ledger.ts";

/** Ten or more of one thing are 10 % off, a hundred or more 20 %; halves round up. */
export async function priceLine(orderId: string, line: OrderLine): Promise<number> {
  "use step";
  recordBody("price", orderId, { sku: line.sku });
  const percent = line.quantity >= 100 ? 80 : line.quantity >= 10 ? 90 : 100;
  return Math.floor((line.quantity * line.unitCents * percent + 50) / 100);
}

export function shippingCents(goodsCents: number): number {
  return goodsCents >= 10_000 ? 0 : 490;
}
