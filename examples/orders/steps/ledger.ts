/**
 * The outside world of this example: a file that every body adds a line to, so that one can count
 * afterwards which ran, how often, and in which process.
 */
import { appendFileSync } from "node:fs";
import { getStepMetadata } from "workflow";

export type Effect = "price" | "charge" | "charge failed" | "charge declined" | "refund" | "ship";

export interface LedgerLine {
  readonly effect: Effect;
  readonly orderId: string;
  readonly stepId: string;
  readonly attempt: number;
  readonly pid: number;
  readonly [detail: string]: string | number;
}

export function recordBody(
  effect: Effect,
  orderId: string,
  details: Readonly<Record<string, string | number>>,
): void {
  const { stepId, attempt } = getStepMetadata();
  const line: LedgerLine = { effect, orderId, stepId, attempt, pid: process.pid, ...details };
  const file = process.env["ORDERS_LEDGER"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`);
}
