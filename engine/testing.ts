/**
 * `baton/testing`: a whole Baton in a test's process, on the memory World, with a clock that stands
 * still until the test moves it.
 *
 * Owns what a test sees of it; its parts are in `engine/testing/`. Nothing here is faked but time and
 * chance: code runs in heaps, values are sealed, and every rule of the engine holds.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBundle } from "../tenants/bundles/build.ts";
import type { BuiltBundle } from "../tenants/bundles/build.ts";
import { sealWorld } from "../tenants/sealed-world.ts";
import { HELD_START_MS, HeldClock } from "../worlds/conformance/held-clock.ts";
import { createMemoryWorld } from "../worlds/memory/index.ts";
import { SeededRandom } from "../worlds/seeded-random.ts";
import type { Baton, BatonOptions, Run } from "./compose.ts";
import { Door } from "./testing/door.ts";
import { BatonError } from "./errors.ts";
import { HeldSteps, isNamed } from "./testing/held-steps.ts";
import { Looking, isOver, turn } from "./testing/looking.ts";
import type { LoggedEvent, OpenHook, OpenSleep, TestOutcome } from "./testing/looking.ts";
import { race } from "./testing/race.ts";
import type { Landing, Move } from "./testing/race.ts";
import { Worker } from "./testing/worker.ts";
import type { Traffic } from "./testing/worker-world.ts";

export { moves } from "./testing/race.ts";
export type { Landing, LoggedEvent, Move, OpenHook, OpenSleep, TestOutcome };

/** What a Baton for a test is made of. */
export interface TestBatonOptions extends Pick<
  BatonOptions,
  "egress" | "quotas" | "settings" | "log" | "steps" | "sandbox"
> {
  /** What to deploy: a bundle, or a project to build one of. */
  readonly deploy?:
    BuiltBundle | { readonly projectRoot: string; readonly entries: readonly string[] };
  /** The time at which the clock stands, epoch ms. */
  readonly startMs?: number;
  /** Ids of runs and the randomness in them follow from it, so that a script's log is always the same. */
  readonly seed?: number;
  /** How long, in real time, a wait may take before it fails; 10 s. */
  readonly waitMsMax?: number;
}

/** A body's outcome that is kept from committing. */
export interface HeldStep {
  readonly stepId: string;
  /** From 1. */
  readonly attempt: number;
}

/** A Baton for a test: the platform's calls, time, races, and what runs are doing. */
export interface TestBaton extends AsyncDisposable {
  /**
   * The platform's calls. It and its runs live through `crash()`. `returnValue()` fails with
   * `NOT_REACHED`, and says what the run is doing, where it would wait for ever.
   */
  readonly baton: Baton;
  /** Epoch ms. */
  now(): number;
  /** Moves time on by so many ms; what falls due happens on the way, in order. */
  advance(ms: number): Promise<void>;
  /** Moves time to this instant, epoch ms; a past one changes nothing. */
  advanceTo(atMs: number): Promise<void>;
  /** Lets everything happen that needs no time. */
  settle(): Promise<void>;
  /** The open sleep of the run that ends first, once there is one that is not due yet. */
  waitForSleep(run: Run): Promise<OpenSleep>;
  /** The first hook that is open in the run, of this token if one is named. */
  waitForHook(run: Run, of?: { readonly token?: string }): Promise<OpenHook>;
  /**
   * From now on, whatever bodies of this step come to is kept from committing, until a race makes it
   * or the step is let go. A step goes by its function's name or its id. Returns what lets it go.
   */
  hold(step: string): () => void;
  /** The first outcome that is held of the step in the run. */
  waitForStep(run: Run, step: string): Promise<HeldStep>;
  /**
   * Makes these commit in this order, with nothing between them that the run would decide on its own:
   * its orchestrator acts only to write what a move asks it to, and on all of them behind the last.
   * What became of each move, in order. `NOT_REACHED` if one cannot be made, as a payload for a hook
   * that is not there.
   */
  race(run: Run, script: readonly Move[]): Promise<readonly Landing[]>;
  /** The worker dies: heaps, timers and unanswered deliveries are lost, and the next one takes over. */
  crash(): Promise<void>;
  /** How the run stands, once everything has happened that needs no time. */
  outcome(run: Run): Promise<TestOutcome>;
  /** The run's log so far. */
  events(run: Run): Promise<readonly LoggedEvent[]>;
  close(): Promise<void>;
}

const WAIT_MS_MAX = 10_000;
const SEED = 1;
/** Turns of the event loop in a row without a call to the World, before all counts as settled. */
const QUIET_TURNS = 30;

/** Whether the process waits for a file: a worker that took over reads its keys from files. */
function isAtFiles(): boolean {
  const isOfFile = (kind: string): boolean => kind.startsWith("FSReq") || kind === "CloseReq";
  return process.getActiveResourcesInfo().some(isOfFile);
}

/**
 * Heaps live on the test's own thread unless `sandbox` says otherwise, so that the order of things is
 * the same always. `steps.functions`, by step id, stand in for steps of the bundle.
 */
