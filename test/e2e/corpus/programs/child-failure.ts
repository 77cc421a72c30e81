import { start } from "workflow/api";
import { WorkflowRunFailedError } from "workflow/errors";

export async function child(): Promise<never> {
  "use workflow";
  throw new RangeError("too far", { cause: { limit: 3 } });
}

export async function main(): Promise<unknown> {
  "use workflow";
  const run = await start(child);
  try {
    return await run.returnValue;
  } catch (error) {
    if (!WorkflowRunFailedError.is(error)) throw error;
    const cause = error.cause as RangeError;
    return [
      error.runId === run.runId,
      error.errorCode,
      cause instanceof RangeError,
      cause.message,
      cause.cause,
      await run.status,
    ];
  }
}
