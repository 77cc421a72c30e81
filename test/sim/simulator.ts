/**
 * The simulator: runs of several tenants, workers and clients over one World, in virtual time, from
 * one seed. What it observes is data for the oracle.
 */
import { parse } from "devalue";
import type { RunEvent } from "../../engine/events.ts";
import { tenantIdOf } from "../../engine/ids.ts";
import type { RunRef, TenantId } from "../../engine/ids.ts";
import type { EngineParts } from "../../engine/parts.ts";
import { textOfPayload } from "../../engine/payload.ts";
import type { Log } from "../../engine/ports/host.ts";
import type { Sandbox } from "../../engine/ports/sandbox.ts";
import type { StoredSnapshot, World } from "../../engine/ports/world.ts";
import { DEFAULT_SETTINGS, settingsOf } from "../../engine/settings.ts";
import type { Settings } from "../../engine/settings.ts";
import { SLOT_NONE } from "../../engine/slots.ts";
import type { Slot } from "../../engine/slots.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import { stepCodec } from "../../sandbox/step-codec.ts";
import { FirstThatKnows } from "../../engine/step-runners.ts";
import { HostSteps } from "../../tenants/host-steps.ts";
import { platformBodies, simulatedBodies } from "./bodies.ts";
import type { BodiesOptions } from "./bodies.ts";
import type { SimulatedSources } from "./bundle.ts";
import { plannedChild, plannedRun } from "./catalog.ts";
import type { Planned, Who } from "./catalog.ts";
import { client } from "./clients.ts";
import { coldReplay } from "./cold-replay.ts";
import { drawsOf } from "./draws.ts";
import type { Draws } from "./draws.ts";
import { faultProfile, faultsFrom } from "./faults.ts";
import type { FaultProfile, Faults } from "./faults.ts";
import { Journal } from "./journal.ts";
import type { FinalRun, FinalStream, Observation, RunRecord } from "./observation.ts";
import { textOfChunk } from "./outside-bodies.ts";
import { Process } from "./process.ts";
import type { MakeEngine, SimulatedEngine } from "./simulated-engine.ts";
import { simulatedSandbox } from "./simulated-sandbox.ts";
import { canaryOf, simulatedTenants } from "./simulated-tenants.ts";
import type { Input } from "./workflows/input.ts";
import { virtualClock } from "./virtual-clock.ts";
import type { VirtualClock } from "./virtual-clock.ts";

const START_MS = Date.UTC(2026, 0, 1);
/** Longer than any sleep of a workflow and any back-off after it. */
const HORIZON_MS = 1_000 * 86_400_000;
/** Timers of one schedule; far above what the widest one needs. */
const STEPS_MAX = 2_000_000;

export interface SimulationParts {
  /** Shared by all processes and all seeds: heaps do not know each other. */
  readonly sandbox: Sandbox;
  readonly sources: SimulatedSources;
  readonly makeEngine: MakeEngine;
  /** Changes one process's parts, or the World under all of them; null: nothing is changed. */
  readonly mutant: Mutant | null;
}

export interface Mutant {
  readonly name: string;
  world?(world: World, clock: VirtualClock): World;
  parts?(parts: EngineParts): EngineParts;
}

export interface ScheduleOptions {
  readonly seed: string;
  /** Fixed instead of drawn. */
  readonly runs?: readonly ((who: Who) => Planned)[];
  readonly profile?: FaultProfile;
  /** Written down instead of drawn. */
  readonly faults?: Faults;
  readonly settings?: Partial<Settings>;
  readonly workers?: number;
  /** Virtual ms after which the schedule ends, whatever is still to happen. */
  readonly horizonMs?: number;
  /** Where the lines of a timeline go; null: none is kept. */
  readonly print: ((line: string) => void) | null;
}

/** Runs one schedule to its end. */
export async function simulate(
  options: ScheduleOptions,
  parts: SimulationParts,
): Promise<Observation> {
  const schedule = new Schedule(options, parts);
  return schedule.run();
}

