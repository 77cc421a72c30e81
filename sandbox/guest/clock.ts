/**
 * The guest clock: the only time that code in a heap can read.
 *
 * It stands still while code runs. In a workflow it moves only with an event that resumes the
 * workflow's code, to the later of what it was and that event's time, so what code reads is a
 * function of the log position that resumed it. In a step heap the host moves it.
 *
 * The engine's own clock, which formats a Date's local fields, is told each time (P5).
 *
 * Before a heap has its run there is no time: a read tells the host (whose bundle then gets no
 * shared image) and gives 0.
 */
import { DateConstructor, construct, datePrint, define, defineFixed } from "./primordials.ts";

export interface Clock {
  /** Epoch ms; tells the host when it is read before the run is known. */
  read(): number;
  /** The first reading. */
  origin(): number;
  /** Sets the first reading. */
  start(ms: number): void;
  /** Moves forward to `ms`; never back. */
  moveTo(ms: number): void;
}

export interface ClockHost {
  /** The clock is read before the run is known. */
  readTooEarly(): void;
  /** From now on the clock shows this. */
  moved(ms: number): void;
}

export function createClock(host: ClockHost): Clock {
  let now = 0;
  let startedAt = -1;
  return {
    read() {
      if (startedAt < 0) host.readTooEarly();
      return now;
    },
    origin: () => (startedAt < 0 ? 0 : startedAt),
    start(ms) {
      startedAt = ms;
      now = ms;
      host.moved(ms);
    },
    moveTo(ms) {
      if (ms <= now) return;
      now = ms;
      host.moved(ms);
    },
  };
}

/** Replaces `Date` and adds `performance`; afterwards no other clock can be reached. */
export function installClock(scope: object, clock: Clock): void {
  const Native = DateConstructor;
  const prototype = Native.prototype;
  // Not a class: `Date()` without `new` gives text.
  const GuestDate = function Date(this: unknown): unknown {
    if (new.target === undefined) return datePrint(new Native(clock.read()));
    // oxlint-disable-next-line prefer-rest-params
    const given = arguments as unknown as unknown[];
    return construct(Native, given.length === 0 ? [clock.read()] : given, new.target);
  };
  defineFixed(GuestDate, "prototype", prototype);
  define(prototype, "constructor", GuestDate, false);
  define(GuestDate, "now", () => clock.read(), false);
  define(GuestDate, "parse", Native.parse, false);
  define(GuestDate, "UTC", Native.UTC, false);
  define(GuestDate, "length", 7, false);
  define(GuestDate, "name", "Date", false);
  define(scope, "Date", GuestDate, false);

  const performance = {
    get timeOrigin(): number {
      return clock.origin();
    },
    now: (): number => clock.read() - clock.origin(),
    mark: (): undefined => undefined,
    measure: (): undefined => undefined,
  };
  define(scope, "performance", performance, false);
}