export async function createTestBaton(options: TestBatonOptions = {}): Promise<TestBaton> {
  const {
    deploy,
    startMs = HELD_START_MS,
    seed = SEED,
    waitMsMax = WAIT_MS_MAX,
    ...rest
  } = options;
  const keyFolder = await mkdtemp(join(tmpdir(), "baton-testing-"));
  const clock = new HeldClock(startMs);
  const random = new SeededRandom(seed);
  const world = createMemoryWorld({ clock, random });
  const traffic: Traffic = { calls: 0 };
  const door = new Door();
  const held = new HeldSteps();
  const worker = await Worker.open({
    world,
    clock,
    door,
    held,
    traffic,
    options: { sandbox: { form: "calling-thread" }, ...rest, random, keyFolder },
  });
  const looking = new Looking({
    world: sealWorld(world, worker.composed.vault),
    held,
    nowMs: () => clock.now(),
    waitMsMax,
  });
  const kit = new Kit({ keyFolder, clock, world, traffic, door, held, worker, looking });
  const { bundles } = kit.baton;
  if (deploy !== undefined) {
    await bundles.deploy("projectRoot" in deploy ? await buildBundle(deploy) : deploy);
  }
  return kit;
}

interface KitParts {
  readonly keyFolder: string;
  readonly clock: HeldClock;
  readonly world: { close(): Promise<void> };
  readonly traffic: Traffic;
  readonly door: Door;
  readonly held: HeldSteps;
  readonly worker: Worker;
  readonly looking: Looking;
}

class Kit implements TestBaton {
  readonly baton: Baton;
  readonly #parts: KitParts;
  #closing: Promise<void> | null = null;

  constructor(parts: KitParts) {
    this.#parts = parts;
    this.baton = this.#standing();
  }

  now(): number {
    return this.#parts.clock.now();
  }

  advance(ms: number): Promise<void> {
    return this.#parts.clock.advance(ms, () => this.settle());
  }

  advanceTo(atMs: number): Promise<void> {
    return this.advance(Math.max(0, atMs - this.now()));
  }

  async settle(): Promise<void> {
    const { traffic } = this.#parts;
    let seen = -1;
    for (let turns = 0; turns < QUIET_TURNS; turns++) {
      if (traffic.calls !== seen || isAtFiles()) turns = 0;
      seen = traffic.calls;
      await turn();
    }
  }

  waitForSleep(run: Run): Promise<OpenSleep> {
    const { looking } = this.#parts;
    return looking.until(run, "a sleep", async () => {
      const ahead = (await looking.sleeps(run)).filter(({ resumeAt }) => resumeAt > this.now());
      return ahead.toSorted((a, b) => a.resumeAt - b.resumeAt)[0] ?? null;
    });
  }

  waitForHook(run: Run, { token }: { readonly token?: string } = {}): Promise<OpenHook> {
    const { looking } = this.#parts;
    return looking.until(run, token === undefined ? "a hook" : `a hook "${token}"`, async () => {
      const open = await looking.hooks(run);
      return open.find((hook) => token === undefined || hook.token === token) ?? null;
    });
  }

  hold(step: string): () => void {
    const { held } = this.#parts;
    held.hold(step);
    return () => {
      held.letGo(step);
    };
  }

  async waitForStep(run: Run, step: string): Promise<HeldStep> {
    const { looking, held } = this.#parts;
    if (!held.holds(step)) {
      throw new BatonError(
        "INVALID_ARGUMENT",
        `nothing holds step ${step}: call hold() before the run comes to it`,
        {
          field: "step",
          used: step,
        },
      );
    }
    const { stepId, attempt } = await looking.until(
      run,
      `an outcome of step ${step}`,
      () => held.of(run.runId).find(({ stepName }) => isNamed(stepName, step)) ?? null,
    );
    return { stepId, attempt };
  }

  race(run: Run, script: readonly Move[]): Promise<readonly Landing[]> {
    return race(
      {
        ...this.#parts,
        baton: this.baton,
        nowMs: () => this.now(),
        advance: (ms) => this.advance(ms),
        settle: () => this.settle(),
        crash: () => this.crash(),
      },
      run,
      script,
    );
  }

  async crash(): Promise<void> {
    await this.#parts.worker.replace();
    await this.settle();
  }

  async outcome(run: Run): Promise<TestOutcome> {
    await this.settle();
    return this.#parts.looking.outcome(run);
  }

  events(run: Run): Promise<readonly LoggedEvent[]> {
    return this.#parts.looking.events(run);
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { door, held, worker, world, keyFolder } = this.#parts;
    door.openAll();
    held.letAllGo();
    await worker.close();
    await world.close();
    await rm(keyFolder, { recursive: true, force: true });
  }

  /** The Baton of whichever worker lives. */
  #standing(): Baton {
    const { worker } = this.#parts;
    const present = () => worker.composed.baton;
    const calls: Partial<Baton> = {
      start: async (...args) => this.#runOf(await present().start(...args)),
      getRun: (...args) => this.#runOf(present().getRun(...args)),
      registerLifecycleHooks: (hooks) => worker.registerLifecycleHooks(hooks),
      close: () => this.close(),
    };
    return standing(calls, present);
  }

  /** A run of whichever worker lives. */
  #runOf({ runId, tenantId }: Run): Run {
    const { worker, looking } = this.#parts;
    const present = () => worker.composed.baton.getRun(runId, { tenantId });
    const name = { runId, tenantId };
    const returnValue = async (signal?: AbortSignal): Promise<unknown> => {
      await looking.until(name, "its end", async () => {
        signal?.throwIfAborted();
        return isOver((await looking.row(name)).status) ? true : null;
      });
      return present().returnValue(signal);
    };
    const calls: Partial<Run> = { ...name, returnValue };
    return standing(calls, present);
  }
}

/** An object whose members are these, and for the rest those of what is present at the time. */
function standing<T extends object>(members: Partial<T>, present: () => T): T {
  return new Proxy({} as T, {
    get: (_, key) => Reflect.get(Object.hasOwn(members, key) ? members : present(), key) as unknown,
  });
}
