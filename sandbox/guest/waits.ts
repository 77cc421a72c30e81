/**
 * Sleeps. A wait's identity is the order of calls, not its length: what the log recorded as its
 * deadline wins over what the code computes on a replay.
 */
import { deadlineMs } from "./duration.ts";
import { rejected, settlement } from "./guest.ts";
import type { Guest } from "./guest.ts";

export type Sleep = (duration: number | string | Date) => Promise<void>;

/** Bad input throws at the call, before an id is drawn; a past deadline still becomes an event. */
export function createSleep(guest: Guest): Sleep {
  return function sleep(duration) {
    const at = deadlineMs(duration, guest.clock.read(), "sleep()");
    const { promise, settle } = settlement<void>(guest);
    try {
      guest.operations.open<"wait">({ kind: "wait", at, settle });
    } catch (error) {
      return rejected(error);
    }
    return promise;
  };
}
