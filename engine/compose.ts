/**
 * The only place that joins World, sandbox, tenants and engine: the embedded library.
 *
 * Owns what a platform calls, and the order of opening and closing. Decides nothing of a run.
 * Values of the platform are encoded and decoded by the codec that heaps use, with no class of any
 * tenant revived.
 */
import { stepCodec } from "../sandbox/step-codec.ts";
import { createSandbox } from "../sandbox/index.ts";
import type { SandboxOptions, WholeSandbox } from "../sandbox/index.ts";
import type { SandboxedStepsParts, StepSide } from "../sandbox/step-runner.ts";
import { parseManifest, workflowIdsOf } from "../tenants/bundles/manifest.ts";
import { guestLibraryText } from "../tenants/bundles/shims.ts";
import { TenantEgress } from "../tenants/egress/egress.ts";
import { Deployments, LIVE_ALIAS } from "../tenants/deployments.ts";
import { HostSteps } from "../tenants/host-steps.ts";
import type { TenantPolicy } from "../tenants/policy.ts";
import { EMBEDDED_QUOTAS, SERVER_QUOTAS } from "../tenants/quota.ts";
import type { Quotas } from "../tenants/quota.ts";
import type { StepBody, StepCodeOf } from "../tenants/step-bundles.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import type { Vault } from "../tenants/vault.ts";
import { DEFAULT_TENANT } from "../tenants/tenant.ts";
import { openTenantsPart, tend } from "../tenants/tenants-part.ts";
import { silentLog, systemClock, systemRandom } from "../worlds/platform.ts";
import type { RunHandle } from "./client.ts";
import { BatonError, isBatonError } from "./errors.ts";
import { runIdOf, tenantIdOf } from "./ids.ts";
import type { TenantId } from "./ids.ts";
import type { EgressPort } from "./ports/egress.ts";
import type { Clock, Log, Random } from "./ports/host.ts";
import type { ConsumeOptions } from "./ports/queue.ts";
import type { EndedRun } from "./lifecycle.ts";
import type { Sandbox } from "./ports/sandbox.ts";
import { PLAIN_REALM } from "./ports/steps.ts";
import type { StepRunner } from "./ports/steps.ts";
import type { ReadableOptions } from "./readable.ts";
import { hookInfo, runView } from "./run-view.ts";
import type { HookInfo, Run, RunReadable } from "./run-view.ts";
import type { StoredBundle, World } from "./ports/world.ts";
import { FirstThatKnows } from "./step-runners.ts";
import { createEngine } from "./runtime.ts";
import type { EngineRuntime } from "./runtime.ts";
import { settingsOf } from "./settings.ts";
import type { Settings } from "./settings.ts";

export { EMBEDDED_QUOTAS };
export type { QuotaOverrides, Quotas } from "../tenants/quota.ts";
export type { BuiltBundle } from "../tenants/bundles/build.ts";
export type { ApiKeyInfo, IssuedApiKey } from "../tenants/api-keys.ts";
export type { EgressPolicy, EgressPolicyInput } from "../tenants/egress-policy.ts";
export type { Tenancy, TenantInfo, TenantUsage } from "../tenants/tenancy.ts";
export type { HookInfo, ReadableOptions, Run, RunReadable, SandboxOptions, StepBody };
export type { Usage } from "../tenants/usage.ts";
export type { DeletionReceipt } from "../tenants/deletion.ts";

