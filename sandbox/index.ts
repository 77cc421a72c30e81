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
  StepAdmissionReport,
  StepCode,
  StepInspector,
} from "../engine/ports/sandbox.ts";
import { BUILTIN_STEPS } from "../engine/ports/builtin-steps.ts";
import { registeredIn } from "./border.ts";
import { Violation } from "./guest-text.ts";
import type { StepRunner } from "../engine/ports/steps.ts";
import { callingThread } from "./calling-thread.ts";
import { SEED_BYTES } from "./guest/entity-ids.ts";
import { HeapProxy } from "./heap-proxy.ts";
import { checkLimits } from "./limits.ts";
import { withSource } from "./place.ts";
import type { Lodging, LodgingRequest, LodgingUse, Places } from "./place.ts";
import { ProcessPlaces } from "./processes.ts";
import type { ProcessesOptions } from "./processes.ts";
import { ThreadPlaces } from "./threads.ts";
import type { ThreadsOptions } from "./threads.ts";
import { registeredStepsIn } from "./step-border.ts";
import { SandboxedSteps } from "./step-runner.ts";
import type { SandboxedStepsParts } from "./step-runner.ts";
import { stepScript } from "./step-script.ts";
import { refOf, workflowSide } from "./wire.ts";
import type { BundleSource, InspectAnswer } from "./wire.ts";

export type SandboxOptions =
  /** Worker threads of this process: stops programs and bounds memory. */
  | ({ readonly form: "threads" } & ThreadsOptions)
  /** A child process for each trust group, with worker threads inside: for strangers. */
  | ({ readonly form: "process" } & ProcessesOptions)
  /** Only for tests: a program that cannot be interrupted hangs the process. */
  | { readonly form: "calling-thread" };

/** Heaps of both kinds, over the same places. */
export interface WholeSandbox extends Sandbox, StepInspector {
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
    const answer = await this.#look(workflowSide(bundle), limits, { kind: "workflow" });
    return reportOf(answer, registeredIn);
  }

  async inspectSteps(code: StepCode, limits: HeapLimits): Promise<StepAdmissionReport> {
    const { tenantId, hash, stepCode, nodeBuiltins } = code;
    const source: BundleSource = {
      tenantId,
      hash,
      side: "step",
      code: stepScript(stepCode, nodeBuiltins),
      guestLibrary: stepLibrary(),
    };
    const answer = await this.#look(source, limits, { kind: "step", isAlone: false });
    return reportOf(answer, (text) => {
      const steps = registeredStepsIn(text).steps.map(({ id }) => id);
      return { steps: steps.filter((id) => !LIBRARY_STEPS.has(id)) };
    });
  }

  async #look(source: BundleSource, limits: HeapLimits, use: LodgingUse): Promise<LookAnswer> {
    const lodging = await this.#lodge({ tenantId: source.tenantId, runId: null, limits, use });
    const { place, heapId } = lodging;
    try {
      return await withSource(source, place, () =>
        place.order({ kind: "inspect", heapId, bundle: refOf(source), limits }),
      );
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
        baseUrl: request.baseUrl ?? null,
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
    return new SandboxedSteps(this.#places, { ...parts, guestLibrary: stepLibrary() });
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

type LookAnswer = Exclude<InspectAnswer, { kind: "bundle_unknown" }>;
type Refusal = Extract<AdmissionReport, { kind: "refused" }>;

/** The library's own steps, which stand beside the bundle's in every step heap. */
const LIBRARY_STEPS = new Set<string>(Object.values(BUILTIN_STEPS));

function stepLibrary(): string {
  return readFileSync(require.resolve("#built/guest/step.js"), "utf8");
}

/** `namesIn` reads what the heap says that it registered; it throws `Violation`. */
function reportOf<T extends object>(
  answer: LookAnswer,
  namesIn: (text: string) => T,
): Refusal | (T & { kind: "admitted"; sharesImage: boolean; notes: readonly string[] }) {
  switch (answer.kind) {
    case "inspected":
      try {
        const { sharesImage, notes } = answer;
        return { kind: "admitted", ...namesIn(answer.text), sharesImage, notes };
      } catch (error) {
        if (error instanceof Violation) return refusal("its list of names is refused");
        throw error;
      }
    case "bundle_failed":
      return refusal(`${answer.error.message}\n${answer.error.stack}`.trimEnd());
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

function refusal(reason: string): Refusal {
  return { kind: "refused", reason };
}
