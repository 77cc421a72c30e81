/**
 * The Sandbox port over heaps in one of three forms. The form decides what a tenant that breaks
 * out of wasm would reach, and nothing else: answers are the same in all of them.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { assertNever } from "../engine/assert.ts";
import { BatonError } from "../engine/errors.ts";
import type {
  AdmissionReport,
  BundleCode,
  HeapLimits,
  HeapRequest,
  OpenResult,
  Sandbox,
} from "../engine/ports/sandbox.ts";
import { registeredIn } from "./border.ts";
import { Violation } from "./guest-text.ts";
import type { StepRunner } from "../engine/ports/steps.ts";
import { callingThread } from "./calling-thread.ts";
import { SEED_BYTES } from "./guest/entity-ids.ts";
import { HeapProxy } from "./heap-proxy.ts";
import { checkLimits } from "./limits.ts";
import { withSource } from "./place.ts";
import type { Lodging, LodgingRequest, Places } from "./place.ts";
import { ProcessPlaces } from "./processes.ts";
import type { ProcessesOptions } from "./processes.ts";
import { ThreadPlaces } from "./threads.ts";
import type { ThreadsOptions } from "./threads.ts";
import { SandboxedSteps } from "./step-runner.ts";
import type { SandboxedStepsParts } from "./step-runner.ts";
import { refOf, workflowSide } from "./wire.ts";
import type { InspectAnswer } from "./wire.ts";

export type SandboxOptions =
  /** Worker threads of this process: stops programs and bounds memory. */
  | ({ readonly form: "threads" } & ThreadsOptions)
  /** A child process for each trust group, with worker threads inside: for strangers. */
  | ({ readonly form: "process" } & ProcessesOptions)
  /** Only for tests: a program that cannot be interrupted hangs the process. */
  | { readonly form: "calling-thread" };

/** Heaps of both kinds, over the same places. */
export interface WholeSandbox extends Sandbox {
  /** Runs the step sides of bundles in step heaps. */
  stepRunner(parts: Omit<SandboxedStepsParts, "guestLibrary">): StepRunner;
}

const require = createRequire(import.meta.url);

export function createSandbox(options: SandboxOptions): WholeSandbox {
  switch (options.form) {
    case "threads":
      return new PlacedSandbox(new ThreadPlaces(options));
    case "process":
      return new PlacedSandbox(new ProcessPlaces(options));
    case "calling-thread":
      return new PlacedSandbox(callingThread());
    default:
      return assertNever(options);
  }
}

class PlacedSandbox implements WholeSandbox {
  readonly #places: Places;
  #isClosed = false;

  constructor(places: Places) {
    this.#places = places;
  }

  async inspect(bundle: BundleCode, limits: HeapLimits): Promise<AdmissionReport> {
    const lodging = await this.#lodge({
      tenantId: bundle.tenantId,
      runId: null,
      limits,
      use: { kind: "workflow" },
    });
    const { place, heapId } = lodging;
    const source = workflowSide(bundle);
    try {
      const answer = await withSource(source, place, () =>
        place.order({ kind: "inspect", heapId, bundle: refOf(source), limits }),
      );
      return admissionOf(answer);
    } finally {
      lodging.release();
    }
  }

  async open(request: HeapRequest): Promise<OpenResult> {
    const { run, bundle, limits, image, cpuWeight: weight = 1 } = request;
    if (request.seed.length !== SEED_BYTES) {
      throw new BatonError("INVALID_ARGUMENT", `a seed has ${SEED_BYTES} bytes`, {
        field: "seed",
        used: request.seed.length,
        allowed: SEED_BYTES,
      });
    }
    const lodging = await this.#lodge({ ...run, limits, weight, use: { kind: "workflow" } });
    const source = workflowSide(bundle);
    const answer = await withSource(source, lodging.place, () =>
      lodging.place.order({
        kind: "open",
        heapId: lodging.heapId,
        bundle: refOf(source),
        runId: run.runId,
        workflowName: request.workflowName,
        seed: request.seed,
        createdAt: request.createdAt,
        limits,
        image:
          image === undefined
            ? null
            : { bytes: image.image, binding: { run, slot: image.slot, digest: image.digest } },
      }),
    );
    if (answer.kind !== "opened") {
      lodging.release();
      return answer;
    }
    lodging.note(answer.heapBytes);
    return { kind: "opened", heap: new HeapProxy(request, lodging, answer.consumedSlot) };
  }

  /** Step heaps are never restored, so they run this build's library, whatever the bundle's is. */
  stepRunner(parts: Omit<SandboxedStepsParts, "guestLibrary">): StepRunner {
    const guestLibrary = readFileSync(require.resolve("#built/guest/step.js"), "utf8");
    return new SandboxedSteps(this.#places, { ...parts, guestLibrary });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#places.close();
  }

  async #lodge(request: LodgingRequest): Promise<Lodging> {
    if (this.#isClosed) throw new BatonError("CLOSED", "the sandbox is closed");
    checkLimits(request.limits);
    return this.#places.lodge(request);
  }
}

function admissionOf(answer: Exclude<InspectAnswer, { kind: "bundle_unknown" }>): AdmissionReport {
  switch (answer.kind) {
    case "inspected":
      try {
        const { workflows, steps } = registeredIn(answer.text);
        const { sharesImage, notes } = answer;
        return { kind: "admitted", workflows, steps, sharesImage, notes };
      } catch (error) {
        if (error instanceof Violation) return refusal("its list of names is refused");
        throw error;
      }
    case "bundle_failed":
      return refusal(`${answer.error.message}\n${answer.error.stack}`);
    case "limit": {
      const { code, limit, used, allowed } = answer.exceeded;
      return refusal(`${code}: it used ${used} of ${allowed} (${limit}) while it was loaded`);
    }
    case "lost":
      return refusal(`it could not be loaded here: ${answer.reason}`);
    default:
      return assertNever(answer);
  }
}

function refusal(reason: string): AdmissionReport {
  return { kind: "refused", reason };
}
