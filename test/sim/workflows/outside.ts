/** What reaches outside of its run: other runs, signals, streams, webhooks, tokens of others. */
import { createHook, createWebhook, getWritable, setAttributes, sleep } from "workflow";
import { start } from "workflow/api";
import type { Input } from "./input.ts";
import { abortIt, act, emit, listen, mention, read, scribe, tag } from "./steps.ts";

const childOf = (input: Input, name: string): Input => ({
  ...input,
  token: `${input.token}/${name}`,
});

const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    else signal.addEventListener("abort", () => resolve(signal.reason));
  });

export async function child({ canary, token, ms }: Input) {
  "use workflow";
  return { canary, did: await act(canary, `in-${token}`, { ms }) };
}

/** Children side by side, each awaited through its handle. */
export async function parent(input: Input) {
  "use workflow";
  const { canary, width } = input;
  const names = Array.from({ length: Math.min(width, 3) }, (_, i) => `c${i}`);
  const runs = await Promise.all(names.map((name) => start(child, [childOf(input, name)])));
  const values = await Promise.all(runs.map((run) => run.returnValue));
  return { canary, dids: values.map(({ did }) => did) };
}

export async function sleeper({ canary }: Input) {
  "use workflow";
  await sleep("30d");
  return { canary };
}

export async function childCancelled(input: Input) {
  "use workflow";
  const run = await start(sleeper, [childOf(input, "s")]);
  await run.cancel();
  const caught = await run.returnValue.then(
    () => "nothing",
    (error: Error) => error.name,
  );
  return { canary: input.canary, caught, status: await run.status };
}

export async function abortedByWorkflow({ canary, ms }: Input) {
  "use workflow";
  const controller = new AbortController();
  const told = listen(canary, "listener", { ms }, controller.signal);
  // Longer than some invocations are.
  await sleep(ms * 200);
  controller.abort("enough");
  return { canary, told: await told };
}

export async function abortedByStep({ canary, ms }: Input) {
  "use workflow";
  const controller = new AbortController();
  const told = listen(canary, "listener", { ms }, controller.signal);
  await abortIt(canary, "aborter", { ms }, controller);
  const reason = await aborted(controller.signal);
  return { canary, told: await told, reason };
}

export async function follower({ canary, ms }: Input, signal: AbortSignal) {
  "use workflow";
  const told = listen(canary, "listener", { ms }, signal);
  const reason = await aborted(signal);
  return { canary, told: await told, reason };
}

/** A child that holds the signal hears of its abort whenever that is. */
export async function abortsChild(input: Input) {
  "use workflow";
  const { canary, ms } = input;
  const controller = new AbortController();
  const [run] = await Promise.all([
    start(follower, [childOf(input, "f"), controller.signal]),
    act(canary, "beside", { ms: ms * 3 }),
  ]);
  controller.abort("family");
  const { told, reason } = await run.returnValue;
  return { canary, told, reason };
}

export async function abortsOnReturn({ canary }: Input, controller: AbortController) {
  "use workflow";
  controller.abort("last words");
  return { canary };
}

/** Aborted by a child that returns at once. */
export async function abortedByChild(input: Input) {
  "use workflow";
  const { canary, ms } = input;
  const controller = new AbortController();
  const told = listen(canary, "listener", { ms }, controller.signal);
  await start(abortsOnReturn, [childOf(input, "a"), controller]);
  return { canary, told: await told, reason: await aborted(controller.signal) };
}

/** Several steps write to two streams; one writes on behind its outcome. */
export async function writers({ canary, width, ms }: Input) {
  "use workflow";
  const out = getWritable();
  const log = getWritable({ namespace: "log" });
  await scribe(canary, "first", { ms, chunks: width }, out);
  await Promise.all([
    scribe(canary, "left", { ms, chunks: 2, failures: 1 }, out),
    scribe(canary, "right", { ms: ms + 1, chunks: 3 }, log),
  ]);
  await scribe(canary, "late", { ms, chunks: 2, flushMs: 5_000 }, log);
  return { canary, done: await act(canary, "after", { ms }) };
}

export async function piped({ canary, width, ms }: Input) {
  "use workflow";
  const stream = await emit(canary, "source", { ms, chunks: width });
  return { canary, read: await read(canary, "sink", { ms }, stream) };
}

/** Attributes set by the workflow and by its steps: the last one by slot counts. */
export async function tagged({ canary, width, ms }: Input) {
  "use workflow";
  await setAttributes({ stage: "begun", gone: "soon" });
  await Promise.all(
    Array.from({ length: width }, (_, i) => tag(canary, `t${i}`, { ms: ms * (i % 3) })),
  );
  await setAttributes({ stage: "ended", gone: undefined });
  return { canary, width };
}

export async function victim({ canary, token }: Input) {
  "use workflow";
  const hook = createHook<string>({ token: token.replace("/v", "/a") });
  try {
    return { canary, got: await hook };
  } catch (error) {
    return { canary, got: (error as Error).name };
  }
}

/** Takes its child's token by force, or has it first. */
export async function claimer(input: Input) {
  "use workflow";
  const { canary, token, ms } = input;
  const run = await start(victim, [childOf(input, "v")]);
  await sleep(ms);
  const hook = createHook<string>({ token: `${token}/a`, experimental_force: true });
  const payload = await Promise.race([hook, sleep("1h").then(() => "nothing")]);
  await run.cancel();
  return { canary, payload };
}

export async function keeper({ canary, token }: Input) {
  "use workflow";
  const hook = createHook<string>({ token, experimental_minRetention: "12h" });
  return { canary, isMine: (await hook.getConflict()) === null };
}

/** A token that was kept past its run's end is refused until its time. */
export async function kept(input: Input) {
  "use workflow";
  const { canary, token } = input;
  const run = await start(keeper, [childOf(input, "k")]);
  const { isMine } = await run.returnValue;
  const early = createHook<string>({ token: `${token}/k` });
  const isTaken = (await early.getConflict()) !== null;
  await sleep("1d");
  const late = createHook<string>({ token: `${token}/k` });
  const isFree = (await late.getConflict()) === null;
  late.dispose();
  return { canary, isMine, isTaken, isFree };
}

export async function webhookDefault({ canary, ms }: Input) {
  "use workflow";
  const hook = createWebhook();
  await mention(canary, "told", { ms }, hook.token);
  const { method } = await hook;
  return { canary, method };
}

export async function webhookStatic({ canary, ms }: Input) {
  "use workflow";
  const hook = createWebhook({ respondWith: new Response(null, { status: 204 }) });
  await mention(canary, "told", { ms }, hook.token);
  const { method } = await hook;
  return { canary, method };
}

export async function webhookManual({ canary, ms }: Input) {
  "use workflow";
  const hook = createWebhook({ respondWith: "manual" });
  await mention(canary, "told", { ms }, hook.token);
  const request = await hook;
  await act(canary, "thinks", { ms });
  await request.respondWith(new Response(null, { status: 201 }));
  return { canary, method: request.method };
}
