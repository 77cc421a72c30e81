/** Stands for a language model: decides by rules what a real one would decide by its weights. */
import { FatalError } from "workflow";
import type { Transcript } from "../transcript.ts";

export type Decision =
  | { readonly kind: "call"; readonly tool: string; readonly input: string }
  | { readonly kind: "answer"; readonly text: string };

export async function decide(transcript: Transcript, signal: AbortSignal): Promise<Decision> {
  "use step";
  signal.throwIfAborted();
  const goal = transcript.last("user") ?? "";
  const price = transcript.turns.findLast((turn) => turn.text.startsWith("price: "));
  const verdict = transcript.last("person");
  if (goal.includes("nonsense")) throw new FatalError("the model refuses");
  if (price === undefined) return { kind: "call", tool: "lookUp", input: goal };
  if (verdict === undefined) return { kind: "call", tool: "buy", input: price.text.slice(7) };
  if (verdict.startsWith("no")) return { kind: "answer", text: `I did not buy it: ${verdict}` };
  return { kind: "answer", text: `Bought for ${price.text.slice(7)}: ${transcript.last("tool")}` };
}
decide.maxRetries = 5;