class Schedule {
  readonly #options: ScheduleOptions;
  readonly #parts: SimulationParts;
  readonly #draws: Draws;
  readonly #clock: VirtualClock;
  readonly #journal: Journal;
  readonly #faults: Faults;
  /** The World without faults, and what processes see faults of. */
  readonly #truth: World;
  readonly #world: World;
  readonly #tenants: readonly TenantId[];
  readonly #settings: Settings;
  readonly #records: RunRecord[] = [];
  readonly #planned = new Map<string, { tenantId: TenantId; planned: Planned }>();
  /** The token that a run's bodies told last. */
  readonly #mentioned = new Map<string, string>();
  readonly #living = new Set<Process>();
  #clientsAtWork = 0;
  #generation = 0;
  #bodySerial = 0;
  #isClosing = false;

  constructor(options: ScheduleOptions, parts: SimulationParts) {
    this.#options = options;
    this.#parts = parts;
    this.#draws = drawsOf(options.seed);
    const { print } = options;
    this.#clock = virtualClock(START_MS, this.#draws.split("ties"));
    this.#journal = new Journal({ clock: this.#clock, startMs: START_MS, print });
    const profile = options.profile ?? faultProfile(this.#draws.split("profile"));
    this.#faults = options.faults ?? faultsFrom(this.#draws.split("faults"), profile);
    const random = this.#draws.split("world");
    this.#truth = createMemoryWorld({ clock: this.#clock, random, log: silent() });
    const { mutant } = parts;
    this.#world = mutant?.world?.(this.#truth, this.#clock) ?? this.#truth;
    const letters = ["a", "b", "c"].slice(0, this.#draws.between(1, 3));
    this.#tenants = letters.map((letter) => tenantIdOf(`tenant-${letter}`));
    this.#settings = { ...this.#drawnSettings(), ...options.settings };
  }

  async run(): Promise<Observation> {
    const workers = this.#options.workers ?? this.#draws.between(1, 3);
    for (let i = 0; i < workers; i++) this.#startWorker(`worker-${i}`);
    this.#startClients();
    const ended = await this.#clock.run({
      untilMs: START_MS + (this.#options.horizonMs ?? HORIZON_MS),
      stepsMax: STEPS_MAX,
      isDone: () => false,
    });
    const endedAtMs = this.#clock.now();
    const runs = await this.#finalRuns();
    this.#isClosing = true;
    for (const process of this.#living) process.kill("the schedule has ended");
    await this.#truth.close();
    const { sendRecords, deliveries, bodies, calls, surprises, commits, heard } = this.#journal;
    return {
      seed: this.#options.seed,
      runs,
      bodies,
      sends: sendRecords,
      deliveries,
      commits,
      heard,
      calls,
      faults: this.#faults.met,
      surprises,
      ended,
      endedAtMs,
      canaries: new Map(this.#tenants.map((tenantId) => [tenantId, canaryOf(tenantId)])),
    };
  }

  #drawnSettings(): Settings {
    const draws = this.#draws.split("settings");
    return {
      ...DEFAULT_SETTINGS,
      inlineStepsMax: draws.pick([0, 1, 3, 3, 16]),
      lingerMs: draws.pick([0, 30_000]),
      inlineWindowMs: draws.pick([5_000, 120_000, 600_000]),
      isCold: settingsOf(process.env).isCold || draws.chance(0.1),
      replayCheckEvery: this.#draws.split("replay checks").pick([0, 0, 1, 3]),
      liveHeapBytesMax: draws.pick([0, 16 * 1024 * 1024, DEFAULT_SETTINGS.liveHeapBytesMax]),
      runAheadDepth: draws.pick([0, 1, 2, 10, 10, 16]),
      turbo: draws.chance(0.7),
      optimisticInlineStart: draws.chance(0.85),
    };
  }

  #startWorker(name: string): void {
    const { process, engine } = this.#process(name, () => {
      const restartMs = this.#draws.pick([0, 1_000, 30_000, 120_000]);
      this.#clock.setTimer(restartMs, () => this.#startWorker(name));
    });
    engine.onEnded((runId, outcome) => this.#journal.heard.push({ runId, outcome }));
    const world = process.over(this.#world);
    world.queue.consume(engine.handlers, { orchestratorsMax: 16, stepsMax: 32 });
  }

  #process(
    name: string,
    restart: () => void,
  ): { readonly process: Process; readonly engine: SimulatedEngine } {
    const owner = `${name}.${++this.#generation}`;
    let die: () => void = () => undefined;
    const died = new Promise<void>((resolve) => (die = resolve));
    const draws = this.#draws.split(owner);
    const [faults, journal] = [this.#faults, this.#journal];
    const heaps = simulatedSandbox(this.#parts.sandbox, { owner, faults, journal });
    const process = new Process({
      name: owner,
      clock: this.#clock,
      draws,
      faults,
      journal,
      strangerSnapshot: (runId) => this.#strangerSnapshot(runId, draws),
      onDeath: () => {
        this.#living.delete(process);
        heaps.closeHeaps();
        die();
        if (!this.#isClosing) restart();
      },
    });
    this.#living.add(process);
    const { mutant, makeEngine } = this.#parts;
    const plain: EngineParts = {
      world: process.over(this.#world),
      sandbox: heaps.sandbox,
      tenants: simulatedTenants(this.#parts.sources, this.#tenants, () => {
        journal.surprises.push("a resumed heap and a replay of its log differ");
      }),
      steps: this.#bodies(owner, process),
      codec: stepCodec,
      clock: process.clock,
      random: draws.split("random"),
      log: this.#log(owner),
      settings: this.#settings,
    };
    return { process, engine: { ...makeEngine(mutant?.parts?.(plain) ?? plain), died } };
  }

  #bodies(owner: string, process: Process) {
    const { clock } = process;
    const options: BodiesOptions = {
      clock,
      owner,
      record: (body) => this.#journal.body(body),
      serial: () => ++this.#bodySerial,
      isInterrupted: (stepName, label) => {
        const fault = this.#faults.draw({ site: "body", owner, args: [stepName, label] });
        if (fault === "crash before") process.kill("a body");
        // A body that must not run twice has its thread for itself, so nothing else cuts it short.
        return fault === "interrupted" && stepName !== "once";
      },
      mention: ({ runId }, token) => this.#mentioned.set(runId, token),
    };
    const platform = new HostSteps({ codec: stepCodec, log: silent() });
    return new FirstThatKnows([platformBodies(platform, options), simulatedBodies(options)]);
  }

  #startClients(): void {
    const runs = this.#options.runs ?? this.#drawnRuns();
    runs.forEach((plan, i) => {
      const tenantId = this.#tenants[i % this.#tenants.length] as TenantId;
      const planned = plan({ canary: canaryOf(tenantId), token: `run-${i}` });
      this.#planned.set(planned.input.token, { tenantId, planned });
      this.#startClient(tenantId, planned, i);
    });
  }

  #drawnRuns() {
    const count = this.#draws.between(1, 3);
    return Array.from({ length: count }, (_, i) => {
      const draws = this.#draws.split(`run ${i}`);
      return (who: Who) => plannedRun(draws, who);
    });
  }

