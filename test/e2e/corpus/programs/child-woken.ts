import { sleep } from "workflow";
import { start } from "workflow/api";

export async function dozing(): Promise<string> {
  "use workflow";
  await sleep("30d");
  return "awake";
}

export async function main(): Promise<unknown> {
  "use workflow";
  const run = await start(dozing);
  let stoppedCount = 0;
  // The child sleeps once it has come to its sleep.
  for (let looks = 0; stoppedCount === 0 && looks < 200; looks++) {
    await sleep(20);
    ({ stoppedCount } = await run.wakeUp());
  }
  return [stoppedCount, await run.returnValue];
}
