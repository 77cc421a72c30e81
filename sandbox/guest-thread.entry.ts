/**
 * A guest thread: the only kind of thread on which tenants' code runs.
 *
 * It gets the compiled module, a few shared words to tell its progress, and orders. It has no
 * environment, no handle of the host's and no way to ask for one.
 */
import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { present } from "../engine/assert.ts";
import { cpuClockOf, ownThreadId } from "./cpu-clock.ts";
import { ProgressWriter } from "./progress.ts";
import { Residence } from "./residence.ts";
import type { CostedAnswer, NumberedOrder, ThreadData, ThreadHello } from "./wire.ts";

/** Called inside a thread it lowers that thread alone: the main thread goes first. */
const LOWEST_PRIORITY = 19;
/** Answers are sent together, unless one has waited for so long, ms. */
const ANSWERS_WAIT_MS = 3;

const port = present(parentPort, "this file runs in a thread of its own");
const { module, progress } = workerData as ThreadData;
try {
  setPriority(LOWEST_PRIORITY);
} catch {
  // Some systems have no priorities for threads; nothing relies on it.
}
const threadId = ownThreadId();
const clock = cpuClockOf(threadId);
const writer = new ProgressWriter(progress, clock);
const residence = new Residence(module, clock, writer);

port.on("message", (orders: readonly NumberedOrder[]) => {
  let answers: CostedAnswer[] = [];
  let sentMs = performance.now();
  let usedMs = clock.nowMs() ?? 0;
  for (const { number, order } of orders) {
    writer.turnTo("heapId" in order ? order.heapId : 0);
    const answer = residence.perform(order);
    const nowMs = clock.nowMs() ?? usedMs;
    answers.push({ number, answer, cpuMs: nowMs - usedMs });
    usedMs = nowMs;
    if (performance.now() - sentMs < ANSWERS_WAIT_MS) continue;
    port.postMessage(answers);
    answers = [];
    sentMs = performance.now();
  }
  if (answers.length > 0) port.postMessage(answers);
});
port.postMessage({ threadId } satisfies ThreadHello);
