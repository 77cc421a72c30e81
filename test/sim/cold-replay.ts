/**
 * Cold replay: a fresh heap, fed a finished log from slot 1, and what it then has open.
 */
import { nextFeed } from "../../engine/consume.ts";
import type { RunEvent } from "../../engine/events.ts";
import type { RunRef } from "../../engine/ids.ts";
import { RunLog } from "../../engine/log.ts";
import type { OpenOperation, PassResult, Sandbox } from "../../engine/ports/sandbox.ts";
import { codeFor } from "./bundle.ts";
import type { SimulatedSources } from "./bundle.ts";
import type { ColdReplay } from "./observation.ts";
import { HEAP_LIMITS } from "./simulated-tenants.ts";

const EVENTS_PER_PASS = 500;

export interface ReplayParts {
  readonly sandbox: Sandbox;
  readonly sources: SimulatedSources;
}

export async function coldReplay(
  run: RunRef,
  events: readonly RunEvent[],
  parts: ReplayParts,
): Promise<ColdReplay> {
  const last = await lastPass(run, events, parts);
  if (typeof last === "string") return { kind: "other", why: last };
  if (last.kind === "diverged") {
    return { kind: "other", why: `diverged: ${JSON.stringify(last.divergence)}` };
  }
  if (last.kind !== "quiet") return { kind: "other", why: last.kind };
  const open = last.operations.map((operation) => textOf(operation));
  return { kind: "quiet", open, isOver: last.completion !== null };
}

async function lastPass(
  run: RunRef,
  events: readonly RunEvent[],
  { sandbox, sources }: ReplayParts,
): Promise<PassResult | string> {
  const created = events[0];
  if (created?.eventType !== "run_created") return "has no beginning";
  const { workflowName, seed } = created.eventData;
  const opened = await sandbox.open({
    run,
    bundle: codeFor(run.tenantId, sources),
    workflowName,
    seed,
    createdAt: created.createdAt,
    limits: HEAP_LIMITS,
  });
  if (opened.kind !== "opened") return `could not be opened: ${opened.kind}`;
  const { heap } = opened;
  try {
    const log = new RunLog();
    for (const event of events) log.append(event);
    let result = await heap.pass([]);
    for (;;) {
      const feed = nextFeed(log, EVENTS_PER_PASS);
      if (feed === null || result.kind !== "quiet") return result;
      if (feed.events.length > 0) result = await heap.pass(feed.events);
      log.markConsumed(feed.upTo);
    }
  } finally {
    heap.close();
  }
}

/** As the oracle names what the model has open. */
function textOf(operation: OpenOperation): string {
  const kinds: Partial<Record<OpenOperation["kind"], string>> = {
    unserializable_step: "step",
    dispose_hook: "dispose",
    set_attributes: "attr",
  };
  return `${kinds[operation.kind] ?? operation.kind} ${operation.correlationId}`;
}
