/**
 * Step bundles as host code: what `trust: "host"` means.
 *
 * Owns loading. A bundle's module runs in this process with everything the process may do; that is
 * the operator's decision at start-up, settable through no route or record. Node keeps a loaded
 * module for the life of the process.
 *
 * T21  What one bundle registers is seen by its own runs alone, though all register in the same
 *      global places.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { TenantId } from "../engine/ids.ts";

export type StepBody = ((this: unknown, ...args: never[]) => unknown) & {
  readonly maxRetries?: unknown;
};

/** What the step side of one bundle registered. */
export interface LoadedSteps {
  readonly steps: ReadonlyMap<string, StepBody>;
  readonly classes: ReadonlyMap<string, object>;
}

/** The step side's source of a tenant's bundle, or null if there is no such bundle. */
export type StepCodeOf = (tenantId: TenantId, deploymentId: string) => Promise<string | null>;

const STEPS = Symbol.for("@workflow/core//registeredSteps");
const CLASSES = Symbol.for("workflow-class-registry");
const globals = globalThis as unknown as Record<symbol, unknown>;

export class StepBundles {
  readonly #stepCodeOf: StepCodeOf;
  readonly #loaded = new Map<string, Promise<LoadedSteps | null>>();
  /** Loads run one after the other: each has the global registries for itself. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(stepCodeOf: StepCodeOf) {
    this.#stepCodeOf = stepCodeOf;
  }

  /** Loads once; a bundle that was not there is looked for again. */
  load(tenantId: TenantId, deploymentId: string): Promise<LoadedSteps | null> {
    const key = `${tenantId}/${deploymentId}`;
    const known = this.#loaded.get(key);
    if (known !== undefined) return known;
    const loading = this.#load(tenantId, deploymentId);
    this.#loaded.set(key, loading);
    const forget = () => this.#loaded.delete(key);
    loading.then((steps) => steps ?? forget(), forget);
    return loading;
  }

  async #load(tenantId: TenantId, deploymentId: string): Promise<LoadedSteps | null> {
    const code = await this.#stepCodeOf(tenantId, deploymentId);
    if (code === null) return null;
    const turn = this.#turn.then(() => evaluated(code));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}

async function evaluated(code: string): Promise<LoadedSteps> {
  const steps = new Map<string, StepBody>();
  const classes = new Map<string, object>();
  const before = [globals[STEPS], globals[CLASSES]];
  const folder = await mkdtemp(join(tmpdir(), "baton-steps-"));
  try {
    const file = join(folder, "steps.cjs");
    await writeFile(file, code, { mode: 0o600 });
    globals[STEPS] = steps;
    globals[CLASSES] = classes;
    await import(/* @vite-ignore */ pathToFileURL(file).href);
    return { steps, classes };
  } finally {
    [globals[STEPS], globals[CLASSES]] = before;
    await rm(folder, { recursive: true, force: true });
  }
}
