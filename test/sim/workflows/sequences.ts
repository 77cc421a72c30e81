/** Steps one after another, and everything that a single line of control does. */
import { setAttributes, sleep } from "workflow";
import { hop } from "./input.ts";
import type { Input } from "./input.ts";
import { act } from "./steps.ts";

export async function sequence({ canary, hops, width, ms }: Input) {
  "use workflow";
  const done: string[] = [];
  for (let i = 0; i < width; i++) {
    await hop(hops);
    done.push(await act(canary, `s${i}`, { ms }));
  }
  return { canary, done };
}

export async function stepsAndSleeps({ canary, width, ms }: Input) {
  "use workflow";
  const done: string[] = [];
  for (let i = 0; i < width; i++) {
    done.push(await act(canary, `s${i}`, { ms }));
    await sleep(ms * (i + 1));
  }
  return { canary, done };
}

export async function generatorLoop({ canary, width, ms }: Input) {
  "use workflow";
  async function* results() {
    for (let i = 0; i < width; i++) yield await act(canary, `g${i}`, { ms });
  }
  const done: string[] = [];
  for await (const result of results()) done.push(result);
  return { canary, done };
}

export async function attributes({ canary, width, ms }: Input) {
  "use workflow";
  for (let i = 0; i < width; i++) {
    await setAttributes({ phase: `p${i}`, [`seen-${i}`]: "yes" });
    await act(canary, `a${i}`, { ms });
  }
  await setAttributes({ phase: undefined });
  return { canary, width };
}

export async function clockReader({ canary, width, ms }: Input) {
  "use workflow";
  const times = [Date.now()];
  for (let i = 0; i < width; i++) {
    await (i % 2 === 0 ? sleep(ms) : act(canary, `c${i}`, { ms }));
    times.push(Date.now());
  }
  return { canary, isOrdered: times.every((time, i) => i === 0 || time >= (times[i - 1] ?? 0)) };
}

export async function randomReader({ canary, width, ms }: Input) {
  "use workflow";
  const drawn: number[] = [];
  for (let i = 0; i < width; i++) {
    drawn.push(Math.floor(Math.random() * 1_000));
    await act(canary, `r${drawn.at(-1)}`, { ms });
  }
  return { canary, count: new Set(drawn.map((value) => Math.floor(value / 1_000))).size };
}

export async function reduceTree({ canary, width, ms }: Input) {
  "use workflow";
  let level = Array.from({ length: width }, (_, i) => `${i}`);
  while (level.length > 1) {
    const pairs: string[][] = [];
    for (let i = 0; i < level.length; i += 2) pairs.push(level.slice(i, i + 2));
    level = await Promise.all(
      pairs.map(async (pair) => {
        await act(canary, `t${pair.join("+")}`, { ms });
        return `(${pair.join(" ")})`;
      }),
    );
  }
  return { canary, tree: level[0] ?? "" };
}
