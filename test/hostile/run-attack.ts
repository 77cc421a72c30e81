/** Leads an attempt through one sandbox and writes down what its host saw. */
import { createHash } from "node:crypto";
import { isDeepStrictEqual, types } from "node:util";
import { isBatonError } from "../../engine/errors.ts";
import { bundleHashOf, runIdOf, tenantIdOf, ulid } from "../../engine/ids.ts";
import type { HeapLimits, PassResult, Sandbox } from "../../engine/ports/sandbox.ts";
import { Outside, decisionsOf } from "../sandbox/outside.ts";
import { WORKFLOW_NAME } from "../sandbox/tenant-source.ts";
import type { Attack, Observation, Program, RunTrace } from "./attack.ts";
import { ThreadCpu } from "./thread-cpu.ts";

/** A sandbox to attack, and the library that its heaps are given. */
export interface Target {
  readonly sandbox: Sandbox;
  readonly library: string;
  /** What is in force; limits that an attempt names come on top unless they are lifted. */
  readonly limits: HeapLimits;
  readonly ignoresAttackLimits?: boolean;
  /** How often a heap that its thread's end took along is opened again, as the engine does. */
  readonly triesMax?: number;
}

/** Small enough that running into them takes little time. */
export const ATTACK_LIMITS: HeapLimits = {
  heapBytesMax: 32 << 20,
  cpuSoftMs: 1500,
  cpuHardMs: 3000,
  stackBytesMax: 256 << 10,
  jobsPerEventMax: 100_000,
  openOperationsMax: 1000,
  payloadBytesMax: 128 << 10,
  consoleBytesPerPassMax: 64 << 10,
};

const TRIES_MAX = 4;
const CREATED_AT = 1_700_000_000_000;
const PASSES_MAX = 60;

export async function runAttack(attack: Attack, target: Target): Promise<Observation> {
  const limits = target.ignoresAttackLimits
    ? target.limits
    : { ...target.limits, ...attack.limits };
  const before = hostRealm();
  const rssBefore = process.memoryUsage.rss();
  // Looking at every thread every few ms costs; only where it is the question.
  const cpu = attack.limits?.cpuHardMs === undefined ? null : new ThreadCpu();
  const lead = (program: Program, tenant: string, library = target.library) =>
    trace({
      sandbox: target.sandbox,
      program,
      tenant,
      library,
      limits,
      cpu,
      triesMax: target.triesMax ?? TRIES_MAX,
    });
  const run = await lead(attack.program, "mallory", attack.library);
  const slowestCpuMs = cpu?.slowestMs ?? 0;
  const hostGrowthBytes = process.memoryUsage.rss() - rssBefore;
  const { victim, innocent } = attack;
  return {
    run,
    victim:
      victim === undefined
        ? null
        : await lead(victim.program, victim.tenant === "same" ? "mallory" : "victor"),
    innocent: innocent === undefined ? null : await lead(innocent, "mallory"),
    limits: { ...ATTACK_LIMITS, ...attack.limits },
    slowestCpuMs,
    hostGrowthBytes,
    hostChanges: changesOf(before, hostRealm()),
  };
}

interface Lead {
  readonly sandbox: Sandbox;
  readonly program: Program;
  readonly tenant: string;
  readonly library: string;
  readonly limits: HeapLimits;
  readonly cpu: ThreadCpu | null;
  readonly triesMax: number;
}

async function trace(lead: Lead): Promise<RunTrace> {
  const { sandbox, program, tenant, library, limits, cpu, triesMax } = lead;
  const tenantId = tenantIdOf(tenant);
  const hash = createHash("sha256").update(program.source).update(library).digest("hex");
  const bundle = {
    tenantId,
    hash: bundleHashOf(hash),
    workflowCode: program.source,
    guestLibrary: library,
  };
  const passes: PassResult[] = [];
  let opened: RunTrace["opened"] = "threw";
  let decisions = "";
  let thrown: string | null = null;
  try {
    for (let tries = 0; tries < triesMax; tries++) {
      passes.length = 0;
      const result = await sandbox.open({
        run: { tenantId, runId: runIdOf(`wrun_${ulid(CREATED_AT, Buffer.from(hash, "hex"))}`) },
        bundle,
        workflowName: program.workflowName ?? WORKFLOW_NAME,
        // The same for all, so that programs can be compared.
        seed: new Uint8Array(32).fill(7),
        createdAt: CREATED_AT,
        limits,
      });
      opened = result.kind;
      decisions = "";
      if (result.kind === "opened") {
        await ledToEnd(result.heap, outsideOf(program), { passes, cpu });
        result.heap.close();
      } else {
        decisions = JSON.stringify(result);
      }
      if (result.kind !== "lost" && passes.at(-1)?.kind !== "lost") break;
    }
  } catch (error) {
    // A payload that is no text at all is refused before it gets to a heap.
    if (!types.isProxy(error) && isBatonError(error) && error.code === "PAYLOAD_UNREADABLE")
      passes.push(REFUSED);
    else thrown = textOf(error);
  }
  decisions += passes.map(decisionsOf).join("\n");
  return { opened, passes, thrown, decisions, outcome: outcomeOf(passes) };
}

/** Weakened builds let through what the guest threw, which may bite. */
function textOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return "something that cannot even be printed";
  }
}

const REFUSED: PassResult = { kind: "lost", reason: "the payload is no devalue text" };

function outsideOf(program: Program): Outside {
  return new Outside({
    startedAt: CREATED_AT,
    answers: {
      step: (name) => program.answers?.[name.split("//").at(-1) ?? ""] ?? { text: `["ok"]` },
      hook: (_token, nth) => (nth < 3 ? `["payload"]` : null),
    },
    choose: () => 0,
  });
}

async function ledToEnd(
  heap: { pass(events: Outside["log"]): Promise<PassResult> },
  outside: Outside,
  { passes, cpu }: { readonly passes: PassResult[]; readonly cpu: ThreadCpu | null },
): Promise<void> {
  let events = outside.begin();
  while (events.length > 0 && passes.length < PASSES_MAX) {
    cpu?.passBegins();
    const result = await heap.pass(events);
    await cpu?.passEnded();
    passes.push(result);
    if (result.kind !== "quiet" || result.completion !== null) return;
    events = outside.next(result);
  }
}

function outcomeOf(passes: readonly PassResult[]): string | null {
  const last = passes.at(-1);
  if (last?.kind !== "quiet" || last.completion === null) return null;
  const { completion } = last;
  const payload = completion.kind === "completed" ? completion.output : completion.error;
  return Buffer.from(payload).toString();
}

const REALM_HOLDERS: Readonly<Record<string, object>> = {
  global: globalThis,
  Object: Object.prototype,
  Function: Function.prototype,
  Array: Array.prototype,
  Promise: Promise.prototype,
  Map: Map.prototype,
  JSON,
  String: String.prototype,
  RegExp: RegExp.prototype,
  Error: Error.prototype,
};

/** Keys of the host's own realm, and what its methods are. */
function hostRealm(): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>();
  for (const [name, holder] of Object.entries(REALM_HOLDERS)) {
    for (const key of Reflect.ownKeys(holder)) {
      const descriptor = Object.getOwnPropertyDescriptor(holder, key);
      found.set(`${name}.${String(key)}`, descriptor?.value ?? descriptor);
    }
  }
  return found;
}

function changesOf(before: ReadonlyMap<string, unknown>, after: typeof before): string[] {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys].filter((key) => {
    // Loaded on first use by the platform itself.
    if (key.startsWith("global.")) return !before.has(key) && after.has(key);
    return !isDeepStrictEqual(before.get(key), after.get(key));
  });
}
