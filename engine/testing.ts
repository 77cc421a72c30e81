/**
 * `baton/testing`: a whole Baton in a test's process, on the memory World, with a clock that stands
 * still until the test moves it.
 *
 * Owns the wiring of such a Baton, and waiting for what a run waits for. Nothing here is faked but
 * time: code runs in heaps, values are sealed, and every rule of the engine holds. Races are written
 * by order: what the test lets happen first commits first.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stepCodec } from "../sandbox/step-codec.ts";
import { buildBundle } from "../tenants/bundles/build.ts";
import type { BuiltBundle } from "../tenants/bundles/build.ts";
import { HELD_START_MS, HeldClock } from "../worlds/conformance/held-clock.ts";
import { createMemoryWorld } from "../worlds/memory/index.ts";
import { createBaton } from "./compose.ts";
import type { Baton, BatonOptions, Run } from "./compose.ts";
import { runIdOf, tenantIdOf } from "./ids.ts";
import { PLAIN_REALM } from "./ports/steps.ts";
import type { HookRow, OpenEntities, TenantStore, WaitRow, World } from "./ports/world.ts";

export interface TestBatonOptions extends Pick<
  BatonOptions,
  "quotas" | "settings" | "log" | "steps" | "sandbox"
> {
  /** What to deploy: a bundle, or a project to build one of. */
  readonly deploy?:
    BuiltBundle | { readonly projectRoot: string; readonly entries: readonly string[] };
  /** The time at which the clock stands, epoch ms. */
  readonly startMs?: number;
  /** How long, in real time, a wait for a sleep or a hook may take before it fails; 10 s. */
  readonly waitMsMax?: number;
}

/** A sleep, or a wait for a hook's payload, that a run has come to. */
export interface OpenSleep {
  readonly waitId: string;
  /** Epoch ms of the Baton's clock. */
  readonly resumeAt: number;
}
export interface OpenHook {
  readonly hookId: string;
  readonly token: string;
}

export interface TestBaton extends AsyncDisposable {
  readonly baton: Baton;
  /** Epoch ms. */
  now(): number;
  /** Moves time on by so many ms; what falls due happens on the way, in order. */
  advance(ms: number): Promise<void>;
  /** Moves time to this instant, epoch ms. */
  advanceTo(atMs: number): Promise<void>;
  /** Lets everything happen that needs no time. */
  settle(): Promise<void>;
  /** The first sleep that is open in the run, once there is one that is not due yet. */
  waitForSleep(run: Run): Promise<OpenSleep>;
  /** The first hook that is open in the run, of this token if one is named. */
  waitForHook(run: Run, of?: { readonly token?: string }): Promise<OpenHook>;
  close(): Promise<void>;
}

const WAIT_MS_MAX = 10_000;
/** Turns of the event loop in a row without a call to the World, before all counts as settled. */
const QUIET_TURNS = 30;

/**
 * Heaps live on the test's own thread unless `sandbox` says otherwise, so that the order of things is
 * the same always. `steps.functions`, by step id, stand in for steps of the bundle.
 */
export async function createTestBaton(options: TestBatonOptions = {}): Promise<TestBaton> {
  const { deploy, startMs = HELD_START_MS, waitMsMax = WAIT_MS_MAX, ...rest } = options;
  const folder = await mkdtemp(join(tmpdir(), "baton-testing-"));
  const clock = new HeldClock(startMs);
  const calls = { count: 0 };
  const baton = await createBaton({
    sandbox: { form: "calling-thread" },
    ...rest,
    clock,
    world: counted(createMemoryWorld({ clock }), calls),
    keyFolder: folder,
  });
  if (deploy !== undefined) {
    await baton.bundles.deploy("projectRoot" in deploy ? await buildBundle(deploy) : deploy);
  }
  const settle = (): Promise<void> => quiet(calls);
  const advance = (ms: number): Promise<void> => clock.advance(ms, settle);
  const close = async (): Promise<void> => {
    await baton.close();
    await rm(folder, { recursive: true, force: true });
  };
  return {
    baton,
    now: () => clock.now(),
    advance,
    advanceTo: (atMs) => advance(Math.max(0, atMs - clock.now())),
    settle,
    waitForSleep: (run) =>
      found({ baton, run, what: "a sleep", waitMsMax }, ({ waits }) => sleepOf(waits, clock.now())),
    waitForHook: (run, { token } = {}) =>
      found(
        { baton, run, what: `a hook${token === undefined ? "" : ` ${token}`}`, waitMsMax },
        (open) => hookOf(open.hooks, token),
      ),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function sleepOf(waits: readonly WaitRow[], nowMs: number): OpenSleep | null {
  const open = waits.find((wait) => wait.status === "waiting" && wait.resumeAt > nowMs);
  return open === undefined ? null : { waitId: open.waitId, resumeAt: open.resumeAt };
}

function hookOf(hooks: readonly HookRow[], wanted?: string): OpenHook | null {
  for (const { hookId, token: sealed, status, isSystem } of hooks) {
    const token = stepCodec.decode(sealed, PLAIN_REALM);
    if (status !== "open" || isSystem || typeof token !== "string") continue;
    if (wanted === undefined || token === wanted) return { hookId, token };
  }
  return null;
}

interface Wanted {
  readonly baton: Baton;
  readonly run: Run;
  readonly what: string;
  readonly waitMsMax: number;
}

/** Looks between turns of the event loop; time of the Baton does not move. */
async function found<T>(
  { baton, run, what, waitMsMax }: Wanted,
  look: (open: OpenEntities) => T | null,
): Promise<T> {
  const store: TenantStore = baton.world.forTenant(tenantIdOf(run.tenantId));
  const untilMs = Date.now() + waitMsMax;
  for (;;) {
    const status = await run.status();
    if (status !== "pending" && status !== "running") {
      throw new Error(`the run ${run.runId} is ${status}: it will not come to ${what}`);
    }
    const seen = look(await store.openEntities(runIdOf(run.runId)));
    if (seen !== null) return seen;
    if (Date.now() >= untilMs) {
      throw new Error(
        `the run ${run.runId} did not come to ${what}; does time have to move first?`,
      );
    }
    await turn();
  }
}

async function quiet(calls: { readonly count: number }): Promise<void> {
  let seen = -1;
  for (let turns = 0; turns < QUIET_TURNS; turns++) {
    if (calls.count !== seen) turns = 0;
    seen = calls.count;
    await turn();
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** The same World, with every call of it counted. */
function counted<T extends World | object>(target: T, calls: { count: number }): T {
  return new Proxy(target, {
    get(of, key, receiver) {
      const member: unknown = Reflect.get(of, key, receiver);
      if (typeof member === "function") {
        return (...args: unknown[]): unknown => {
          calls.count += 1;
          const answer: unknown = Reflect.apply(member, of, args);
          return key === "forTenant" ? counted(answer as object, calls) : answer;
        };
      }
      return typeof member === "object" && member !== null ? counted(member, calls) : member;
    },
  });
}
