import { createHook } from "workflow";
import { getHookByToken, resumeHook } from "workflow/api";
import { HookNotFoundError } from "workflow/errors";

async function answer(token: string): Promise<unknown> {
  "use step";
  const hook = await getHookByToken(token);
  const metadata = (await hook.metadata) as { question: string };
  await resumeHook(token, metadata.question.length);
  return hook.runId.startsWith("wrun_");
}

async function askNobody(): Promise<unknown> {
  "use step";
  try {
    return await resumeHook("nobody-holds-this", 1);
  } catch (error) {
    return [HookNotFoundError.is(error), (error as Error).name];
  }
}

export async function main(token: string): Promise<unknown> {
  "use workflow";
  const hook = createHook<number>({ token, metadata: { question: "how many?" } });
  // The step finds the hook only once it is there.
  await hook.getConflict();
  const found = await answer(token);
  return [found, await hook, await askNobody()];
}
