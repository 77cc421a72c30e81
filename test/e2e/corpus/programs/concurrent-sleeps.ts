import { sleep } from "workflow";

async function quick(): Promise<string> {
  "use step";
  return "step";
}

export async function main(): Promise<unknown> {
  "use workflow";
  const order: string[] = [];
  const named = async (name: string, ms: number) => {
    await sleep(ms);
    order.push(name);
  };
  await Promise.all([named("late", 80), named("early", 10), named("middle", 40)]);
  const winner = await Promise.race([quick(), sleep("1h").then(() => "sleep")]);
  return [order, winner];
}