/** What an embedded Baton is made of. */
export interface BatonOptions {
  /** Where truth is kept. Closed with the Baton. */
  readonly world: World;
  /** Holds the master key and the wrapped data keys; keep it apart from the World's data. */
  readonly keyFolder: string;
  /**
   * What a tenant may use where its record sets nothing. By default the embedded library's; with
   * `tenants`, a server's.
   */
  readonly quotas?: Quotas;
  /** For platforms with tenants of their own: there is then no tenant `default` by itself. */
  readonly tenants?: TenantsOptions;
  /** Threads by default. */
  readonly sandbox?: SandboxOptions;
  readonly steps?: {
    /** Functions of the platform by step id; every tenant's workflows may call them. */
    readonly functions?: ReadonlyMap<string, StepBody>;
    /**
     * Runs the step side of every bundle as code of this process. Only for code you trust; without
     * it, steps run in heaps of their own.
     */
    readonly trust?: "host";
  };
  /** How requests of sandboxed steps leave; absent: as each tenant's egress policy allows. */
  readonly egress?: EgressPort;
  /** Over what the environment says. */
  readonly settings?: Partial<Settings>;
  readonly deliveries?: Partial<ConsumeOptions>;
  readonly clock?: Clock;
  readonly random?: Random;
  readonly log?: Log;
}

export interface TenantsOptions {
  /** `given`: the operator puts `master.key` into the key folder, and no start makes it. */
  readonly masterKey?: "given";
}

/** How a run is started; by default of the one tenant of an embedded Baton. */
export interface StartOptions {
  readonly tenantId?: string;
  /** A bundle's hash or an alias; `live` by default. */
  readonly bundle?: string;
  /** The run's own id; refused if the tenant has a run of it. */
  readonly runId?: string;
  /** A repeated start under one key of the tenant finds the first one's run. */
  readonly idempotencyKey?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

/** How a payload is brought to a hook. */
export interface ResumeOptions {
  readonly tenantId?: string;
  /** Repeats of one resume under one id are one payload. */
  readonly resumeId?: string;
  /** How long to wait for a hook to hold the token; by default it has to be there. */
  readonly waitMs?: number;
}

/** Baton in a platform's process: takes deliveries, and what the platform asks of runs. */
export interface Baton {
  /** Starts a workflow of a bundle, by its id or by its name if only one workflow has it. */
  start(workflow: string, args: readonly unknown[], options?: StartOptions): Promise<Run>;
  getRun(runId: string, options?: { readonly tenantId?: string }): Run;
  /** Brings a payload to the hook that holds the token; the id of its run. */
  resumeHook(
    token: string,
    payload: unknown,
    options?: ResumeOptions,
  ): Promise<{ readonly runId: string }>;
  /** The open hook that holds the token; `HOOK_NOT_FOUND` if the tenant has none. */
  getHookByToken(token: string, options?: { readonly tenantId?: string }): Promise<HookInfo>;
  /** Answers a request to the address of a webhook; `HOOK_NOT_FOUND` if there is none. */
  resumeWebhook(
    token: string,
    request: Request,
    options?: { readonly tenantId?: string },
  ): Promise<Response>;
  /** Calls back once a run that this process drove has ended; best effort. Returns what ends it. */
  registerLifecycleHooks(hooks: {
    readonly onRunCompleted?: (run: Run) => unknown;
    readonly onRunFailed?: (run: Run) => unknown;
  }): () => void;
  /** A tenant's bundles: to deploy, to release by alias, to roll back, to delete. */
  readonly bundles: Deployments;
  /** The operator's: tenants, their keys, quotas, secrets and egress. */
  readonly tenants: Tenancy;
  /** The World behind the seal, for tools that read logs. */
  readonly world: World;
  /** Deliveries hand off, then everything closes. */
  close(): Promise<void>;
}

/** Between two looks for a hook that a caller waits for. */
const HOOK_LOOK_MS = 50;
/** One tenant alone gets four fifths of the places. */
const DELIVERIES: ConsumeOptions = { orchestratorsMax: 80, stepsMax: 80, timesFreeMax: 4 };

/** A Baton with what of it dies, and what outlives it, where its process is lost. */
export interface ComposedBaton {
  readonly baton: Baton;
  readonly sandbox: Sandbox;
  readonly vault: Vault;
}

/** Opens an embedded Baton and begins to take deliveries. */
export async function createBaton(options: BatonOptions): Promise<Baton> {
  return (await composeBaton(options)).baton;
}

/** The same with its parts, for `baton/testing`; `around` goes around what runs steps. */
export async function composeBaton(
  options: BatonOptions,
  around: (steps: StepRunner) => StepRunner = (steps) => steps,
): Promise<ComposedBaton> {
  const { clock = systemClock, random = systemRandom, log = silentLog } = options;
  const part = await openTenantsPart({
    world: options.world,
    keyFolder: options.keyFolder,
    mayCreateMasterKey: options.tenants?.masterKey !== "given",
    defaults: options.quotas ?? (options.tenants === undefined ? EMBEDDED_QUOTAS : SERVER_QUOTAS),
    hasDefaultTenant: options.tenants === undefined,
    clock,
    log,
  });
  const { world, registry, usage, policy: tenants } = part;
  const sandbox = createSandbox(options.sandbox ?? { form: "threads" });
  const egress = new TenantEgress({
    rulesOf: (tenantId) => tenants.egressRulesOf(tenantId),
    count: (tenantId, sample) => tenants.count(tenantId, sample),
    clock,
  });
  const stepParts = { tenants, sandbox, egress: options.egress ?? egress, clock, random, log };
  const steps = around(stepRunnerOf(options.steps, stepParts));
  const admission = { world, sandbox, registry, clock, guestLibraries: [guestLibraryText()] };
  const bundles = new Deployments(admission, tenants);
  const settings = { ...settingsOf(process.env), ...options.settings };
  const engine = createEngine({
    world,
    sandbox,
    tenants,
    steps,
    codec: stepCodec,
    clock,
    random,
    log,
    settings,
  });
  engine.consume({ ...DELIVERIES, ...options.deliveries });
  const { tenancy, upkeep } = tend(part, engine, { clock, log });
  let closing: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    await upkeep.stop();
    await engine.stop();
    await sandbox.close();
    await egress.close();
    await usage.close();
    await world.close();
  };
  const baton: Baton = {
    ...callsOf(engine, bundles, clock),
    bundles,
    tenants: tenancy,
    world,
    close: () => (closing ??= close()),
  };
  return { baton, sandbox, vault: part.vault };
}

