/** Hooks: once, in loops, buffered, taken by another, disposed. */
import { createHook, sleep } from "workflow";
import { hop } from "./input.ts";
import type { Input } from "./input.ts";
import { act } from "./steps.ts";

export async function hookOnce({ canary, token, ms }: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${token}/a` });
  await act(canary, "before", { ms });
  const payload = await hook;
  await act(canary, "after", { ms });
  return { canary, payload };
}

export async function hookLoop({ canary, token, hops, ms }: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${token}/a` });
  const seen: string[] = [];
  for await (const payload of hook) {
    await hop(hops);
    seen.push(payload);
    if (payload === "stop") break;
    await act(canary, `got-${payload}`, { ms });
  }
  return { canary, last: seen.at(-1) ?? "" };
}

/** Payloads come while nobody awaits them. */
export async function hookBuffered({ canary, token, hops, ms }: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${token}/a` });
  await act(canary, "long", { ms: ms * 20 });
  await hop(hops);
  const first = await hook;
  const second = await hook;
  return { canary, payloads: [first, second].sort() };
}

export async function hookDisposed({ canary, token, ms }: Input) {
  "use workflow";
  const hook = createHook<string>({ token: `${token}/a` });
  const got = await Promise.race([hook, sleep(ms).then(() => "nothing")]);
  hook.dispose();
  await act(canary, "after", { ms });
  return { canary, isText: typeof got === "string" };
}

/** Two hooks under one token: the second one conflicts with the first. */
export async function hookConflict({ canary, token, ms }: Input) {
  "use workflow";
  const owner = createHook<string>({ token: `${token}/a` });
  await act(canary, "between", { ms });
  const second = createHook<string>({ token: `${token}/a` });
  const conflict = await second.getConflict();
  const payload = await owner;
  return { canary, isTaken: conflict !== null, payload };
}

export async function manyHooks({ canary, token, width, ms }: Input) {
  "use workflow";
  const hooks = ["a", "b", "c"].map((name) => createHook<string>({ token: `${token}/${name}` }));
  const results = await Promise.all(
    hooks.map(async (hook, i) => {
      const payload = await hook;
      for (let k = 0; k < Math.min(width, 3); k++) await act(canary, `h${i}.${k}`, { ms });
      return payload;
    }),
  );
  return { canary, results };
}

/** A token is given back and taken again, at last by a hook that is open when the run ends. */
export async function hookReused({ canary, token, ms }: Input) {
  "use workflow";
  const first = createHook<string>({ token: `${token}/a` });
  const payload = await first;
  first.dispose();
  const second = createHook<string>({ token: `${token}/a` });
  const conflict = await second.getConflict();
  await act(canary, "between", { ms });
  second.dispose();
  createHook<string>({ token: `${token}/a` });
  return { canary, payload, isFree: conflict === null };
}

/** A guard by token: steps that are asked for meanwhile run, though none in place before its answer. */
export async function hookGuard({ canary, token, width, ms }: Input) {
  "use workflow";
  const work = Array.from({ length: width }, (_, i) => act(canary, `w${i}`, { ms }));
  const guard = createHook<string>({ token: `${token}/a` });
  const twin = createHook<string>({ token: `${token}/a` });
  const [mine, other] = await Promise.all([guard.getConflict(), twin.getConflict()]);
  await Promise.all(work);
  return { canary, isMine: mine === null, isTaken: other !== null };
}
