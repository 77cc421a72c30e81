/** One real heap with the built library in it, driven command by command. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { decodeText, encodeText } from "../../../sandbox/host-codec.ts";
import { Instance } from "../../../sandbox/instance.ts";
import type { Ask, GuestCommand, Report } from "../../../sandbox/protocol.ts";
import { STACK_TOP, compileModule } from "../../../sandbox/wasm.ts";

const require = createRequire(import.meta.url);
export const libraryCode = readFileSync(require.resolve("#built/guest/workflow.js"), "utf8");
const module = compileModule();
const JOBS_MAX = 1_000_000;

export const CREATED_AT = 1_700_000_000_000;
export const SEED = "07".repeat(32);

export interface HeapOptions {
  readonly seed?: string;
  readonly payloadBytesMax?: number;
  readonly openOperationsMax?: number;
  readonly consoleBytesPerPassMax?: number;
  readonly args?: readonly unknown[];
  readonly baseUrl?: string;
}

type EventFields = Partial<Extract<GuestCommand, { t: "event" }>> & { readonly error?: unknown };

export class TestHeap {
  readonly instance: Instance;
  readonly hostCalls: string[] = [];
  slot = 0;
  now = CREATED_AT;

  /** Evaluates library and bundle; nothing has a run yet. */
  constructor(bundle: string) {
    this.instance = new Instance(module, 2048);
    this.instance.heapBytesMax = 128 << 20;
    this.instance.host = {
      isInterrupted: () => false,
      hostCall: (name, value) => this.hostCalls.push(`${name} ${value}`),
      clockWasRead: () => undefined,
    };
    this.instance.createContext(256 << 10, 0);
    const boot = `(function () {${libraryCode}\nreturn __baton_guest.boot;})()`;
    this.instance.boot(boot, "baton:guest");
    this.drain();
    this.instance.run(bundle, "bundle.js");
    this.drain();
  }

  /** A heap whose one workflow has this body, started. `input` is its first argument. */
  static running(body: string, options: HeapOptions = {}): TestHeap {
    const heap = new TestHeap(program(body));
    heap.init(options);
    heap.begin(options.args ?? []);
    return heap;
  }

  init(options: HeapOptions = {}): void {
    const command: GuestCommand = {
      t: "init",
      runId: "wrun_01HF7YAT00TEST00000000000A",
      workflowName: "workflow//./test//main",
      createdAt: CREATED_AT,
      baseUrl: options.baseUrl ?? null,
      seed: options.seed ?? SEED,
      payloadBytesMax: options.payloadBytesMax ?? 128 << 10,
      openOperationsMax: options.openOperationsMax ?? 5000,
      consoleBytesPerPassMax: options.consoleBytesPerPassMax ?? 64 << 10,
    };
    this.command(command);
  }

  begin(args: readonly unknown[]): void {
    this.event("run_created", null, { payload: encodeText(args) });
  }

  command(command: GuestCommand, payload: string | null = null): string {
    const answer = this.instance.dispatch(JSON.stringify(command), payload, 64 << 20);
    if (answer === null) throw new Error("the heap gave no answer");
    return answer;
  }

  drain(): void {
    for (let jobs = 0; this.instance.hasJobs;) {
      jobs += this.instance.runJobs(200);
      if (jobs > JOBS_MAX) throw new Error("the jobs do not end");
    }
  }

  /** Feeds one event, a second after the one before unless `at` says otherwise, and drains. */
  event(
    type: Extract<GuestCommand, { t: "event" }>["type"],
    id: string | null,
    fields: Omit<EventFields, "payload"> & { readonly payload?: string } = {},
  ): string {
    const { payload, ...more } = fields;
    this.slot += 1;
    this.now += 1000;
    const command = {
      t: "event",
      slot: this.slot,
      type,
      id,
      at: this.now,
      asked: null,
      conflictingRunId: null,
      ...more,
    } as GuestCommand;
    const answer = this.command(command, payload ?? null);
    this.drain();
    return answer;
  }

  completes(id: string, value?: unknown, at?: number): string {
    const time = at === undefined ? {} : { at };
    return this.event("step_completed", id, { payload: encodeText(value), ...time });
  }

  fails(id: string, error: unknown): string {
    return this.event("step_failed", id, { payload: encodeText(error) });
  }

  receives(id: string, value: unknown, at?: number): string {
    const time = at === undefined ? {} : { at };
    return this.event("hook_received", id, { payload: encodeText(value), ...time });
  }

  report(): Report {
    return JSON.parse(this.command({ t: "report" })) as Report;
  }

  open(): Report {
    return JSON.parse(this.command({ t: "open" })) as Report;
  }

  /** The output or the error of a workflow that has ended. */
  outcome(): { readonly ok: boolean; readonly value: unknown } {
    const { done } = this.report();
    if (done === null) throw new Error("the workflow has not ended");
    return { ok: done.ok, value: decodeText(done.text) };
  }

  /** Bytes in pages of 4 KiB that are not all zero: what a snapshot would have to hold. */
  usedBytes(): number {
    const { bytes } = this.instance;
    const page = Buffer.alloc(4096);
    let used = 0;
    for (let at = STACK_TOP; at < bytes.length; at += 4096) {
      if (!bytes.subarray(at, at + 4096).equals(page.subarray(0, bytes.length - at))) used += 4096;
    }
    return used;
  }

  /** Ids of what was newly asked for, in order. */
  ids(): string[] {
    return this.report().asked.map((ask) => ask.id);
  }

  /** Steps that were newly asked for, with their arguments. */
  steps(): { readonly id: string; readonly name: string; readonly args: unknown }[] {
    return stepsOf(this.report().asked);
  }
}

export function stepsOf(asked: readonly Ask[]) {
  return asked.flatMap((ask) => {
    if (ask.k !== "step") return [];
    const input =
      "input" in ask ? (decodeText(ask.input) as { args: unknown }) : { args: ask.error };
    return [{ id: ask.id, name: ask.name, args: input.args }];
  });
}

/** A bundle as the transformer writes it: one workflow, and steps by name through `step(name)`. */
export function program(body: string): string {
  return `
    const lib = globalThis[Symbol.for("baton.guest")];
    const { sleep, createHook, createWebhook, defineHook, setAttributes, getWritable,
      getWorkflowMetadata, FatalError, RetryableError } = lib.workflow;
    const useStep = globalThis[Symbol.for("WORKFLOW_USE_STEP")];
    const step = (name, ...args) => useStep("step//./test//" + name)(...args);
    async function main(input, ...more) { ${body} }
    main.workflowId = "workflow//./test//main";
    globalThis.__private_workflows.set(main.workflowId, main);`;
}
