/**
 * The main thread's end of the local World: collects calls into batches and hands effects on.
 *
 * Owns the one batch in flight. Everything that is asked meanwhile goes into the next one, and so
 * into one transaction: group commit across runs, whatever the callers are.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { BatonError } from "../../engine/errors.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type { Core } from "../core.ts";
import { crossed } from "../crossing.ts";
import type { Effects, LedgerCall } from "../ledger.ts";
import { fairBatch } from "./fair-batch.ts";
import type { CallResult, Control, FromThread, ThreadSetup, ToThread } from "./protocol.ts";

/**
 * Calls of one transaction: bounds how long a commit takes, and so how long anybody waits for one
 * that others' calls fill. From here on the disk's own price is a small part of a commit.
 */
const BATCH_CALLS_MAX = 128;

const READS: Readonly<Record<LedgerCall["part"], readonly string[]>> = {
  events: ["list", "get"],
  rows: ["run", "runs", "entity", "entities", "open", "hookByToken", "countOpen"],
  cells: [
    "snapshot",
    "snapshotSizes",
    "bundle",
    "bundles",
    "alias",
    "aliases",
    "blob",
    "streamInfo",
    "chunks",
    "streams",
    "tenant",
    "tenants",
  ],
  queue: [],
};

interface Pending {
  readonly call: LedgerCall;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

type Settle = Pick<Pending, "resolve" | "reject">;

export class ThreadCore implements Core {
  readonly #worker: Worker;
  readonly #clock: Clock;
  readonly #isReadOnly: boolean;
  #waiting: Pending[] = [];
  #inFlight: readonly Pending[] | null = null;
  readonly #controls: Settle[] = [];
  readonly #afterBatch: (() => void)[] = [];
  #isKicked = false;
  #isPoked = false;
  #gone: Error | null = null;
  #onEffects: (effects: Effects) => void = () => undefined;

  private constructor(worker: Worker, clock: Clock, isReadOnly: boolean) {
    this.#worker = worker;
    this.#clock = clock;
    this.#isReadOnly = isReadOnly;
    worker.on("message", (message: FromThread) => {
      this.#take(message);
    });
    worker.on("error", (error) => {
      this.#end(unavailable("the SQLite thread failed", error));
    });
    worker.on("exit", () => {
      this.#end(unavailable("the SQLite thread has ended"));
    });
  }

  static async open(setup: Omit<ThreadSetup, "now">, clock: Clock): Promise<ThreadCore> {
    const entry = createRequire(import.meta.url).resolve("#built/entries/sqlite-thread.mjs");
    const workerData: ThreadSetup = { ...setup, now: clock.now() };
    const worker = new Worker(entry, { workerData, env: {} });
    await new Promise<void>((resolve, reject) => {
      worker.once("error", reject);
      worker.once("message", (message: FromThread) => {
        if (message.kind === "opened") resolve();
        else if (message.kind === "failed") reject(crossed(message.error));
      });
    });
    return new ThreadCore(worker, clock, setup.isReadOnly);
  }

  call: Core["call"] = async (part, method, ...args) => {
    const call: LedgerCall = { part, method: String(method), args };
    if (this.#gone !== null) throw this.#gone;
    if (this.#isReadOnly && !READS[part].includes(call.method)) {
      throw new BatonError("WORLD_READ_ONLY", "this World was opened for reading", {
        field: call.method,
      });
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve: resolve as Pending["resolve"], reject });
      this.#kick();
    });
  };

  listen(onEffects: (effects: Effects) => void): void {
    this.#onEffects = onEffects;
  }

  poke(): void {
    if (this.#gone !== null) return;
    this.#isPoked = true;
    this.#kick();
  }

  async scrub(): Promise<void> {
    await this.control({ kind: "scrub" });
  }

  async control(control: Control): Promise<unknown> {
    if (this.#gone !== null) throw this.#gone;
    return new Promise((resolve, reject) => {
      this.#controls.push({ resolve, reject });
      this.#post({ kind: "control", control });
    });
  }

  /** What was asked before is still answered. */
  async close(): Promise<void> {
    if (this.#gone !== null) return;
    const exited = new Promise<void>((resolve) => {
      this.#worker.once("exit", () => {
        resolve();
      });
    });
    while (this.#inFlight !== null || this.#waiting.length > 0) {
      await new Promise<void>((resolve) => {
        this.#afterBatch.push(resolve);
        this.#flush();
      });
    }
    const closing = this.control({ kind: "close" });
    this.#gone = new BatonError("CLOSED", "the World was closed");
    await closing;
    await exited;
  }

  /** At the end of this turn, so that all continuations of the turn land in one batch. */
  #kick(): void {
    if (this.#isKicked) return;
    this.#isKicked = true;
    process.nextTick(() => {
      this.#isKicked = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#inFlight !== null || (this.#waiting.length === 0 && !this.#isPoked)) return;
    const { batch, left } = fairBatch(this.#waiting, BATCH_CALLS_MAX);
    this.#waiting = left;
    this.#isPoked = false;
    this.#inFlight = batch;
    const calls = batch.map(({ call }) => call);
    try {
      this.#post({ kind: "batch", now: this.#clock.now(), calls });
    } catch (error) {
      // What cannot be cloned is a bug of the border; nobody may wait for it.
      this.#inFlight = null;
      for (const { reject } of batch) reject(unavailable("a call cannot cross", error));
    }
  }

  #take(message: FromThread): void {
    switch (message.kind) {
      case "batch":
        this.#takeBatch(message.results);
        if (message.effects !== null) this.#onEffects(message.effects);
        return;
      case "control": {
        const settle = this.#controls.shift();
        if (settle !== undefined) answer(settle, message.result);
        return;
      }
      case "opened":
      case "failed":
        return;
      default:
    }
  }

  /** Effects of calls that were tried alone come ahead of the answers, without results. */
  #takeBatch(results: readonly CallResult[]): void {
    const batch = this.#inFlight;
    if (batch === null || results.length !== batch.length) return;
    this.#inFlight = null;
    results.forEach((result, i) => {
      const pending = batch[i];
      if (pending !== undefined) answer(pending, result);
    });
    for (const resolve of this.#afterBatch.splice(0)) resolve();
    if (this.#waiting.length > 0 || this.#isPoked) this.#kick();
  }

  #end(error: Error): void {
    this.#gone ??= error;
    const all = [...(this.#inFlight ?? []), ...this.#waiting, ...this.#controls];
    this.#inFlight = null;
    this.#waiting = [];
    this.#controls.length = 0;
    for (const { reject } of all) reject(this.#gone);
    for (const resolve of this.#afterBatch.splice(0)) resolve();
  }

  #post(message: ToThread): void {
    this.#worker.postMessage(message);
  }
}

function answer({ resolve, reject }: Settle, result: CallResult): void {
  if (result.ok) resolve(result.value);
  else reject(crossed(result.error));
}

function unavailable(message: string, cause?: unknown): BatonError {
  return new BatonError("WORLD_UNAVAILABLE", message, {}, cause);
}
