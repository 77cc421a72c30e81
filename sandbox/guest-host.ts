/**
 * One guest host from outside: a child process that is trusted with its own group's heaps and with
 * nothing else. What it says is checked (answers.ts); at the first word that a host of ours would
 * not say, it is killed.
 */
import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import type { Socket } from "node:net";
import { createRequire } from "node:module";
import type { Readable, Writable } from "node:stream";
import { answerIn, goneIn, incidentIn } from "./answers.ts";
import { FrameReader, FrameRefused, frameOf } from "./frames.ts";
import { PendingOrders } from "./pending-orders.ts";
import type { Place } from "./place.ts";
import type { Incident } from "./threads.ts";
import { lostAnswer } from "./wire.ts";
import type { AnswerTo, BundleRef, BundleSource, HeapId, HostHello, Order } from "./wire.ts";

const ENTRY = createRequire(import.meta.url).resolve("#built/entries/guest-host.mjs");
/** "nobody" on every Linux: what a host becomes where its parent is root. */
const NOBODY = 65_534;
/** Between two looks at a host that does not answer, ms. */
const LOOK_EVERY_MS = 5_000;
/** Beyond what its own watchdog allows its threads, wall ms. */
const GRACE_MS = 10_000;

export interface HostUser {
  readonly uid: number;
  readonly gid: number;
}

export interface GuestHostOptions {
  readonly hello: HostHello;
  /** Whom the host runs as; null: nobody if the parent is root, else the parent's user. */
  readonly user: HostUser | null;
  readonly onIncident: (incident: Incident) => void;
  readonly onEnd: (host: GuestHost) => void;
}

export class GuestHost implements Place {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #options: GuestHostOptions;
  readonly #pending = new PendingOrders();
  readonly #reader = new FrameReader();
  readonly #exited: Promise<void>;
  /** Who is to be told when a heap is gone that nothing was asked of. */
  readonly #onGone = new Map<HeapId, (reason: string) => void>();
  #stirredMs = performance.now();
  #timer: NodeJS.Timeout;
  #end: string | null = null;

  constructor(options: GuestHostOptions) {
    this.#options = options;
    this.#child = spawn(process.execPath, ["--disallow-code-generation-from-strings", ENTRY], {
      env: {},
      cwd: "/",
      stdio: ["pipe", "pipe", "ignore"],
      ...(options.user ?? leastUser()),
    });
    this.#exited = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => {
        this.#lose(`the guest host ended (${signal ?? code})`);
        resolve();
      });
      this.#child.once("error", (error) => {
        this.#lose(`the guest host did not start: ${error.message}`);
        resolve();
      });
    });
    // Writing to a host that has just died is answered by its exit.
    this.#child.stdin.on("error", () => undefined);
    this.#child.stdout.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    this.#setHolding(false);
    this.#child.stdin.write(frameOf(options.hello));
  }

  order<K extends Order["kind"]>(order: Extract<Order, { kind: K }>): Promise<AnswerTo<K>> {
    if (this.#end !== null) return Promise.resolve(lostAnswer(order, this.#end) as AnswerTo<K>);
    if (this.#pending.size === 0) {
      this.#stirredMs = performance.now();
      this.#setHolding(true);
    }
    const { number, answer } = this.#pending.add(order);
    this.#child.stdin.write(frameOf({ number, order }));
    return answer as Promise<AnswerTo<K>>;
  }

  supply(source: BundleSource): void {
    if (!this.#pending.isFirst(source)) return;
    void this.order({ kind: "bundle", source });
  }

  forget(source: BundleRef): void {
    this.#pending.forget(source);
  }

  onGone(heapId: HeapId, tell: (reason: string) => void): void {
    this.#onGone.set(heapId, tell);
    if (this.#end !== null) tell(this.#end);
  }

  release(heapId: HeapId): void {
    this.#onGone.delete(heapId);
  }

  async kill(reason: string): Promise<void> {
    this.#lose(reason);
    // Whoever waits for its end is not to end before it.
    this.#child.ref();
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  #take(chunk: Buffer): void {
    if (this.#end !== null) return;
    this.#stirredMs = performance.now();
    try {
      for (const message of this.#reader.push(chunk)) this.#hear(message);
    } catch (error) {
      if (!(error instanceof FrameRefused)) throw error;
      void this.kill(`the guest host was ended: ${error.message}`);
    }
    if (this.#pending.size === 0) this.#setHolding(false);
  }

  #hear(message: unknown): void {
    const incident = incidentIn(message);
    if (incident !== null) return this.#options.onIncident(incident);
    const gone = goneIn(message);
    if (gone !== null) return this.#onGone.get(gone.heapId)?.(gone.reason);
    const answer = answerIn(message, (number) => this.#pending.orderOf(number)?.kind);
    if (answer === null) throw new FrameRefused("it says what no host of ours says");
    this.#pending.settle(answer.number, answer.answer);
  }

  #look(): void {
    const waitedMs = performance.now() - this.#stirredMs;
    if (this.#pending.size === 0) return;
    if (waitedMs > this.#options.hello.watchdog.wallMsMax + GRACE_MS) {
      void this.kill("the guest host made no progress in time");
    }
  }

  #lose(reason: string): void {
    if (this.#end !== null) return;
    this.#end = reason;
    clearInterval(this.#timer);
    this.#options.onEnd(this);
    this.#options.onIncident({ kind: "host_ended", reason, tenantId: null, runId: null });
    this.#pending.loseAll(reason, () => null);
    for (const tell of this.#onGone.values()) tell(reason);
  }

  /** A host keeps its parent's process alive only while it owes an answer. */
  #setHolding(isHolding: boolean): void {
    const pipes = [this.#child.stdin, this.#child.stdout] as unknown as Socket[];
    for (const handle of [this.#child, ...pipes]) {
      if (isHolding) handle.ref();
      else handle.unref();
    }
  }
}

function leastUser(): Partial<HostUser> {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}
