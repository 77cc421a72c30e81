/** What goes wrong: in bodies, at the call, in the workflow itself. */
import { sleep } from "workflow";
import type { Input } from "./input.ts";
import { act, brittle, once, take } from "./steps.ts";

const DAY_MS = 86_400_000;

export async function retriedSteps({ canary, width, ms }: Input) {
  "use workflow";
  const done: string[] = [];
  for (let i = 0; i < width; i++) {
    done.push(await act(canary, `r${i}`, { ms, failures: i % 3 }));
  }
  return { canary, done };
}

export async function retriedInDays({ canary, ms }: Input) {
  "use workflow";
  const plan = { ms, failures: 2, how: "retryable", retryMs: 3 * DAY_MS } as const;
  const [slow, fast] = await Promise.all([
    act(canary, "slow", plan),
    act(canary, "now", { ...plan, retryMs: 0 }),
  ]);
  return { canary, done: [slow, fast] };
}

export async function exhausted({ canary, ms }: Input) {
  "use workflow";
  try {
    await brittle(canary, "never", { ms, failures: 99 });
    return { canary, caught: "nothing" };
  } catch (error) {
    await act(canary, "mend", { ms });
    return { canary, caught: error instanceof Error ? error.name : typeof error };
  }
}

export async function compensated({ canary, width, ms }: Input) {
  "use workflow";
  const undo: string[] = [];
  try {
    for (let i = 0; i < width; i++) {
      await act(canary, `do${i}`, { ms });
      undo.unshift(`undo${i}`);
    }
    await act(canary, "last", { ms, failures: 99, how: "fatal" });
  } catch {
    for (const label of undo) await act(canary, label, { ms });
  }
  return { canary, undone: undo };
}

export async function nestedTries({ canary, ms }: Input) {
  "use workflow";
  const trace: string[] = [];
  try {
    try {
      await act(canary, "inner", { ms, failures: 99, how: "fatal" });
    } catch {
      trace.push("inner");
      await act(canary, "middle", { ms, failures: 99, how: "fatal" });
    } finally {
      trace.push("finally");
      await sleep(ms);
    }
  } catch {
    trace.push("outer");
    trace.push(await act(canary, "mended", { ms }));
  }
  return { canary, trace };
}

export async function unserializable({ canary, ms }: Input) {
  "use workflow";
  const sibling = act(canary, "sibling", { ms });
  let caught = "nothing";
  try {
    await take(() => ms);
  } catch (error) {
    caught = error instanceof Error ? "error" : typeof error;
  }
  return { canary, caught, sibling: await sibling };
}

/** A body that a crash cut off is not run again, so its failure is one of the right outcomes. */
export async function onceSteps({ canary, width, ms }: Input) {
  "use workflow";
  const settled = await Promise.allSettled(
    Array.from({ length: width }, (_, i) => once(canary, `o${i}`, { ms })),
  );
  return { canary, count: settled.length };
}

export async function failsItself({ canary, ms }: Input) {
  "use workflow";
  await act(canary, "before", { ms });
  throw new TypeError(`${canary} gave up`);
}
