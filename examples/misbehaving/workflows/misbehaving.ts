/** Programs of a tenant that takes what it can; what each is told is in the README. */
import { getRun, resumeHook } from "workflow/api";

async function echo<T>(value: T): Promise<T> {
  "use step";
  return value;
}

async function spin(): Promise<void> {
  "use step";
  for (;;);
}
spin.maxRetries = 0;

async function request(url: string): Promise<number> {
  "use step";
  return (await fetch(url)).status;
}
request.maxRetries = 0;

/** What a call came to, as text. */
async function told(work: () => Promise<unknown>): Promise<string> {
  try {
    return `allowed: ${String(await work())}`;
  } catch (error) {
    const { name, message } = error as Error;
    return `${name}: ${message}`;
  }
}

export async function loopsForEver(): Promise<void> {
  "use workflow";
  for (;;) {
    try {
      for (;;);
    } catch {
      // It does not take a hint.
    }
  }
}

export async function loopsInOneCall(): Promise<void> {
  "use workflow";
  Array.prototype.reverse.call({ length: 2 ** 50 });
}

export async function hoardsMemory(): Promise<number> {
  "use workflow";
  const held: Uint8Array[] = [];
  for (let i = 0; i < 100; i++) held.push(new Uint8Array(1 << 20).fill(i));
  return held.length;
}

export async function floodsWithSteps(count: number): Promise<unknown> {
  "use workflow";
  const settled = await Promise.allSettled(Array.from({ length: count }, (_, i) => echo(i)));
  const refused = settled.filter((one) => one.status === "rejected");
  return [refused.length, String(refused[0]?.reason)];
}

export async function sendsTooMuch(bytes: number): Promise<unknown> {
  "use workflow";
  return [await told(() => echo("x".repeat(bytes))), await told(() => echo("small"))];
}

export async function spinsInAStep(): Promise<string> {
  "use workflow";
  return told(spin);
}

export async function callsHome(): Promise<string[]> {
  "use workflow";
  const urls = ["https://evil.example/", "http://169.254.169.254/latest/meta-data/"];
  return Promise.all(urls.map((url) => told(() => request(url))));
}

export async function makesCode(): Promise<string[]> {
  "use workflow";
  const scope = globalThis as unknown as Record<string, ((code: string) => unknown) | undefined>;
  const ways = [
    () => scope["eval"]?.("1"),
    () => (async () => undefined).constructor("return 1"),
    () => scope["require"]?.("node:fs"),
    () => (scope["process"] as unknown as { exit?: () => void }).exit?.(),
  ];
  return Promise.all(ways.map((way) => told(async () => way())));
}

async function lookAt(runId: string, token: string): Promise<string[]> {
  "use step";
  return [
    String(await getRun(runId).exists),
    await told(() => getRun(runId).status),
    await told(() => getRun(runId).cancel()),
    await told(() => resumeHook(token, "mine now")),
  ];
}

export async function readsNeighbours(runId: string, token: string): Promise<string[]> {
  "use workflow";
  return lookAt(runId, token);
}

export async function behaves(laps: number): Promise<number> {
  "use workflow";
  let sum = 0;
  for (let lap = 0; lap < laps; lap++) sum = await echo(sum + lap);
  return sum;
}
