import { sleep } from "workflow";

export async function main(): Promise<unknown> {
  "use workflow";
  const startedAt = Date.now();
  await sleep("20ms");
  await sleep(20);
  await sleep(new Date(Date.now() + 20));
  const sleptMs = Date.now() - startedAt;
  await sleep(0);
  await sleep(new Date(0));
  const refused: string[] = [];
  for (const wrong of ["soon", Number.NaN, Infinity]) {
    try {
      await sleep(wrong);
    } catch (error) {
      refused.push((error as Error).name);
    }
  }
  return [sleptMs >= 60, refused];
}
