import { getWritable } from "workflow";

/** Adds a line to the run's audit trail, which anyone who may see the run can follow live. */
export async function note(orderId: string, phase: string): Promise<void> {
  "use step";
  const writer = getWritable<string>({ namespace: "audit" }).getWriter();
  await writer.write(`${orderId}: ${phase}`);
  if (phase === "shipped" || phase === "cancelled") await writer.close();
  else writer.releaseLock();
}
