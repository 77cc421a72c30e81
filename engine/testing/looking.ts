/**
 * What a test can see of a run: what it waits for, its log, how it ended, and in one line what it is
 * doing.
 *
 * Owns the reads, which go to the World directly: looking moves nothing and is seen by nobody.
 */
import { stepCodec } from "../../sandbox/step-codec.ts";
import type { Run } from "../compose.ts";
import { BatonError } from "../errors.ts";
import { PAYLOAD_FIELDS } from "../events.ts";
import type { EventType, RunEvent } from "../events.ts";
import { runIdOf, tenantIdOf } from "../ids.ts";
import { PLAIN_REALM } from "../ports/steps.ts";
import type { OpenEntities, RunRow, RunStatus, StepRow, World } from "../ports/world.ts";
import { positionOf } from "../slots.ts";
import type { HeldSteps } from "./held-steps.ts";

/** A sleep that a run has come to. */
export interface OpenSleep {
  readonly waitId: string;
  /** Epoch ms of the Baton's clock. */
  readonly resumeAt: number;
}

/** A hook, or webhook, that a run holds open. */
export interface OpenHook {
  readonly hookId: string;
  readonly token: string;
  readonly isWebhook: boolean;
}

/** One event of a run's log, readable. */
export interface LoggedEvent {
  /** From 1. */
  readonly slot: number;
  readonly eventType: EventType;
  /** The step, wait or hook that it is about; null for the run's own. */
  readonly entityId: string | null;
  /** Epoch ms of the Baton's clock. */
  readonly atMs: number;
  /** The event's data, with its payloads decoded. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** How a run stands: how it ended, or that it has not. */
export type TestOutcome =
  | { readonly status: "pending" | "running" }
  | { readonly status: "completed"; readonly output: unknown }
  | { readonly status: "failed"; readonly errorCode: string; readonly error: unknown }
  | { readonly status: "cancelled"; readonly cancelReason: string | null };

export interface LookingParts {
  /** Behind the seal. */
  readonly world: World;
  readonly held: HeldSteps;
  readonly nowMs: () => number;
  /** How long to look for what has not come, in real time. */
  readonly waitMsMax: number;
}

type RunName = Pick<Run, "runId" | "tenantId">;

/** Looks between turns of the event loop at first, then at an interval, ms. */
const EAGER_LOOKS = 200;
const LOOK_MS = 5;

export class Looking {
  readonly #parts: LookingParts;

  constructor(parts: LookingParts) {
    this.#parts = parts;
  }

  async row(run: RunName): Promise<RunRow> {
    const row = await this.#storeOf(run).runs.get(runIdOf(run.runId));
    if (row !== null) return row;
    throw new BatonError("RUN_NOT_FOUND", "the tenant has no run of this id", { field: "runId" });
  }

  async sleeps(run: RunName): Promise<readonly OpenSleep[]> {
    const { waits } = await this.#open(run);
    return waits.map(({ waitId, resumeAt }) => ({ waitId, resumeAt }));
  }

  async hooks(run: RunName): Promise<readonly OpenHook[]> {
    const { hooks } = await this.#open(run);
    return hooks
      .filter(({ status, isSystem }) => status === "open" && !isSystem)
      .map(({ hookId, token, isWebhook }) => ({
        hookId,
        token: String(stepCodec.decode(token, PLAIN_REALM)),
        isWebhook,
      }));
  }

  async events(run: RunName): Promise<readonly LoggedEvent[]> {
    const { events } = this.#storeOf(run);
    const all: RunEvent[] = [];
    for (;;) {
      const page = await events.list(runIdOf(run.runId), { afterSlot: positionOf(all.length) });
      all.push(...page.events);
      if (!page.hasMore) return all.map(loggedEvent);
    }
  }

  async outcome(run: RunName): Promise<TestOutcome> {
    const { status } = await this.row(run);
    if (!isOver(status)) return { status };
    const data = (await this.events(run)).find(
      (event) => event.eventType === `run_${status}`,
    )?.data;
    switch (status) {
      case "completed":
        return { status, output: data?.["output"] };
      case "failed":
        return { status, errorCode: String(data?.["errorCode"]), error: data?.["error"] };
      default:
        return { status: "cancelled", cancelReason: (data?.["cancelReason"] as string) ?? null };
    }
  }

