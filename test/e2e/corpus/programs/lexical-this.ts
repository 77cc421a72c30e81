import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "@workflow/serde";

class Mailer {
  readonly from: string;
  constructor(from: string) {
    this.from = from;
  }
  static [WORKFLOW_SERIALIZE](mailer: Mailer) {
    return { from: mailer.from };
  }
  static [WORKFLOW_DESERIALIZE](data: { from: string }) {
    return new Mailer(data.from);
  }
  tools() {
    return {
      send: async (to: string): Promise<string> => {
        "use step";
        return `${this.from} -> ${to}`;
      },
    };
  }
}

export async function main(): Promise<string> {
  "use workflow";
  return new Mailer("shop@example.com").tools().send("ada@example.com");
}
