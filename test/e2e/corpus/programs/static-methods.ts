export class Ledger {
  static async open(name: string): Promise<string> {
    "use step";
    return `opened ${name}`;
  }
  static async close(name: string): Promise<string> {
    "use step";
    return `closed ${name}`;
  }
}

export async function main(): Promise<string[]> {
  "use workflow";
  return [await Ledger.open("may"), await Ledger.close("may")];
}
