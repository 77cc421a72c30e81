import { sleep } from "workflow";
import { start } from "workflow/api";
import { WorkflowRunCancelledError } from "workflow/errors";

export async function patient(): Promise<void> {
  "use workflow";
  await sleep("30d");
}

async function settled(): Promise<void> {
  "use step";
}

export async function main(): Promise<unknown> {
  "use workflow";
  const run = await start(patient);
  await settled();
  await run.cancel({ cancelReason: "enough" });
  try {
    return await run.returnValue;
  } catch (error) {
    return [WorkflowRunCancelledError.is(error), await run.status];
  }
}