interface StepParts {
  readonly tenants: TenantPolicy;
  readonly sandbox: WholeSandbox;
  readonly egress: EgressPort;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** What runs steps: functions of the platform and trusted bundles first, then heaps. */
function stepRunnerOf(
  steps: BatonOptions["steps"],
  { tenants, sandbox, egress, clock, random, log }: StepParts,
): StepRunner {
  const sandboxedSteps = sandbox.stepRunner({
    stepSideOf: stepSideFrom(tenants),
    limitsOf: (tenantId) => tenants.stepLimitsOf(tenantId),
    secretsOf: (tenantId) => tenants.secretsOf(tenantId),
    count: (tenantId, sample) => tenants.count(tenantId, sample),
    cpuWaitMs: (tenantId) => tenants.cpuWaitMs(tenantId),
    clock,
    random,
    log,
    egress,
  });
  return new FirstThatKnows([hostStepsOf(steps, tenants, log), sandboxedSteps]);
}

type Calls = Pick<
  Baton,
  "start" | "getRun" | "resumeHook" | "getHookByToken" | "resumeWebhook" | "registerLifecycleHooks"
>;

function callsOf(engine: EngineRuntime, bundles: Deployments, clock: Clock): Calls {
  const runOf = (handle: RunHandle) => runView(engine, stepCodec, handle);
  return {
    start: async (workflow, args, options = {}) => {
      const tenantId = tenantOf(options);
      const bundle = await bundles.named(tenantId, options.bundle ?? LIVE_ALIAS);
      const { run } = await engine.start({
        tenantId,
        deploymentId: bundle.hash,
        workflowName: workflowIdNamed(bundle.manifest, workflow),
        input: stepCodec.encode([...args], "workflow arguments", PLAIN_REALM),
        ...startFields(options),
      });
      return runOf(engine.getRun(tenantId, run.runId));
    },
    getRun: (runId, of = {}) => runOf(engine.getRun(tenantOf(of), runId)),
    getHookByToken: async (token, of = {}) =>
      hookInfo(stepCodec, await engine.getHookByToken(tenantOf(of), token)),
    resumeWebhook: (token, request, of = {}) =>
      engine.resumeWebhook({ tenantId: tenantOf(of), token }, request),
    registerLifecycleHooks: ({ onRunCompleted, onRunFailed }) => {
      const told =
        (hook: (run: Run) => unknown) =>
        ({ run }: EndedRun) =>
          hook(runOf(engine.getRun(run.tenantId, run.runId)));
      return engine.registerLifecycleHooks({
        ...(onRunCompleted === undefined ? {} : { onRunCompleted: told(onRunCompleted) }),
        ...(onRunFailed === undefined ? {} : { onRunFailed: told(onRunFailed) }),
      });
    },
    resumeHook: async (token, payload, of = {}) => {
      const resume = {
        tenantId: tenantOf(of),
        token,
        payload: stepCodec.encode(payload, "hook payload", PLAIN_REALM),
        ...(of.resumeId === undefined ? {} : { resumeId: of.resumeId }),
      };
      const deadlineMs = clock.now() + (of.waitMs ?? 0);
      for (;;) {
        try {
          return { runId: (await engine.resumeHook(resume)).runId };
        } catch (error) {
          if (!isBatonError(error, "HOOK_NOT_FOUND") || clock.now() >= deadlineMs) throw error;
        }
        await new Promise<void>((resolve) => void clock.setTimer(HOOK_LOOK_MS, resolve));
      }
    },
  };
}

function tenantOf({ tenantId = DEFAULT_TENANT }: { readonly tenantId?: string }): TenantId {
  return tenantIdOf(tenantId);
}

function hostStepsOf(
  { functions, trust }: BatonOptions["steps"] = {},
  tenants: TenantPolicy,
  log: Log,
): HostSteps {
  return new HostSteps({
    codec: stepCodec,
    log,
    ...(functions === undefined ? {} : { functions }),
    ...(trust === "host" ? { trusted: { stepCodeOf: stepCodeFrom(tenants) } } : {}),
  });
}

function stepCodeFrom(tenants: TenantPolicy): StepCodeOf {
  return async (tenantId, deploymentId) =>
    (await tenants.storedBundleOf(tenantId, deploymentId))?.stepCode ?? null;
}

function stepSideFrom(tenants: TenantPolicy): SandboxedStepsParts["stepSideOf"] {
  const sides = new WeakMap<StoredBundle, StepSide>();
  return async (tenantId, deploymentId) => {
    const bundle = await tenants.storedBundleOf(tenantId, deploymentId);
    if (bundle === null) return null;
    const known = sides.get(bundle);
    if (known !== undefined) return known;
    const { nodeBuiltins } = parseManifest(bundle.manifest);
    const side = { hash: bundle.hash, stepCode: bundle.stepCode, nodeBuiltins };
    sides.set(bundle, side);
    return side;
  };
}

function startFields({ runId, idempotencyKey, attributes }: StartOptions) {
  return {
    ...(runId === undefined ? {} : { runId: runIdOf(runId) }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(attributes === undefined ? {} : { attributes }),
  };
}

/** The id of the workflow that is meant: its id itself, or its bare name where one has it. */
function workflowIdNamed(manifest: string, workflow: string): string {
  const ids = workflowIdsOf(parseManifest(manifest));
  if (ids.includes(workflow)) return workflow;
  const named = ids.filter((id) => id.endsWith(`//${workflow}`));
  if (named.length === 1 && named[0] !== undefined) return named[0];
  const why = named.length === 0 ? "has no such workflow" : "has several workflows of this name";
  throw new BatonError("WORKFLOW_NOT_REGISTERED", `the bundle ${why}`, {
    field: "workflow",
    used: workflow,
    allowed: ids.slice(0, 20).join(", "),
  });
}
