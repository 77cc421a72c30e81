/** Many things at once. */
import { sleep } from "workflow";
import { hop } from "./input.ts";
import type { Input } from "./input.ts";
import { act, brittle } from "./steps.ts";

const indexes = (width: number) => Array.from({ length: width }, (_, i) => i);

export async function fanOut({ canary, width, ms }: Input) {
  "use workflow";
  const done = await Promise.all(
    indexes(width).map((i) => act(canary, `f${i}`, { ms: ms + (i % 7) * 10 })),
  );
  return { canary, done };
}

export async function fanOutThenSleep({ canary, width, ms, hops }: Input) {
  "use workflow";
  const done = await Promise.all(
    indexes(width).map(async (i) => {
      const first = await act(canary, `f${i}`, { ms: ms + i });
      await hop(hops);
      await sleep(3_000);
      return first;
    }),
  );
  return { canary, done };
}

export async function chunkedFanOut({ canary, width, ms, hops }: Input) {
  "use workflow";
  const done: string[] = [];
  for (const chunk of indexes(2)) {
    const results = await Promise.all(
      indexes(width).map((i) => act(canary, `k${chunk}.${i}`, { ms: ms * ((i % 3) + 1) })),
    );
    await hop(hops);
    done.push(...results);
  }
  return { canary, done };
}

export async function settledFanOut({ canary, width, ms }: Input) {
  "use workflow";
  const settled = await Promise.allSettled(
    indexes(width).map((i) =>
      i % 3 === 2
        ? brittle(canary, `x${i}`, { ms, failures: 99 })
        : act(canary, `x${i}`, { ms, failures: i % 2 }),
    ),
  );
  await sleep(ms);
  return { canary, settled: settled.map(({ status }) => status) };
}

export async function anyOf({ canary, width, ms }: Input) {
  "use workflow";
  const failing = indexes(width).map((i) =>
    act(canary, `n${i}`, { ms, failures: 99, how: "fatal" }),
  );
  const winner = await Promise.any([...failing, act(canary, "good", { ms: ms * 4 })]);
  return { canary, winner };
}

export async function noneOf({ canary, width, ms }: Input) {
  "use workflow";
  const failing = indexes(width).map((i) =>
    act(canary, `n${i}`, { ms, failures: 99, how: "fatal" }),
  );
  try {
    await Promise.any(failing);
    return { canary, errors: 0 };
  } catch (error) {
    return { canary, errors: error instanceof AggregateError ? error.errors.length : -1 };
  }
}

export async function looseSteps({ canary, width, ms }: Input) {
  "use workflow";
  for (const i of indexes(width)) void act(canary, `loose${i}`, { ms: ms * 50 });
  void sleep("2h");
  const kept = await act(canary, "kept", { ms });
  return { canary, kept };
}
