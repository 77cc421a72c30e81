/** What was said so far. */
import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "@workflow/serde";

export interface Turn {
  readonly who: "user" | "model" | "tool" | "person";
  readonly text: string;
}

export class Transcript {
  readonly turns: readonly Turn[];

  constructor(turns: readonly Turn[]) {
    this.turns = turns;
  }

  static [WORKFLOW_SERIALIZE](transcript: Transcript) {
    return { turns: transcript.turns };
  }

  static [WORKFLOW_DESERIALIZE](data: { turns: readonly Turn[] }) {
    return new Transcript(data.turns);
  }

  with(who: Turn["who"], text: string): Transcript {
    return new Transcript([...this.turns, { who, text }]);
  }

  last(who: Turn["who"]): string | undefined {
    return this.turns.findLast((turn) => turn.who === who)?.text;
  }
}
