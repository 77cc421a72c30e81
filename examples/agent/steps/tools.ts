import { getStepMetadata, getWritable } from "workflow";
import type { Turn } from "../transcript.ts";

export async function lookUp(goal: string): Promise<string> {
  "use step";
  return `price: ${goal.length * 3} EUR`;
}

/** Spends money: called only once a person agreed, under a key that makes it happen once. */
export async function buy(price: string): Promise<string> {
  "use step";
  return `receipt ${price} ${getStepMetadata().stepId.startsWith("step_") ? "signed" : "unsigned"}`;
}
buy.maxRetries = 0;

export async function show(turn: Turn, isLast: boolean): Promise<void> {
  "use step";
  const writer = getWritable<Turn>().getWriter();
  await writer.write(turn);
  if (isLast) await writer.close();
  else writer.releaseLock();
}
