/**
 * An attempt of a tenant on the sandbox, as data: what it uploads, what the outside hands to it,
 * and how to tell from what the host saw whether it got what it wanted.
 *
 * Each attempt runs twice: against the sandbox as it ships, where it must not succeed, and against
 * one deliberately weakened build of the test (`weakened/`), where it must: an attempt that
 * succeeds nowhere proves nothing.
 */
import type { OpenResult, PassResult } from "../../engine/ports/sandbox.ts";
import { tenantSource } from "../sandbox/tenant-source.ts";
import type { HeapLimits } from "../../engine/ports/sandbox.ts";

/** What a weakened build leaves out. */
export type Weakening =
  /** What the library deletes and replaces is put back once it has booted. */
  | "stock_globals"
  /** The host function and the library's dispatch are left where the tenant finds them. */
  | "exposed_library"
  /** Built-ins are looked up when they are used, not captured at boot; the border trusts. */
  | "late_bound"
  /** `node:vm` in the host's own realm instead of an engine of its own. */
  | "host_realm"
  /** All runs share one heap that nobody resets. */
  | "shared_heap"
  /** Limits of the operator far out of reach. */
  | "lifted_limits"
  /** The interrupt handler alone: the watchdog's limit is far away. */
  | "far_watchdog"
  /** The host believes what a report says. */
  | "trusting_border";

export interface Program {
  /** The bundle's workflow code. */
  readonly source: string;
  /** Devalue text that answers the step of this name; `fails` makes it the step's error. */
  readonly answers?: Readonly<Record<string, { readonly text: string; readonly fails?: boolean }>>;
  readonly workflowName?: string;
}

export interface Attack {
  /** A fact about the sandbox that the attempt denies. */
  readonly name: string;
  /** A row of the collection of public reports, or `own`. */
  readonly row: string;
  readonly program: Program;
  /** In place of the guest library: a heap that the attacker owns whole. */
  readonly library?: string;
  /** A run that is opened on the same sandbox afterwards. */
  readonly victim?: { readonly program: Program; readonly tenant: "same" | "other" };
  /** The same program without the attack; its decisions are compared. */
  readonly innocent?: Program;
  readonly limits?: Partial<HeapLimits>;
  readonly weakening: Weakening;
  succeeded(seen: Observation): boolean;
  /** Whether the attempt got to make its case; by default `concluded`. */
  readonly hasRun?: (seen: Observation) => boolean;
}

/** How one run went, as its host saw it. */
export interface RunTrace {
  readonly opened: OpenResult["kind"] | "threw";
  readonly passes: readonly PassResult[];
  /** What the host's own code threw, which it never should. */
  readonly thrown: string | null;
  /** Everything that crossed, readable, without usage figures. */
  readonly decisions: string;
  /** Devalue text of what the workflow returned or threw. */
  readonly outcome: string | null;
}

export interface Observation {
  readonly run: RunTrace;
  readonly victim: RunTrace | null;
  readonly innocent: RunTrace | null;
  readonly limits: HeapLimits;
  /** CPU ms that the slowest pass took on its thread, measured from outside, to the thread's end. */
  readonly slowestCpuMs: number;
  /** How much more memory the host process held afterwards, bytes. */
  readonly hostGrowthBytes: number;
  /** Names of what changed in the host's own realm. */
  readonly hostChanges: readonly string[];
}

/** What programs return once they have what they came for. */
export const LOOT = "LOOT";

/** The workflow ended, one way or the other: an attempt that never began has not failed. */
export function concluded(seen: Observation): boolean {
  if (seen.innocent !== null && seen.innocent.outcome === null) return false;
  const last = seen.run.passes.at(-1);
  if (last?.kind === "quiet") return last.completion !== null;
  return last?.kind === "limit";
}

/** The attempt said that it succeeded, or changed the host's realm. */
export function looted(seen: Observation): boolean {
  return seen.hostChanges.length > 0 || seen.run.decisions.includes(LOOT);
}

/** The victim saw something of the attacker. */
export function victimTouched(seen: Observation): boolean {
  return seen.victim === null || seen.victim.decisions.includes(LOOT);
}

/** The run's decisions are not those of the same program without the attack. */
export function swayed(seen: Observation): boolean {
  const { run, innocent } = seen;
  return innocent !== null && innocent.outcome !== null && run.decisions !== innocent.decisions;
}

/** The heap was lost, its host threw, or it ended in a violation of the border's protocol. */
export function unsettled(seen: Observation): boolean {
  const last = seen.run.passes.at(-1);
  if (seen.run.thrown !== null || last === undefined) return true;
  if (last.kind === "lost" || last.kind === "diverged") return true;
  return last.kind === "limit" && last.exceeded.code === "GUEST_PROTOCOL_VIOLATION";
}

export function endedInLimit(seen: Observation, limit: string): boolean {
  const last = seen.run.passes.at(-1);
  return last?.kind === "limit" && last.exceeded.limit === limit;
}

/** A bundle whose one workflow has this body; `top` runs when it is evaluated. */
export function bundle(body: string, top = ""): Program {
  return { source: tenantSource(body, top) };
}
