/** A tenant's project whose workflows and steps reach outside of themselves in every way there is. */
export const OUTSIDE_SOURCE = `
import { createHook, createWebhook, fetch, getWritable, setAttributes, sleep } from "workflow";
import { getHookByToken, getRun, resumeHook, start } from "workflow/api";

async function write(out, chunks, isLast) {
  "use step";
  const writer = out.getWriter();
  for (const chunk of chunks) await writer.write(chunk);
  if (isLast) await writer.close();
  else writer.releaseLock();
}

async function writeUnawaited(namespace, count) {
  "use step";
  const writer = getWritable({ namespace }).getWriter();
  for (let i = 0; i < count; i++) void writer.write(i);
  void writer.close();
}

export async function chapters() {
  "use workflow";
  const out = getWritable();
  await write(out, ["a", { b: 1n }, new Uint8Array([1, 2])], false);
  await write(out, ["c"], true);
  await writeUnawaited("numbers", 5);
}

async function flood() {
  "use step";
  const writer = getWritable({ namespace: "flood" }).getWriter();
  try {
    for (let i = 0; i < 100; i++) await writer.write(new Uint8Array(100_000));
    return "all of it";
  } catch (error) {
    return error.code;
  }
}

export async function flooding() {
  "use workflow";
  return flood();
}

async function lines(count) {
  "use step";
  return new ReadableStream({
    start(controller) {
      for (let i = 0; i < count; i++) controller.enqueue("line " + i);
      controller.close();
    },
  });
}

async function joined(stream) {
  "use step";
  const all = [];
  for await (const line of stream) all.push(line);
  return all.join();
}

export async function handedOn() {
  "use workflow";
  return joined(await lines(3));
}

async function tag(key) {
  "use step";
  await setAttributes({ [key]: "set" });
  return setAttributes({ k: "v".repeat(300) }).then(() => "set", () => "refused");
}

export async function tagged() {
  "use workflow";
  await setAttributes({ early: "yes" });
  return tag("late");
}

export async function double(n) {
  "use workflow";
  return n * 2;
}

export async function failing() {
  "use workflow";
  throw new Error("no luck");
}

async function startInStep(n) {
  "use step";
  return start(double, [n]);
}

async function valueInStep(run) {
  "use step";
  return [await run.exists, await run.returnValue];
}

export async function children() {
  "use workflow";
  const own = await start(double, [4]);
  const other = await startInStep(5);
  const lost = await start(failing, []);
  let caught = null;
  try {
    await lost.returnValue;
  } catch (error) {
    caught = [error.name, error.cause.message];
  }
  return [await own.returnValue, await valueInStep(other), await own.status, caught];
}

export async function dozing() {
  "use workflow";
  await sleep("30d");
}

export async function cancelling() {
  "use workflow";
  const run = await start(dozing, []);
  await run.cancel();
  try {
    await run.returnValue;
  } catch (error) {
    return [error.name, await run.status];
  }
}

async function untilAborted(signal) {
  "use step";
  return new Promise((resolve) => {
    if (signal.aborted) resolve("at once: " + signal.reason);
    signal.addEventListener("abort", () => resolve("told: " + signal.reason));
  });
}

async function work() {
  "use step";
}

export async function abortedByWorkflow() {
  "use workflow";
  const controller = new AbortController();
  const told = untilAborted(controller.signal);
  await work();
  controller.abort("enough");
  return told;
}

async function throwing(signal) {
  "use step";
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  signal.throwIfAborted();
}

export async function abortedUncaught() {
  "use workflow";
  const controller = new AbortController();
  const failed = throwing(controller.signal).catch((reason) => reason);
  await work();
  controller.abort({ why: "enough" });
  return failed;
}

async function abort(controller) {
  "use step";
  controller.abort("from a step");
}

export async function abortedByStep() {
  "use workflow";
  const controller = new AbortController();
  const told = untilAborted(controller.signal);
  await abort(controller);
  const first = await told;
  return [first, controller.signal.aborted, controller.signal.reason, await untilAborted(controller.signal)];
}

export async function listens(signal) {
  "use workflow";
  const told = untilAborted(signal);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  return [await told, signal.aborted, signal.reason, await untilAborted(signal)];
}

export async function abortsChild(isEarly) {
  "use workflow";
  const controller = new AbortController();
  await keep(controller.signal);
  if (isEarly) controller.abort("parent says so");
  const child = await start(listens, [controller.signal]);
  if (!isEarly) {
    await untilStarted(child);
    controller.abort("parent says so");
  }
  return child.returnValue;
}

async function keep() {
  "use step";
}

async function untilStarted(run) {
  "use step";
  if ((await run.status) === "pending") throw new Error("not yet");
}

export async function aborts(controller) {
  "use workflow";
  controller.abort("child says so");
  return controller.signal.aborted;
}

export async function abortedByChild() {
  "use workflow";
  const controller = new AbortController();
  const told = untilAborted(controller.signal);
  const child = await start(aborts, [controller]);
  const isAborted = await child.returnValue;
  return [await told, controller.signal.reason, isAborted];
}

async function lookUp(token) {
  "use step";
  const seen = [];
  for (const ask of [() => resumeHook(token, { reason: "forged" }), () => getHookByToken(token)]) {
    await ask().then(() => seen.push("found"), (error) => seen.push(error.name));
  }
  return seen;
}

export async function guardsSignal(token) {
  "use workflow";
  const controller = new AbortController();
  const told = untilAborted(controller.signal);
  const hook = createHook({ token });
  const known = await hook;
  const seen = await lookUp(known);
  const before = controller.signal.aborted;
  controller.abort("own");
  return [seen, before, await told];
}

async function send(token, payload) {
  "use step";
  await resumeHook(token, payload);
}

export async function hooked(token) {
  "use workflow";
  const hook = createHook({ token });
  if (await hook.getConflict()) return "taken";
  await send(token, { n: 1 });
  await send(token, { n: 2 });
  const seen = [];
  for await (const { n } of hook) {
    seen.push(n);
    if (seen.length === 2) break;
  }
  return seen;
}

export async function guarded(token) {
  "use workflow";
  const hook = createHook({ token, experimental_minRetention: "1h" });
  const holder = await hook.getConflict();
  if (holder !== null) return "held by " + holder.runId;
  return hook;
}

export async function claimed(token) {
  "use workflow";
  const hook = createHook({ token });
  try {
    return await hook;
  } catch (error) {
    return error.name;
  }
}

export async function claimer(token) {
  "use workflow";
  return createHook({ token, experimental_force: true });
}

async function note(url) {
  "use step";
  await getWritable().getWriter().write(url);
}

export async function webhook(kind) {
  "use workflow";
  const respondWith =
    kind === "static" ? new Response("thanks", { status: 201, headers: { "x-a": "b" } })
    : kind === "manual" ? "manual" : undefined;
  const hook = createWebhook({ respondWith });
  await note(hook.token);
  const request = await hook;
  const body = await request.text();
  if (kind === "manual") await request.respondWith(new Response("you said " + body, { status: 200 }));
  if (kind === "streamed") return answer(request);
  return [request.method, body];
}

export async function address() {
  "use workflow";
  const { url, token } = createWebhook();
  return [url, token];
}

async function answer(request) {
  "use step";
  return [request.method, await request.text()];
}

async function answerInParts(request) {
  "use step";
  const body = new ReadableStream({
    start(controller) {
      for (const part of ["one ", "two"]) controller.enqueue(new TextEncoder().encode(part));
      controller.close();
    },
  });
  await request.respondWith(new Response(body, { headers: { "x-parts": "2" } }));
}

export async function webhookInStep() {
  "use workflow";
  const hook = createWebhook({ respondWith: "manual" });
  await note(hook.token);
  await answerInParts(await hook);
}
`;
