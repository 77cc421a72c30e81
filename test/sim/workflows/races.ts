/** Races of steps, hooks and sleeps in every pairing; who wins decides what is asked next. */
import { createHook, sleep } from "workflow";
import { hop } from "./input.ts";
import type { Input } from "./input.ts";
import { act } from "./steps.ts";

type Racer = readonly [name: string, promise: Promise<unknown>];

/** Each branch goes on by itself after it has resumed, so ids depend on the order of resumption. */
async function race({ canary, hops, ms }: Input, racers: readonly Racer[]) {
  const branches = racers.map(async ([name, promise]) => {
    await promise;
    await hop(hops);
    const at = Date.now();
    await act(canary, `after-${name}`, { ms });
    return { name, at };
  });
  const winner = await Promise.race(branches);
  // The clock decides as well: it must be the same on every replay.
  await sleep(winner.at % 2 === 0 ? ms : ms * 2);
  await act(canary, `won-${winner.name}`, { ms });
  return { canary, isKnown: racers.some(([name]) => name === winner.name) };
}

export async function stepAgainstHook(input: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${input.token}/a` });
  return race(input, [
    ["step", act(input.canary, "racer", { ms: input.ms })],
    ["hook", Promise.resolve(hook)],
  ]);
}

export async function stepAgainstSleep(input: Input) {
  "use workflow";
  return race(input, [
    ["step", act(input.canary, "racer", { ms: input.ms })],
    ["sleep", sleep(input.ms)],
  ]);
}

export async function hookAgainstSleep(input: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${input.token}/a` });
  return race(input, [
    ["hook", Promise.resolve(hook)],
    ["sleep", sleep(input.ms)],
  ]);
}

export async function sleepAgainstSleep(input: Input) {
  "use workflow";
  return race(input, [
    ["first", sleep(input.ms)],
    ["second", sleep(input.ms)],
  ]);
}

export async function stepAgainstStep(input: Input) {
  "use workflow";
  return race(input, [
    ["slow", act(input.canary, "slow", { ms: input.ms * 3 })],
    ["fast", act(input.canary, "fast", { ms: input.ms })],
    ["middle", act(input.canary, "middle", { ms: input.ms * 2 })],
  ]);
}

export async function hookAgainstHook(input: Input) {
  "use workflow";
  const [one, other] = [
    createHook<string>({ token: `${input.token}/a` }),
    createHook<string>({ token: `${input.token}/b` }),
  ];
  return race(input, [
    ["a", Promise.resolve(one)],
    ["b", Promise.resolve(other)],
  ]);
}

/** All three, over and over. */
export async function raceLoop({ canary, token, hops, width, ms }: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${token}/a` });
  const wins: string[] = [];
  for (let i = 0; i < width; i++) {
    wins.push(
      await Promise.race([
        hook.then(() => "hook"),
        sleep(ms).then(() => "sleep"),
        act(canary, `turn${i}`, { ms }).then(() => "step"),
      ]),
    );
    await hop(hops);
  }
  return { canary, turns: wins.length };
}
