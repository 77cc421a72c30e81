/**
 * What each tenant has on the wire: open requests, and bytes of the last minute.
 *
 * Owns the two counts of a process, which begin at nothing with it.
 */
import type { EgressFailure } from "../../engine/ports/egress.ts";

const MINUTE_MS = 60_000;

export interface TrafficLimits {
  /** Null: no limit. */
  readonly socketsMax: number | null;
  readonly egressBytesPerMinuteMax: number | null;
}

type Over = Extract<EgressFailure, { kind: "over" }>;

export class Traffic {
  #sockets = 0;
  /** Bytes that count now; they fade evenly, the whole allowance within a minute. */
  #bytes = 0;
  #atMs = 0;

  /** Null: one more request is open, until `releaseSocket`. */
  takeSocket({ socketsMax }: TrafficLimits): Over | null {
    const used = this.#sockets + 1;
    if (socketsMax !== null && used > socketsMax) {
      return { kind: "over", limit: "socketsMax", used, allowed: socketsMax };
    }
    this.#sockets = used;
    return null;
  }

  releaseSocket(): void {
    this.#sockets -= 1;
  }

  /** Null: so many bytes were within the allowance, and count from now on. */
  takeBytes(bytes: number, { egressBytesPerMinuteMax }: TrafficLimits, nowMs: number): Over | null {
    if (egressBytesPerMinuteMax === null) return null;
    const faded = ((nowMs - this.#atMs) / MINUTE_MS) * egressBytesPerMinuteMax;
    const counting = Math.max(0, this.#bytes - Math.max(0, faded));
    this.#atMs = nowMs;
    const used = Math.ceil(counting + bytes);
    const isOver = used > egressBytesPerMinuteMax;
    this.#bytes = isOver ? counting : counting + bytes;
    if (!isOver) return null;
    const allowed = egressBytesPerMinuteMax;
    return { kind: "over", limit: "egressBytesPerMinuteMax", used, allowed };
  }
}
