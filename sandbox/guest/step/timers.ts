/** Timers of a step's body, kept by the host. */
import type { ReportThrown } from "../web/events.ts";
import { define, isFiniteNumber, promiseThen } from "../primordials.ts";
import type { HostCalls } from "./host-calls.ts";

type Callback = (...args: unknown[]) => unknown;

export function installTimers(scope: object, calls: HostCalls, report: ReportThrown): void {
  /** Call numbers of intervals, by the number that was given out. */
  const current = new Map<number, number>();

  function start(callback: Callback, ms: unknown, args: unknown[], repeats: boolean): number {
    if (typeof callback !== "function") throw new TypeError("a timer takes a function");
    const wanted = Number(ms ?? 0);
    const delay = isFiniteNumber(wanted) && wanted > 0 ? Math.ceil(wanted) : 0;
    let id = -1;
    const arm = (): void => {
      const { n, answer } = calls.ask({ kind: "timer", members: `"ms":${delay}` });
      if (id < 0) id = n + 1;
      current.set(id, n);
      void promiseThen(answer, fire, () => void current.delete(id));
    };
    const fire = (): void => {
      if (!current.has(id)) return;
      if (!repeats) current.delete(id);
      try {
        callback(...args);
      } catch (error) {
        report(error);
      }
      if (repeats && current.has(id)) arm();
    };
    arm();
    return id;
  }

  const clear = (id: unknown): void => {
    const n = typeof id === "number" ? current.get(id) : undefined;
    if (n === undefined) return;
    current.delete(id as number);
    calls.cancel(n);
  };
  define(scope, "setTimeout", (callback: Callback, ms?: unknown, ...args: unknown[]) =>
    start(callback, ms, args, false),
  );
  define(scope, "setInterval", (callback: Callback, ms?: unknown, ...args: unknown[]) =>
    start(callback, ms, args, true),
  );
  define(scope, "setImmediate", (callback: Callback, ...args: unknown[]) =>
    start(callback, 0, args, false),
  );
  for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) {
    define(scope, name, clear);
  }
}
