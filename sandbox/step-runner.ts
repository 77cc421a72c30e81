/**
 * Sandboxed steps: the `StepRunner` over step heaps.
 *
 * Owns what is known of a bundle's steps, found out once, and the opening of attempts. What an
 * outcome means for the step is the engine's to decide.
 */
import { assertNever } from "../engine/assert.ts";
import type { BundleHash, RunRef, TenantId } from "../engine/ids.ts";
import type { EgressPort } from "../engine/ports/egress.ts";
import type { Clock, Log, Random } from "../engine/ports/host.ts";
import { MAX_RETRIES_DEFAULT } from "../engine/ports/steps.ts";
import type {
  StepAttempt,
  StepLimits,
  StepOutcome,
  StepRunner,
  StepTraits,
} from "../engine/ports/steps.ts";
import type { UsageSample } from "../engine/ports/tenants.ts";
import { SEED_BYTES } from "./guest/entity-ids.ts";
import { Violation } from "./guest-text.ts";
import { SANDBOX_LIMITS, checkLimits, exceeded } from "./limits.ts";
import { withSource } from "./place.ts";
import type { Lodging, Places } from "./place.ts";
import { SandboxedAttempt, interruptedBy } from "./sandboxed-attempt.ts";
import { registeredStepsIn } from "./step-border.ts";
import { bundleError, failedBy, isClosed, limitError } from "./step-failures.ts";
import { stepScript } from "./step-script.ts";
import type { BuiltinUse } from "./step-script.ts";
import { refOf } from "./wire.ts";
import type { BundleSource } from "./wire.ts";

export interface StepSide {
  readonly hash: BundleHash;
  readonly stepCode: string;
  readonly nodeBuiltins: readonly BuiltinUse[];
}

export interface SandboxedStepsParts {
  /** Null: the tenant has no such bundle. */
  stepSideOf(tenantId: TenantId, deploymentId: string): Promise<StepSide | null>;
  /** Null: there is no such tenant. */
  limitsOf(tenantId: TenantId): Promise<StepLimits | null>;
  /** By the names under which step code reads them; absent: none are granted. */
  readonly secretsOf?: (tenantId: TenantId) => Promise<Readonly<Record<string, string>>>;
  /** Absent: nobody counts. */
  readonly count?: (tenantId: TenantId, sample: UsageSample) => void;
  /** How long bodies of the tenant wait for CPU, ms; absent: they do not. */
  readonly cpuWaitMs?: (tenantId: TenantId) => number;
  /** Absent: every request of a step is refused. */
  readonly egress?: EgressPort;
  /** The step side of the guest library. */
  readonly guestLibrary: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

type Known =
  | { readonly kind: "steps"; readonly traits: ReadonlyMap<string, StepTraits> }
  /** The step side cannot be loaded, which each of its steps will say. */
  | { readonly kind: "failed"; readonly error: Error }
  /** Through no fault of the bundle. */
  | { readonly kind: "unknown" };

/** Threads may die, by other bundles' doing, while a bundle is looked at. */
const LOOKS_MAX = 3;

export class SandboxedSteps implements StepRunner {
  readonly #places: Places;
  readonly #parts: SandboxedStepsParts;
  readonly #known = new Map<string, Promise<Known>>();

  constructor(places: Places, parts: SandboxedStepsParts) {
    this.#places = places;
    this.#parts = parts;
  }

  async traitsOf(run: RunRef, deploymentId: string, stepName: string): Promise<StepTraits | null> {
    const { tenantId } = run;
    const side = await this.#parts.stepSideOf(tenantId, deploymentId);
    const limits = await this.#parts.limitsOf(tenantId);
    if (side === null || limits === null) return null;
    const known = await this.#knownOf(this.#sourceOf(tenantId, side), limits);
    if (known.kind === "failed") return DEFAULT_TRAITS;
    return known.kind === "steps" ? (known.traits.get(stepName) ?? null) : null;
  }

