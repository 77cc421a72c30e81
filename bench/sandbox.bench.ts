/**
 * What does a heap cost: to start, to put away and bring back, to keep for 100,000 steps, and to
 * its neighbours when it must be killed?
 *
 * Times are of one place on the calling thread, without the message to a guest thread, sealing and
 * storage. The neighbour's times are over real guest threads.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { stringify } from "devalue";
import { bundleHashOf, runIdOf, tenantIdOf } from "../engine/ids.ts";
import type { EntityId } from "../engine/ids.ts";
import { payloadOfText } from "../engine/payload.ts";
import type { BundleCode, GuestEvent, HeapLimits, HeapRequest } from "../engine/ports/sandbox.ts";
import { slotOf } from "../engine/slots.ts";
import { reportIn } from "../sandbox/border.ts";
import { cpuClockOf, ownThreadId } from "../sandbox/cpu-clock.ts";
import { createSandbox } from "../sandbox/index.ts";
import { Residence } from "../sandbox/residence.ts";
import { compileModule } from "../sandbox/wasm.ts";
import { workflowSide } from "../sandbox/wire.ts";
import type { AnswerTo, BundleSource, Order } from "../sandbox/wire.ts";
import { rounded, spread } from "./check.ts";
import type { CheckContext, CheckForm } from "./check.ts";

const STEP = "step//./bench//work";
const CREATED_AT = 1_700_000_000_000;
const SEED = new Uint8Array(32).fill(1);
const DIGEST = "0".repeat(64);
/** Of this machine's noise: more samples than a p50 needs, few enough for a short run. */
const SAMPLES = 400;
const SAMPLES_FULL = 4000;
const NEIGHBOUR_ROUNDS = 6;
const NEIGHBOUR_PASSES = 3_000;
const GROWTH_STEPS = 100_000;
const GROWTH_FROM = 1_000;

const LIMITS: HeapLimits = {
  heapBytesMax: 32 << 20,
  cpuSoftMs: 250,
  cpuHardMs: 1000,
  stackBytesMax: 256 << 10,
  jobsPerEventMax: 100_000,
  openOperationsMax: 5000,
  payloadBytesMax: 128 << 10,
  consoleBytesPerPassMax: 64 << 10,
};

/** Goals of the design, by figure: the most that each may be. */
const GOALS = {
  start_from_image_ms_p50: 0.3,
  small_cycle_ms_p50: 2,
  mb_cycle_ms_p50: 40,
  snapshot_3step_bytes: 10 << 10,
  heap_growth_bytes: 64 << 10,
  neighbour_p99_ratio: 3,
} as const;

type Figures = Record<keyof typeof GOALS, number>;

export const form: CheckForm = {
  name: "sandbox",
  description: "Starts, snapshot cycles, growth and isolation of heaps.",
  async run(context) {
    const figures: Figures = {
      start_from_image_ms_p50: startFromImage(context),
      small_cycle_ms_p50: cycle(context, "small cycle", { steps: 3, kilobytes: 0 }),
      mb_cycle_ms_p50: cycle(context, "1 MB cycle", { steps: 3, kilobytes: 1024 }),
      snapshot_3step_bytes: snapshotBytes(),
      heap_growth_bytes: growth(context),
      neighbour_p99_ratio: await neighbour(context),
    };
    const ok = Object.entries(GOALS).every(
      ([name, goal]) => figures[name as keyof typeof GOALS] <= goal,
    );
    return { ok, figures };
  },
};

function bundle(body: string, tenant = "bench"): BundleCode {
  const workflowCode = `
    const work = globalThis[Symbol.for("WORKFLOW_USE_STEP")](${JSON.stringify(STEP)});
    globalThis.__private_workflows.set("main", async (input) => {${body}});`;
  const require = createRequire(import.meta.url);
  return {
    tenantId: tenantIdOf(tenant),
    hash: bundleHashOf(createHash("sha256").update(workflowCode).digest("hex")),
    workflowCode,
    guestLibrary: readFileSync(require.resolve("#built/guest/workflow.js"), "utf8"),
  };
}

function event(slot: number, eventType: GuestEvent["eventType"], more: Partial<GuestEvent>) {
  return {
    slot: slotOf(slot),
    eventType,
    correlationId: null,
    createdAt: CREATED_AT + slot,
    payload: null,
    asked: null,
    conflictingRunId: null,
    ...more,
  } satisfies GuestEvent;
}

function created(input: unknown): GuestEvent {
  return event(1, "run_created", { payload: payloadOfText(stringify([input])) });
}

function completed(slot: number, id: string, value: unknown): GuestEvent {
  const payload = payloadOfText(stringify(value));
  return event(slot, "step_completed", { correlationId: id as EntityId, payload });
}

