/**
 * The host's clock, randomness and log, as arguments: the engine has no ambient ones, so that a
 * simulation can own all three.
 */

export interface Clock {
  /** Epoch ms. */
  now(): number;
  /** Calls back once, `delayMs` from now or later; returns what takes the call back. */
  setTimer(delayMs: number, callback: () => void): () => void;
}

export interface Random {
  /** Bytes that nobody can guess (or, in a simulation, that follow from its seed). */
  bytes(count: number): Uint8Array;
}

export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Log;
}
