import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "@workflow/serde";

class Money {
  readonly #cents: bigint;
  readonly currency: string;
  constructor(cents: bigint, currency: string) {
    this.#cents = cents;
    this.currency = currency;
  }
  static [WORKFLOW_SERIALIZE](money: Money) {
    return { cents: money.#cents, currency: money.currency };
  }
  static [WORKFLOW_DESERIALIZE](data: { cents: bigint; currency: string }) {
    return new Money(data.cents, data.currency);
  }
  plus(other: Money): Money {
    return new Money(this.#cents + other.#cents, this.currency);
  }
  toString(): string {
    return `${this.#cents} ${this.currency}`;
  }
}

async function total(items: Map<string, Money>): Promise<{ sum: Money; items: Set<Money> }> {
  "use step";
  const all = [...items.values()];
  const sum = all.reduce((so, one) => so.plus(one));
  return { sum, items: new Set(all) };
}

export async function main(): Promise<unknown> {
  "use workflow";
  const prices = new Map([
    ["a", new Money(9_007_199_254_740_993n, "EUR")],
    ["b", new Money(1n, "EUR")],
  ]);
  const { sum, items } = await total(prices);
  return [sum instanceof Money, String(sum), [...items].map(String)];
}