/** One place on this thread, and heaps of one bundle in it. */
class Bench {
  readonly #residence = new Residence(compileModule(), cpuClockOf(ownThreadId()), {
    begins() {},
    ends() {},
  });
  readonly #bundle: BundleSource;
  #lastHeapId = 0;

  constructor(code: BundleCode) {
    this.#bundle = workflowSide(code);
    this.#residence.perform({ kind: "bundle", source: this.#bundle });
  }

  perform<K extends Order["kind"]>(order: Extract<Order, { kind: K }>): AnswerTo<K> {
    return this.#residence.perform(order) as AnswerTo<K>;
  }

  binding(slot: number) {
    const run = { tenantId: this.#bundle.tenantId, runId: RUN_ID };
    return { run, slot: slotOf(slot), digest: DIGEST };
  }

  open(image: { bytes: Uint8Array; slot: number } | null = null): number {
    const heapId = ++this.#lastHeapId;
    const answer = this.perform({
      kind: "open",
      heapId,
      bundle: this.#bundle,
      runId: RUN_ID,
      workflowName: "main",
      seed: SEED,
      createdAt: CREATED_AT,
      baseUrl: null,
      limits: LIMITS,
      image: image === null ? null : { bytes: image.bytes, binding: this.binding(image.slot) },
    });
    if (answer.kind !== "opened") throw new Error(JSON.stringify(answer));
    return heapId;
  }

  pass(heapId: number, events: readonly GuestEvent[]) {
    const answer = this.perform({ kind: "pass", heapId, events });
    if (answer.kind !== "report") throw new Error(JSON.stringify(answer));
    return { text: answer.text, heapBytes: answer.usage.heapBytes };
  }

  snapshot(heapId: number, slot: number): Uint8Array {
    const answer = this.perform({ kind: "snapshot", heapId, binding: this.binding(slot) });
    if (answer.kind !== "image") throw new Error("no snapshot");
    return answer.bytes;
  }

  close(heapId: number): void {
    this.perform({ kind: "close", heapId, isReusable: true });
  }

  /** A heap that has done so many steps of a loop of steps, and the id of the next. */
  runSteps(input: unknown, steps: number, valueAt: (slot: number) => unknown) {
    const heapId = this.open();
    let id = stepIn(this.pass(heapId, [created(input)]).text);
    let slot = 1;
    while (slot <= steps) {
      slot++;
      id = stepIn(this.pass(heapId, [completed(slot, id, valueAt(slot))]).text);
    }
    return { heapId, id, slot };
  }
}

const RUN_ID = runIdOf("wrun_01HF7YAT00BENCH000000000AA");
const LOOP = bundle(`
  const kept = []; for (let i = 0; i < input.kilobytes; i++) kept.push({ i, text: ("k" + i + "-").repeat(200) });
  for (let i = 0; i < input.steps; i++) await work(i); return kept.length;`);

/** The id of the step that a report asks for. */
function stepIn(text: string): string {
  const id = reportIn(text).asked[0]?.id;
  if (id === undefined) throw new Error(`no step was asked for: ${text.slice(0, 200)}`);
  return id;
}

function samplesOf({ full }: CheckContext): number {
  return full ? SAMPLES_FULL : SAMPLES;
}

function timed(times: number[], work: () => void): void {
  const started = performance.now();
  work();
  times.push(performance.now() - started);
}

function startFromImage(context: CheckContext): number {
  const bench = new Bench(LOOP);
  bench.close(bench.open());
  const times: number[] = [];
  for (let i = 0; i < samplesOf(context); i++) {
    let heapId = 0;
    timed(times, () => {
      heapId = bench.open();
    });
    bench.close(heapId);
  }
  return p50(context, "start from the image, pooled", times);
}

/** Verify, restore, one event, snapshot; of a heap that stays the same size. */
function cycle(context: CheckContext, name: string, input: { steps: number; kilobytes: number }) {
  const bench = new Bench(LOOP);
  const begun = bench.runSteps({ ...input, steps: 1e6 }, input.steps, (slot) => slot);
  let { id, slot } = begun;
  let bytes = bench.snapshot(begun.heapId, slot);
  bench.close(begun.heapId);
  const times: number[] = [];
  for (let i = 0; i < samplesOf(context); i++) {
    let heapId = 0;
    let text = "";
    timed(times, () => {
      heapId = bench.open({ bytes, slot });
      text = bench.pass(heapId, [completed(slot + 1, id, slot)]).text;
      slot++;
      bytes = bench.snapshot(heapId, slot);
    });
    id = stepIn(text);
    bench.close(heapId);
  }
  context.say(`${name}: snapshot ${bytes.length} bytes`);
  return p50(context, name, times);
}

