/** Sleeps: long, many, none, wrong, cut short. */
import { sleep } from "workflow";
import type { Input } from "./input.ts";
import { act } from "./steps.ts";

export async function longSleep({ canary, ms }: Input) {
  "use workflow";
  const startedAt = Date.now();
  await sleep("400d");
  const days = Math.floor((Date.now() - startedAt) / 86_400_000);
  await act(canary, "after", { ms });
  return { canary, isLong: days >= 400 };
}

export async function manySleeps({ canary, width, ms }: Input) {
  "use workflow";
  const order: number[] = [];
  await Promise.all(
    Array.from({ length: width }, async (_, i) => {
      await sleep(ms * (width - i) * 40);
      order.push(i);
    }),
  );
  return { canary, count: order.length };
}

export async function hourAndTwo({ canary, ms }: Input) {
  "use workflow";
  const startedAt = Date.now();
  await Promise.all([sleep("1h"), sleep("2h"), sleep("2h"), sleep(ms)]);
  return { canary, isDue: Date.now() - startedAt >= 7_200_000 };
}

export async function shortSleeps({ canary, ms }: Input) {
  "use workflow";
  await sleep(0);
  await sleep(1);
  await sleep(new Date(0));
  await Promise.all([sleep(0), act(canary, "beside", { ms }), sleep(new Date(Date.now() - 5))]);
  return { canary };
}

export async function wrongSleeps({ canary, ms }: Input) {
  "use workflow";
  let refused = 0;
  for (const wrong of ["abc", Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60]) {
    try {
      await sleep(wrong);
    } catch {
      refused++;
    }
  }
  await act(canary, "after", { ms });
  return { canary, refused };
}

/** Long enough that only a request to wake ends it in the time of the simulation's clients. */
export async function wokenSleep({ canary, ms }: Input) {
  "use workflow";
  await act(canary, "before", { ms });
  await sleep("90d");
  await act(canary, "after", { ms });
  return { canary };
}

/** Cancelled by its client somewhere on its way. */
export async function cancelledOnItsWay({ canary, width, ms }: Input) {
  "use workflow";
  for (let i = 0; i < width * 20; i++) {
    await Promise.all([act(canary, `c${i}`, { ms: ms * 5 }), act(canary, `d${i}`, { ms })]);
    await sleep(ms * 10);
  }
  return { canary };
}
