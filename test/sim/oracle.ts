/**
 * The oracle: what must hold of every simulated schedule. Imports of the engine only data types.
 *
 * 1. *Logs* (`oracle/log-rules.ts`): no slot missing or doubled; what only the orchestrator writes
 *    stands at most once; after the end only what the contract still takes; the status is the first
 *    end's.
 * 2. *Outcomes* (`oracle/outcome-rules.ts`): each creation, and the end, is what the model asks for
 *    from the same log; a cold replay has the model's open operations. A program that does not
 *    depend on timing comes to the creations and the value that its tree says, under any schedule.
 *    Which those are: random programs without race, `any`, clock or loose branches, and every
 *    library workflow that `catalog.ts` gives an `expected` for. All others are held against the
 *    model alone.
 * 3. *Work* (`oracle/work-rules.ts`): every completed step's body came to its end at least once,
 *    one with `maxRetries: 0` began at most once; owed messages are in before an ack; what clients
 *    were told holds; tenants see nothing of each other; sends and deliveries are linear.
 * 4. *Errors*: no handler or client fails for a reason that no fault explains, no invariant of the
 *    engine breaks, no heap diverges from its log, and nothing lands that is a hazard.
 * 5. *Outside* (`oracle/outside-rules.ts`): a child is started once; a payload is delivered once; a
 *    token is held by one open hook; a stream holds densely what bodies wrote, whole for those that
 *    completed, and a live reader gets each chunk once; the row's attributes are the log's; webhooks
 *    answer as they were made; lifecycle hooks hear how runs ended.
 * 6. *Liveness*: in the end every run is over, or parked, or waits only for somebody outside.
 *
 * Not compared: ids of messages and of runs, times, the order of independent creations, how often
 * bodies of retriable steps ran, texts of errors. They may differ between two right schedules.
 */
import type { FinalRun, Observation } from "./observation.ts";
import type { ModelBundle } from "./oracle/model.ts";
import { endOf, logBreaches } from "./oracle/log-rules.ts";
import { outcomeBreaches } from "./oracle/outcome-rules.ts";
import {
  answerBreaches,
  attributeBreaches,
  childBreaches,
  heardBreaches,
  payloadBreaches,
  streamBreaches,
  tokenBreaches,
} from "./oracle/outside-rules.ts";
import {
  acknowledgedBreaches,
  amountBreaches,
  bodyBreaches,
  owedBreaches,
  wallBreaches,
} from "./oracle/work-rules.ts";

export interface Violation {
  /** Null: of the schedule as a whole. */
  readonly runId: string | null;
  readonly rule:
    | "log"
    | "outcome"
    | "body"
    | "owed"
    | "told"
    | "payload"
    | "stream"
    | "attribute"
    | "webhook"
    | "child"
    | "token"
    | "heard"
    | "amount"
    | "wall"
    | "live"
    | "error";
  readonly breach: string;
}

export async function violationsOf(
  observation: Observation,
  bundle: ModelBundle,
): Promise<readonly Violation[]> {
  const found: Violation[] = [];
  const add = (rule: Violation["rule"], runId: string | null, breaches: readonly string[]) =>
    breaches.forEach((breach) => found.push({ rule, runId, breach }));
  for (const run of observation.runs) {
    const { runId } = run.record.ref;
    add("log", runId, logBreaches(run));
    add("outcome", runId, await outcomeBreaches(run, bundle));
    add("body", runId, bodyBreaches(run, observation));
    add("owed", runId, owedBreaches(run, observation));
    add("told", runId, acknowledgedBreaches(run));
    add("live", runId, livenessBreaches(run));
    add("payload", runId, payloadBreaches(run, observation));
    add("stream", runId, streamBreaches(run, observation));
    add("attribute", runId, attributeBreaches(run));
    add("webhook", runId, answerBreaches(run));
  }
  add("child", null, childBreaches(observation));
  add("token", null, tokenBreaches(observation));
  add("heard", null, heardBreaches(observation));
  add("amount", null, amountBreaches(observation));
  add("wall", null, wallBreaches(observation));
  add("error", null, observation.surprises);
  if (observation.ended === "time" || observation.ended === "steps") {
    add("live", null, [`the schedule ran out of ${observation.ended}`]);
  }
  return found;
}

/**
 * When nothing more can happen, a run that is not over waits for a payload from outside. A sleep or
 * a step that is open then has lost its message.
 */
function livenessBreaches({ events, parked }: FinalRun): string[] {
  if (parked !== null) return [`the run is parked: ${parked.code} ${parked.message}`];
  if (events.length === 0 || endOf(events) !== null) return [];
  const settled = new Set(
    events.flatMap(({ eventType, correlationId }) =>
      ["step_completed", "step_failed", "wait_completed"].includes(eventType)
        ? [correlationId]
        : [],
    ),
  );
  const open = events.filter(
    ({ eventType, correlationId }) =>
      ["step_created", "step_started", "wait_created"].includes(eventType) &&
      !settled.has(correlationId),
  );
  if (open.length > 0) {
    return [...new Set(open.map(({ correlationId }) => `${correlationId} is open and forgotten`))];
  }
  const awaitsOutside = events.some(({ eventType }) => eventType === "hook_created");
  return awaitsOutside ? [] : ["the run waits for nothing"];
}