function snapshotBytes(): number {
  const bench = new Bench(LOOP);
  const { heapId, slot } = bench.runSteps({ steps: 10, kilobytes: 0 }, 3, (slot) => ({ ok: slot }));
  return bench.snapshot(heapId, slot).length;
}

/** How much the larger of linear memory and snapshot grows from step 1,000 to step 100,000. */
function growth(context: CheckContext): number {
  const bench = new Bench(LOOP);
  const run = bench.runSteps({ steps: 1e9, kilobytes: 0 }, GROWTH_FROM, (slot) => slot);
  const before = sizes(bench, run.heapId, run.slot);
  let { id, slot } = run;
  while (slot <= GROWTH_STEPS) {
    slot++;
    id = stepIn(bench.pass(run.heapId, [completed(slot, id, slot)]).text);
    if (slot % 1000 === 0) context.progress(`step ${slot} of ${GROWTH_STEPS}`);
  }
  const after = sizes(bench, run.heapId, slot);
  context.say(
    `growth: heap ${before.heap} → ${after.heap}, snapshot ${before.image} → ${after.image}`,
  );
  return Math.max(after.heap - before.heap, after.image - before.image, 0);
}

function sizes(bench: Bench, heapId: number, slot: number) {
  const { heapBytes } = bench.pass(heapId, []);
  return { heap: heapBytes, image: bench.snapshot(heapId, slot).length };
}

/** A tenant's passes on one thread while another's programs are killed on a second one. */
async function neighbour(context: CheckContext): Promise<number> {
  const sandbox = createSandbox({ form: "threads", threads: 2 });
  const request = (code: BundleCode, limits = LIMITS): HeapRequest => ({
    run: { tenantId: code.tenantId, runId: RUN_ID },
    bundle: code,
    workflowName: "main",
    seed: SEED,
    createdAt: CREATED_AT,
    limits,
  });
  const opened = async (code: BundleCode, limits?: HeapLimits) => {
    const answer = await sandbox.open(request(code, limits));
    return answer.kind === "opened" ? answer.heap : null;
  };
  const heap = await opened(LOOP);
  if (heap === null) throw new Error("the neighbour's heap did not open");
  let pass = await heap.pass([created({ steps: 1e9, kilobytes: 0 })]);
  let slot = 1;
  const passes = async (count: number) => {
    const times: number[] = [];
    for (let i = 0; i < count; i++) {
      if (pass.kind !== "quiet") throw new Error(`the neighbour ended: ${JSON.stringify(pass)}`);
      const id = pass.operations[0]?.correlationId ?? "";
      const started = performance.now();
      pass = await heap.pass([completed(++slot, id, slot)]);
      times.push(performance.now() - started);
    }
    return times;
  };
  const attack = bundle(`Array.prototype.reverse.call({ length: 2 ** 50 });`, "attacker");
  const attackLimits = { ...LIMITS, cpuHardMs: 250 };
  const attacks = async (stop: AbortSignal) => {
    let kills = 0;
    for (; !stop.aborted; kills++) {
      const heap = await opened(attack, attackLimits);
      await heap?.pass([created(null)]);
    }
    return kills;
  };
  await passes(NEIGHBOUR_PASSES);
  // Taken in turns, so that what else the machine does falls on both alike.
  const quietTimes: number[] = [];
  const attackedTimes: number[] = [];
  let kills = 0;
  for (let round = 0; round < NEIGHBOUR_ROUNDS; round++) {
    context.progress(`neighbour: round ${round + 1} of ${NEIGHBOUR_ROUNDS}`);
    quietTimes.push(...(await passes(NEIGHBOUR_PASSES)));
    const stop = new AbortController();
    const attacking = attacks(stop.signal);
    attackedTimes.push(...(await passes(NEIGHBOUR_PASSES)));
    stop.abort();
    kills += await attacking;
  }
  const [quiet, during] = [spread(quietTimes), spread(attackedTimes)];
  context.say(
    `neighbour: p50 ${rounded(quiet.p50)} → ${rounded(during.p50)} ms, ` +
      `p99 ${rounded(quiet.p99)} → ${rounded(during.p99)} ms, ${kills} kills`,
  );
  await sandbox.close();
  return rounded(during.p99 / quiet.p99);
}

function p50(context: CheckContext, name: string, times: readonly number[]): number {
  const { p50, p99, min, max } = spread(times);
  const [a, b, c, d] = [p50, p99, min, max].map(rounded);
  context.say(`${name}: p50 ${a} ms, p99 ${b}, min ${c}, max ${d} (${times.length} times)`);
  return rounded(p50);
}