  async run(attempt: StepAttempt): Promise<StepOutcome> {
    const { tenantId } = attempt.run;
    const { clock, random, log, egress, secretsOf, count, cpuWaitMs } = this.#parts;
    const side = await this.#parts.stepSideOf(tenantId, attempt.deploymentId);
    const limits = await this.#parts.limitsOf(tenantId);
    if (side === null || limits === null) {
      return { kind: "interrupted", reason: "the step is not registered here" };
    }
    const source = this.#sourceOf(tenantId, side);
    const known = await this.#knownOf(source, limits);
    // Its retries are then not known either, so its body must not run even if it now could.
    if (known.kind === "failed") return failedBy(known.error, attempt);
    const traits = known.kind === "steps" ? known.traits.get(attempt.stepName) : undefined;
    if (traits === undefined) {
      return { kind: "interrupted", reason: "the step is not registered here" };
    }
    const isAlone = traits.maxRetries === 0;
    const env = (await secretsOf?.(tenantId)) ?? {};
    if (attempt.signal.aborted) return interruptedBy(attempt.signal);
    const sandboxed = new SandboxedAttempt({
      attempt,
      source,
      limits,
      isAlone,
      seed: random.bytes(SEED_BYTES),
      env,
      egress: egress ?? null,
      clock,
      log,
      count: (sample) => count?.(tenantId, sample),
      cpuWaitMs: () => cpuWaitMs?.(tenantId) ?? 0,
    });
    const lodging = await this.#lodge(tenantId, {
      runId: attempt.run.runId,
      limits: limits.heap,
      weight: limits.cpuWeight ?? 1,
      use: { kind: "step", isAlone },
      onGone: (reason) => sandboxed.gone(reason),
    });
    if (lodging === null) return { kind: "interrupted", reason: "the sandbox is closed" };
    try {
      if (attempt.signal.aborted) return interruptedBy(attempt.signal);
      return await sandboxed.run(lodging);
    } finally {
      lodging.release();
    }
  }

  /** Null: the sandbox is closed. */
  async #lodge(
    tenantId: TenantId,
    request: Omit<Parameters<Places["lodge"]>[0], "tenantId">,
  ): Promise<Lodging | null> {
    checkLimits(request.limits);
    try {
      return await this.#places.lodge({ tenantId, ...request });
    } catch (error) {
      if (isClosed(error)) return null;
      throw error;
    }
  }

  #sourceOf(tenantId: TenantId, { hash, stepCode, nodeBuiltins }: StepSide): BundleSource {
    const code = stepScript(stepCode, nodeBuiltins);
    return { tenantId, hash, side: "step", code, guestLibrary: this.#parts.guestLibrary };
  }

  #knownOf(source: BundleSource, limits: StepLimits): Promise<Known> {
    // A bundle that could not be loaded is looked at again once its tenant's limits are others.
    const key = `${source.tenantId}/${source.hash}/${JSON.stringify(limits.heap)}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const looking = this.#look(source, limits);
    this.#known.set(key, looking);
    if (this.#known.size > SANDBOX_LIMITS.knownBundlesMax) {
      const [oldest] = this.#known.keys();
      this.#known.delete(oldest as string);
    }
    const forget = () => this.#known.delete(key);
    looking.then((found) => found.kind === "unknown" && forget(), forget);
    return looking;
  }

  async #look(source: BundleSource, limits: StepLimits): Promise<Known> {
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      const known = await this.#lookOnce(source, limits);
      if (known.kind !== "unknown") return known;
    }
    return { kind: "unknown" };
  }

  async #lookOnce(source: BundleSource, limits: StepLimits): Promise<Known> {
    const lodging = await this.#lodge(source.tenantId, {
      runId: null,
      limits: limits.heap,
      use: { kind: "step", isAlone: false },
    });
    if (lodging === null) return { kind: "unknown" };
    const { place, heapId } = lodging;
    try {
      const answer = await withSource(source, place, () =>
        place.order({ kind: "inspect", heapId, bundle: refOf(source), limits: limits.heap }),
      );
      switch (answer.kind) {
        case "inspected":
          return knownIn(answer.text);
        case "bundle_failed":
          return { kind: "failed", error: bundleError(answer.error) };
        case "limit":
          return { kind: "failed", error: limitError(answer.exceeded) };
        case "lost":
          return { kind: "unknown" };
        default:
          return assertNever(answer);
      }
    } finally {
      lodging.release();
    }
  }
}

const DEFAULT_TRAITS: StepTraits = { maxRetries: MAX_RETRIES_DEFAULT };

function knownIn(text: string): Known {
  try {
    const { steps } = registeredStepsIn(text);
    const traits = steps.map(({ id, maxRetries }): [string, StepTraits] => [
      id,
      maxRetries === null ? DEFAULT_TRAITS : { maxRetries },
    ]);
    return { kind: "steps", traits: new Map(traits) };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    const violated = exceeded("GUEST_PROTOCOL_VIOLATION", "violationsMax", 1, 0);
    return { kind: "failed", error: limitError(violated) };
  }
}
