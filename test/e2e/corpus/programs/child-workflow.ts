import { getRun, start } from "workflow/api";
import type { Run } from "workflow/api";

export async function child(n: number): Promise<{ doubled: number; at: Date }> {
  "use workflow";
  return { doubled: n * 2, at: new Date(0) };
}

async function inStep(run: Run<{ doubled: number }>): Promise<unknown> {
  "use step";
  return [(await run.returnValue).doubled, await run.exists, await run.status];
}

async function startInStep(n: number): Promise<Run<{ doubled: number }>> {
  "use step";
  return start(child, [n]);
}

export async function main(): Promise<unknown> {
  "use workflow";
  const run = await start(child, [4]);
  const { doubled, at } = await run.returnValue;
  const other = await startInStep(5);
  const again = getRun<{ doubled: number }>(run.runId);
  return [
    doubled,
    at.getTime(),
    await inStep(run),
    (await other.returnValue).doubled,
    (await again.returnValue).doubled,
    await run.workflowName,
    (await run.completedAt) instanceof Date,
  ];
}
