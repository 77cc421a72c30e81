/** Hands the parcel over; its number is what the carrier scans. */
export async function ship(orderId: string): Promise<string> {
  "use step";
  return `parcel-${orderId}`;
}
