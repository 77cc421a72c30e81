/**
 * The host's own clock, randomness and silence: what a World uses unless it is given others.
 */
import { randomBytes } from "node:crypto";
import type { Clock, Log, Random } from "../engine/ports/host.ts";

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

export const systemRandom: Random = { bytes: (count) => randomBytes(count) };

export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};
