import { recordBody } from "./ledger.ts";

/** Hands the parcel over; the label is what the carrier scans. */
export async function ship(orderId: string, customer: string): Promise<string> {
  "use step";
  const label = `${orderId} → ${customer.normalize("NFC").trim()}`;
  recordBody("ship", orderId, { label });
  return label;
}
