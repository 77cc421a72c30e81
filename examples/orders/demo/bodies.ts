/** What the ledger says of bodies that ran more than once, and why each did. */
import { existsSync, readFileSync } from "node:fs";

interface LedgerLine {
  readonly effect: string;
  readonly orderId: string;
  readonly stepId: string;
  readonly attempt: number;
  readonly pid: number;
}

export interface OrderBodies {
  /** Every effect but pricing, once for each step that had it. */
  readonly effects: readonly string[];
  /** Further runs of a body, by reason. */
  readonly again: ReadonlyMap<string, number>;
  /** Attempts that were begun and left nothing behind. */
  readonly lost: number;
}

export function ledgerLines(file: string): readonly LedgerLine[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as LedgerLine);
}

export function bodiesOf(lines: readonly LedgerLine[], orderId: string): OrderBodies {
  const bySteps = new Map<string, LedgerLine[]>();
  for (const line of lines) {
    if (line.orderId !== orderId) continue;
    bySteps.set(line.stepId, [...(bySteps.get(line.stepId) ?? []), line]);
  }
  const again = new Map<string, number>();
  const effects: string[] = [];
  for (const runs of bySteps.values()) {
    const seen = new Set(runs.map((line) => line.effect).filter((effect) => effect !== "price"));
    effects.push(...seen);
    for (let i = 1; i < runs.length; i++) {
      const reason = reasonFor(runs[i - 1], runs[i]);
      again.set(reason, (again.get(reason) ?? 0) + 1);
    }
  }
  return {
    effects,
    again,
    lost: [...bySteps.values()].reduce((sum, runs) => sum + lostOf(runs), 0),
  };
}

/** Attempts before the last one that left no line: a kill came between their start and their body. */
function lostOf(runs: readonly LedgerLine[]): number {
  const attempts = new Set(runs.map((line) => line.attempt));
  return Math.max(...attempts) - attempts.size;
}

function reasonFor(before: LedgerLine | undefined, after: LedgerLine | undefined): string {
  if (before?.effect === "charge failed") return "retried";
  return before?.pid === after?.pid ? "unexplained" : "killed before its outcome was committed";
}
