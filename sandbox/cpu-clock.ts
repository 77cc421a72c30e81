/**
 * CPU time of one thread, read from inside it or from any other thread of the process.
 *
 * On Linux the kernel's own accounting is used; elsewhere the process's CPU time, which is an
 * upper bound of the thread's, so that limits still hold, only earlier under load.
 */
import { closeSync, openSync, readSync, readlinkSync } from "node:fs";

export interface CpuClock {
  /** CPU ms that the thread has used in its life; null once the thread is gone. */
  nowMs(): number | null;
  close(): void;
}

/** USER_HZ, which Linux fixes for everything it shows to programs. */
const TICKS_PER_SECOND = 100;
/** Fields of /proc/<pid>/stat after the command's name in parentheses. */
const STAT_USER_TICKS = 11;
const STAT_SYSTEM_TICKS = 12;

/** The id of the calling thread, for `cpuClockOf`; null where the system has no such ids. */
export function ownThreadId(): number | null {
  try {
    const id = Number(readlinkSync("/proc/thread-self").split("/").at(-1));
    return Number.isSafeInteger(id) && id > 0 ? id : null;
  } catch {
    return null;
  }
}

/** The clock of a thread of this process. */
export function cpuClockOf(threadId: number | null): CpuClock {
  if (threadId !== null) {
    const folder = `/proc/self/task/${threadId}`;
    for (const [file, parse] of [
      ["schedstat", msOfSchedstat],
      ["stat", msOfStat],
    ] as const) {
      const clock = fileClock(`${folder}/${file}`, parse);
      // A kernel without this accounting shows zeros, which no thread that runs has.
      if ((clock?.nowMs() ?? 0) > 0) return clock as CpuClock;
      clock?.close();
    }
  }
  return {
    nowMs() {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
    close() {},
  };
}

function fileClock(path: string, parse: (text: string) => number): CpuClock | null {
  let descriptor: number;
  try {
    descriptor = openSync(path, "r");
  } catch {
    return null;
  }
  const buffer = Buffer.alloc(512);
  return {
    nowMs() {
      try {
        return parse(
          buffer.toString("latin1", 0, readSync(descriptor, buffer, 0, buffer.length, 0)),
        );
      } catch {
        return null;
      }
    },
    close() {
      closeSync(descriptor);
    },
  };
}

/** "<ns on a CPU> <ns waiting> <time slices>" */
function msOfSchedstat(text: string): number {
  return Number(text.slice(0, text.indexOf(" "))) / 1e6;
}

function msOfStat(text: string): number {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[STAT_USER_TICKS]) + Number(fields[STAT_SYSTEM_TICKS]);
  return (ticks * 1000) / TICKS_PER_SECOND;
}
