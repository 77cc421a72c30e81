import { FatalError } from "workflow";
import type { Line } from "../order.ts";

const IN_STOCK: Readonly<Record<string, number>> = { lamp: 500, desk: 12, chair: 40 };

export interface Reservation {
  readonly orderId: string;
  readonly line: Line;
}

export async function reserve(orderId: string, line: Line): Promise<Reservation> {
  "use step";
  if (line.quantity > (IN_STOCK[line.sku] ?? 0)) throw new FatalError(`not enough of ${line.sku}`);
  return { orderId, line };
}

export async function release({ line }: Reservation): Promise<string> {
  "use step";
  return `put back ${line.quantity} ${line.sku}`;
}
