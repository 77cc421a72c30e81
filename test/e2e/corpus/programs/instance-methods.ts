import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "@workflow/serde";

export class Account {
  readonly owner: string;
  readonly cents: number;
  constructor(owner: string, cents: number) {
    this.owner = owner;
    this.cents = cents;
  }
  static [WORKFLOW_SERIALIZE](account: Account) {
    return { owner: account.owner, cents: account.cents };
  }
  static [WORKFLOW_DESERIALIZE](data: { owner: string; cents: number }) {
    return new Account(data.owner, data.cents);
  }
  async deposit(cents: number): Promise<Account> {
    "use step";
    return new Account(this.owner, this.cents + cents);
  }
  async statement(): Promise<string> {
    "use step";
    return `${this.owner}: ${this.cents}`;
  }
}

export async function main(): Promise<unknown> {
  "use workflow";
  const before = new Account("ada", 100);
  const after = await before.deposit(50);
  const moved = await Account.prototype.deposit.call(after, 1);
  return [after instanceof Account, await after.statement(), before.cents, await moved.statement()];
}
