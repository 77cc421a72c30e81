import { createHook } from "workflow";
import { HookConflictError } from "workflow/errors";
import { resumeHook, start } from "workflow/api";

async function send(token: string): Promise<void> {
  "use step";
  await resumeHook(token, "done");
}

export async function rival(token: string): Promise<unknown> {
  "use workflow";
  const hook = createHook({ token });
  const holder = await hook.getConflict();
  try {
    await hook;
    return "it was free";
  } catch (error) {
    if (!HookConflictError.is(error)) throw error;
    return [error.token === token, error.conflictingRunId === holder?.runId];
  }
}

export async function main(token: string): Promise<unknown> {
  "use workflow";
  const hook = createHook<string>({ token });
  const mine = await hook.getConflict();
  const other = await start(rival, [token]);
  const lost = await other.returnValue;
  await send(token);
  return [mine, lost, await hook];
}
