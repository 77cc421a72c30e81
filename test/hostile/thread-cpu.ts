/**
 * CPU time of this process's threads, by the kernel's account: what a program really took, whatever
 * the sandbox says of it. Only on Linux; elsewhere it measures nothing and says so.
 */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const TASKS = "/proc/self/task";
const LOOK_EVERY_MS = 8;
/** How long a thread that was told to end is waited for. */
const END_MS_MAX = 400;

export class ThreadCpu {
  /** The most that one thread took during one pass, ms. */
  slowestMs = 0;
  static readonly isMeasured = existsSync(`/proc/self/task/${process.pid}/schedstat`);
  #before = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;

  passBegins(): void {
    this.#before = cpuOfThreads();
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
  }

  /** Goes on measuring a busy thread until it ends or rests. */
  async passEnded(): Promise<void> {
    this.#look();
    for (let waitedMs = 0; waitedMs < END_MS_MAX; waitedMs += 2 * LOOK_EVERY_MS) {
      const before = cpuOfThreads();
      await sleep(2 * LOOK_EVERY_MS);
      const isBusy = [...cpuOfThreads()].some(
        ([thread, ms]) =>
          ms - (before.get(thread) ?? ms) > LOOK_EVERY_MS && this.#isSlow(thread, ms),
      );
      if (!isBusy) break;
    }
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #isSlow(thread: string, ms: number): boolean {
    return ms - (this.#before.get(thread) ?? 0) >= this.slowestMs;
  }

  #look(): void {
    for (const [thread, ms] of cpuOfThreads()) {
      const before = this.#before.get(thread);
      // A thread that started meanwhile serves what comes next, not this pass.
      if (before !== undefined) this.slowestMs = Math.max(this.slowestMs, ms - before);
    }
  }
}

/** CPU ms of every thread but the main one and those that never run guest code for long. */
function cpuOfThreads(): Map<string, number> {
  const found = new Map<string, number>();
  if (!ThreadCpu.isMeasured) return found;
  for (const thread of readdirSync(TASKS)) {
    if (thread === String(process.pid)) continue;
    try {
      const text = readFileSync(`${TASKS}/${thread}/schedstat`, "latin1");
      found.set(thread, Number(text.slice(0, text.indexOf(" "))) / 1e6);
    } catch {
      // It ended between the listing and the reading.
    }
  }
  return found;
}
