/**
 * What each order's right outcome is, written down apart from the example and from Baton: it
 * imports neither, and computes in other ways.
 */

/** An entry of orders.json: what the workflow is given, and what happens outside. */
export interface OrderEntry {
  readonly input: {
    readonly id: string;
    readonly customer: string;
    readonly lines: readonly { sku: string; quantity: number; unitCents: number }[];
    readonly card: { kind: string; failures?: number; reason?: string };
    readonly approvalTimeoutMs: number;
    readonly shipAfterMs: number;
  };
  /** What a person answers once asked, after so many ms; null: nobody answers. */
  readonly answer: {
    readonly approved: boolean;
    readonly by: string;
    readonly afterMs: number;
  } | null;
}

export interface Expected {
  /** What the run ends with: the workflow's value, or the error that it throws. */
  readonly result:
    | { readonly kind: "completed"; readonly output: Readonly<Record<string, unknown>> }
    | { readonly kind: "failed"; readonly name: string; readonly message: string };
  /** Whether a person is asked, and so has to answer. */
  readonly asks: boolean;
  /** Effects that must be in the ledger besides pricing, each by one step; no others may be. */
  readonly effects: readonly string[];
}

export function expectedOf({ input, answer }: OrderEntry): Expected {
  const nothing = { asks: false, effects: [] };
  if (input.lines.some((line) => line.quantity < 0)) {
    const message = `order ${input.id} has a negative quantity`;
    return { result: { kind: "failed", name: "FatalError", message }, ...nothing };
  }
  if (input.lines.length === 0) return { result: completed({ status: "empty" }), ...nothing };

  const total = totalCents(input.lines);
  const { card } = input;
  if (card.kind === "declined") {
    const output = { status: "unpaid", reason: card.reason };
    return { result: completed(output), asks: false, effects: ["charge declined"] };
  }
  if (card.kind === "unreachable") {
    const output = { status: "unpaid", reason: "no answer" };
    return { result: completed(output), asks: false, effects: ["charge failed"] };
  }

  const failed = card.kind === "flaky" && (card.failures ?? 0) > 0 ? ["charge failed"] : [];
  const charged = [...failed, "charge"];
  const asks = total >= 50_000;
  if (asks && answer === null) {
    const output = { status: "timed out", refundedCents: total };
    return { result: completed(output), asks, effects: [...charged, "refund"] };
  }
  if (asks && answer !== null && !answer.approved) {
    const output = { status: "refused", by: answer.by, refundedCents: total };
    return { result: completed(output), asks, effects: [...charged, "refund"] };
  }
  const label = `${input.id} → ${input.customer.normalize("NFC").trim()}`;
  const output = { status: "shipped", totalCents: total, label };
  return { result: completed(output), asks, effects: [...charged, "ship"] };
}

function completed(output: Readonly<Record<string, unknown>>): Expected["result"] {
  return { kind: "completed", output };
}

/** In whole cents throughout, with integers that cannot round by themselves. */
function totalCents(lines: OrderEntry["input"]["lines"]): number {
  let goods = 0n;
  for (const { quantity, unitCents } of lines) {
    const full = BigInt(quantity) * BigInt(unitCents);
    const off = quantity >= 100 ? 20n : quantity >= 10 ? 10n : 0n;
    const hundredths = full * (100n - off);
    goods += hundredths / 100n + (hundredths % 100n >= 50n ? 1n : 0n);
  }
  return Number(goods >= 10_000n ? goods : goods + 490n);
}
