/** An agent: a model that calls tools until it knows an answer, and asks before it spends. */
import { createHook, getWorkflowMetadata, sleep } from "workflow";
import { decide } from "../steps/model.ts";
import { buy, lookUp, show } from "../steps/tools.ts";
import { Transcript } from "../transcript.ts";
import type { Turn } from "../transcript.ts";

export interface Verdict {
  readonly agrees: boolean;
  readonly comment: string;
}

const TURNS_MAX = 10;
const ANSWER_WITHIN = "1h";

export async function agent(goal: string): Promise<string> {
  "use workflow";
  const stop = new AbortController();
  let transcript = new Transcript([]);
  const say = async (who: Turn["who"], text: string, isLast = false): Promise<void> => {
    transcript = transcript.with(who, text);
    await show({ who, text }, isLast);
  };

  await say("user", goal);
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const decision = await decide(transcript, stop.signal);
    if (decision.kind === "answer") {
      await say("model", decision.text, true);
      return decision.text;
    }
    await say("model", `${decision.tool}(${decision.input})`);
    if (decision.tool === "lookUp") await say("tool", await lookUp(decision.input));
    else {
      const { agrees, comment } = await personOn(`May I buy it for ${decision.input}?`, turn);
      if (agrees) await say("tool", await buy(decision.input));
      await say("person", `${agrees ? "yes" : "no"}, ${comment}`);
    }
  }
  stop.abort("too many turns");
  return "I could not find out.";
}

/** What a person says to a question; silence is a no. */
async function personOn(question: string, turn: number): Promise<Verdict> {
  const { workflowRunId } = getWorkflowMetadata();
  using hook = createHook<Verdict>({
    token: `ask:${workflowRunId}:${turn}`,
    metadata: { question },
  });
  const silence = sleep(ANSWER_WITHIN).then(() => ({ agrees: false, comment: "nobody answered" }));
  // Awaited here: the hook is given up as this function returns.
  return await Promise.race([hook, silence]);
}
