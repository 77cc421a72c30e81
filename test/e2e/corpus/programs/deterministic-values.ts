import { sleep } from "workflow";

async function keep(values: unknown[]): Promise<unknown[]> {
  "use step";
  return values;
}

export async function main(): Promise<unknown> {
  "use workflow";
  const drawn = [
    Math.random(),
    crypto.randomUUID(),
    [...crypto.getRandomValues(new Uint8Array(4))],
    Date.now(),
  ];
  const kept = await keep(drawn);
  await sleep(5);
  // After a replay the same code draws the same values again.
  const next = Math.random();
  const same = JSON.stringify(kept) === JSON.stringify(drawn);
  return [
    same,
    drawn[0] !== next,
    /^[0-9a-f-]{36}$/.test(String(drawn[1])),
    (await keep([next]))[0] === next,
  ];
}
