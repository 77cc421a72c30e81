import { createHook, sleep } from "workflow";

export async function main(token: string): Promise<unknown> {
  "use workflow";
  const hook = createHook<string>({ token });
  const answer = await Promise.race([hook, sleep("30ms").then(() => null)]);
  hook.dispose();
  const again = createHook<string>({ token });
  const conflict = await again.getConflict();
  return [answer, conflict];
}
