let counter = 0;
const table = new Map<string, number>();

async function bump(): Promise<number> {
  "use step";
  counter += 1;
  return counter;
}

export async function main(): Promise<unknown> {
  "use workflow";
  counter += 10;
  table.set("seen", counter);
  // Each attempt of a step, and each run, has modules of its own.
  const bumped = [await bump(), await bump()];
  return [counter, table.size, bumped];
}
