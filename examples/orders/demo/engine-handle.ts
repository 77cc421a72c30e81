/** The demo's hold on its engine process: ask, kill, start again. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import type { DeliveryLine, Request, Said } from "./messages.ts";

/** An answer that says no, with the code that Baton gave. */
export class Refused extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The process died before it answered: what was asked may or may not have been done. */
export class Unanswered extends Error {}

export interface EngineWatcher {
  onDelivery(line: DeliveryLine, life: number): void;
  onTrouble(text: string): void;
}

export class EngineHandle {
  readonly #folder: string;
  readonly #ledger: string;
  readonly #watcher: EngineWatcher;
  #child: ChildProcess | null = null;
  #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #lastId = 0;
  /** How many processes there have been. */
  life = 0;

  constructor(folder: string, ledger: string, watcher: EngineWatcher) {
    this.#folder = folder;
    this.#ledger = ledger;
    this.#watcher = watcher;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts a process; resolves once it takes requests. */
  async open(): Promise<{ startMs: number }> {
    this.life += 1;
    const life = this.life;
    const child = fork(join(import.meta.dirname, "engine-process.ts"), [this.#folder], {
      execArgv: ["--import", "tsx"],
      env: { ...process.env, ORDERS_LEDGER: this.#ledger },
    });
    this.#child = child;
    return new Promise((resolve, reject) => {
      child.on("message", (said: Said) => {
        if (said.kind === "ready") resolve(said);
        else this.#take(said, life);
      });
      child.once("exit", (code, signal) => {
        reject(new Error(`the engine process ended: ${signal ?? code}`));
        this.#abandon();
      });
    });
  }

  ask<T>(request: Request): Promise<T> {
    const child = this.#child;
    if (child === null || !child.connected) return Promise.reject(new Unanswered("no process"));
    const id = (this.#lastId += 1);
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      child.send({ id, request }, (error) => {
        if (error !== null) reject(new Unanswered(error.message));
      });
    });
  }

  /** SIGKILL: the process gets no chance to put anything in order. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  async close(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    await this.ask({ kind: "close" });
    await gone;
  }

  #take(said: Exclude<Said, { kind: "ready" }>, life: number): void {
    switch (said.kind) {
      case "delivery":
        this.#watcher.onDelivery(said.line, life);
        break;
      case "trouble":
        this.#watcher.onTrouble(said.text);
        break;
      case "reply":
        this.#waiting.get(said.id)?.resolve(said.value);
        this.#waiting.delete(said.id);
        break;
      case "refused":
        this.#waiting.get(said.id)?.reject(new Refused(said.code, said.message));
        this.#waiting.delete(said.id);
        break;
    }
  }

  #abandon(): void {
    for (const asked of this.#waiting.values()) asked.reject(new Unanswered("the process died"));
    this.#waiting.clear();
    this.#child = null;
  }
}
