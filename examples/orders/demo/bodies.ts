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
  /** Attempts whose process was killed before they came to their effect. */
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
  const note = (reason: string) => again.set(reason, (again.get(reason) ?? 0) + 1);
  const effects: string[] = [];
  let lost = 0;
  for (const runs of bySteps.values()) {
    const seen = new Set(runs.map((line) => line.effect).filter((effect) => effect !== "price"));
    effects.push(...seen);
    for (const [i, run] of runs.entries()) {
      const before = runs[i - 1];
      if (before !== undefined) note(reasonFor(before, run));
      const gap = run.attempt - (before?.attempt ?? 0) - 1;
      if (gap <= 0) continue;
      // The first process wrote the first line; only its end can have cut an attempt short.
      if (gap === 1 && run.pid !== (before ?? lines[0])?.pid) lost += 1;
      else note("unexplained");
    }
  }
  return { effects, again, lost };
}

function reasonFor(before: LedgerLine, after: LedgerLine): string {
  if (before.effect === "charge failed") return "retried";
  return before.pid === after.pid ? "unexplained" : "killed before its outcome was committed";
}