  #startClient(tenantId: TenantId, planned: Planned, index: number): void {
    const name = `client-${index}`;
    let current: SimulatedEngine;
    const begin = () => {
      current = this.#process(name, begin).engine;
    };
    begin();
    this.#clientsAtWork++;
    const parts = {
      clock: this.#clock,
      draws: this.#draws.split(name),
      journal: this.#journal,
      deploymentId: this.#parts.sources.hash,
      engine: () => current,
      isOver: (run: RunRef) => this.#isOver(run),
      tokenOf: ({ runId }: RunRef) => this.#mentioned.get(runId) ?? null,
    };
    client({ tenantId, key: name, planned }, parts, (record) => this.#records.push(record)).then(
      () => this.#clientsAtWork--,
      (error: unknown) => this.#journal.surprises.push(`a client failed: ${String(error)}`),
    );
  }

  async #isOver(run: RunRef): Promise<boolean> {
    const row = await this.#truth.forTenant(run.tenantId).runs.get(run.runId);
    return row !== null && ["completed", "failed", "cancelled"].includes(row.status);
  }

  #strangerSnapshot(runId: string, draws: Draws): StoredSnapshot | null {
    const strangers = [...this.#journal.snapshots].filter(([id]) => id !== runId);
    return strangers.length === 0 ? null : draws.pick(strangers)[1];
  }

  async #finalRuns(): Promise<readonly FinalRun[]> {
    const finals: FinalRun[] = [];
    for (const tenantId of this.#tenants) {
      const { data } = await this.#truth.forTenant(tenantId).runs.list({ limit: 1_000 });
      for (const { runId } of data) finals.push(await this.#finalRun({ tenantId, runId }));
    }
    return finals;
  }

  async #finalRun(ref: RunRef): Promise<FinalRun> {
    const store = this.#truth.forTenant(ref.tenantId);
    const row = await store.runs.get(ref.runId);
    const events = await this.#wholeLog(ref);
    const { sandbox, sources } = this.#parts;
    return {
      record: this.#recordOf(ref, events),
      events,
      counts: row?.counts ?? null,
      status: row?.status ?? null,
      parked: row?.parked ?? null,
      attributes: row?.attributes ?? {},
      streams: await this.#streamsOf(ref),
      coldReplay: await coldReplay(ref, events, { sandbox, sources }),
    };
  }

  async #streamsOf({ tenantId, runId }: RunRef): Promise<readonly FinalStream[]> {
    const { streams } = this.#truth.forTenant(tenantId);
    const finals: FinalStream[] = [];
    for (const name of await streams.list(runId)) {
      const { chunks } = await streams.getChunks(runId, name, { startIndex: 0, limit: 1_000 });
      const tailIndex = (await streams.getInfo(runId, name))?.tailIndex ?? -1;
      finals.push({ name, tailIndex, chunks: chunks.map(textOfChunk) });
    }
    return finals;
  }

  async #wholeLog({ tenantId, runId }: RunRef): Promise<readonly RunEvent[]> {
    const { events } = this.#truth.forTenant(tenantId);
    const all: RunEvent[] = [];
    for (;;) {
      const last: Slot = all.at(-1)?.slot ?? SLOT_NONE;
      const page = await events.list(runId, { afterSlot: last });
      all.push(...page.events);
      if (!page.hasMore) return all;
    }
  }

  /** A run that no client was told of is known by the token that it was started with. */
  #recordOf(ref: RunRef, events: readonly RunEvent[]): RunRecord {
    const known = this.#records.find((record) => record.ref.runId === ref.runId);
    if (known !== undefined) return known;
    const created = events[0];
    if (created?.eventType !== "run_created") throw new Error(`${ref.runId} has no beginning`);
    const handles = { AbortSignal: String, AbortController: String };
    const text = textOfPayload(created.eventData.input);
    const [input] = parse(text, handles) as [Input];
    const { workflowName } = created.eventData;
    const planned = this.#planned.get(input.token)?.planned ?? plannedChild(workflowName, input);
    return {
      ref,
      planned,
      isAcknowledged: false,
      resumed: [],
      cancelAcknowledged: false,
      answers: [],
      requests: 0,
      read: [],
    };
  }

  #log(owner: string): Log {
    const alarm = (fields: Readonly<Record<string, unknown>>, message: string) =>
      this.#journal.alarm(owner, message, fields);
    const log: Log = { ...silent(), warn: alarm, error: alarm, child: () => log };
    return log;
  }
}

function silent(): Log {
  const nothing = () => undefined;
  const log: Log = {
    debug: nothing,
    info: nothing,
    warn: nothing,
    error: nothing,
    child: () => log,
  };
  return log;
}