  /** In one line: what the run waits for, or how it ended. */
  async doing(run: RunName): Promise<string> {
    const { status, parked, counts } = await this.row(run);
    if (parked !== null) return `parked: ${parked.code}: ${parked.message}`;
    const outcome = await this.outcome(run);
    if (outcome.status === "failed") {
      return `failed: ${outcome.errorCode}: ${String(outcome.error)}`;
    }
    if (isOver(status)) return status;
    const open = await this.#waitsFor(run);
    const what = open.length > 0 ? open.join("; ") : "nothing is open";
    return `${status} with ${counts.seq} events: ${what}`;
  }

  /**
   * Waits until `look` finds something. `NOT_REACHED` once the run is over or has been looked at for
   * too long, saying what it was doing instead.
   */
  async until<T>(run: RunName, what: string, look: () => T | null | Promise<T | null>): Promise<T> {
    const untilMs = Date.now() + this.#parts.waitMsMax;
    for (let looks = 0; ; looks++) {
      const { status } = await this.row(run);
      const seen = await look();
      if (seen !== null) return seen;
      const isLate = Date.now() >= untilMs;
      if (isOver(status) || isLate) {
        const why = isOver(status) ? "will not come" : "did not come";
        const doing = await this.doing(run);
        throw new BatonError("NOT_REACHED", `the run ${why} to ${what}; it is ${doing}`, {
          field: "run",
          used: run.runId,
          allowed: what,
        });
      }
      await (looks < EAGER_LOOKS ? turn() : pause());
    }
  }

  async #waitsFor(run: RunName): Promise<readonly string[]> {
    const { steps } = await this.#open(run);
    const held = new Set(this.#parts.held.of(run.runId).map(({ stepId }) => stepId));
    const due = (atMs: number) => `due in ${atMs - this.#parts.nowMs()} ms`;
    const stateOf = ({ stepId, status, retryAfter }: StepRow) => {
      if (held.has(stepId)) return "its outcome is held";
      return status === "retrying" && retryAfter !== null ? `retry ${due(retryAfter)}` : status;
    };
    return [
      ...(await this.sleeps(run)).map(
        ({ waitId, resumeAt }) => `sleep ${waitId}, ${due(resumeAt)}`,
      ),
      ...(await this.hooks(run)).map(({ token }) => `hook "${token}", no payload yet`),
      ...steps.map((step) => `step ${step.stepName}, attempt ${step.attempt}: ${stateOf(step)}`),
    ];
  }

  /** A run that is over comes to nothing more, whatever it left open. */
  async #open(run: RunName): Promise<OpenEntities> {
    if (isOver((await this.row(run)).status)) return { steps: [], waits: [], hooks: [] };
    return this.#storeOf(run).openEntities(runIdOf(run.runId));
  }

  #storeOf({ tenantId }: RunName) {
    return this.#parts.world.forTenant(tenantIdOf(tenantId));
  }
}

export function isOver(status: RunStatus): status is "completed" | "failed" | "cancelled" {
  return status !== "pending" && status !== "running";
}

function loggedEvent({
  slot,
  eventType,
  correlationId,
  createdAt,
  eventData,
}: RunEvent): LoggedEvent {
  const payloads = PAYLOAD_FIELDS[eventType] ?? [];
  const data = Object.entries(eventData).map(([field, value]): [string, unknown] => [
    field,
    // The seed is 32 bytes, and nothing that was encoded.
    payloads.includes(field) && field !== "seed"
      ? stepCodec.decode(value as Uint8Array, PLAIN_REALM)
      : value,
  ]);
  return {
    slot,
    eventType,
    entityId: correlationId,
    atMs: createdAt,
    data: Object.fromEntries(data),
  };
}

/** One turn of the event loop. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, LOOK_MS);
  });
}
