/**
 * What must hold of any log, whatever made it: order, fencing, ends. Pure.
 */
import type { EventType, RunEvent } from "../../../engine/events.ts";
import type { FinalRun } from "../observation.ts";

/** Types that nobody may append once a run is over. */
const CLOSED_BY_THE_END: ReadonlySet<EventType> = new Set<EventType>([
  "run_started",
  "step_created",
  "step_started",
  "step_retrying",
  "wait_created",
  "hook_received",
  "wake_requested",
]);
/** Types that only the one orchestrator writes, so that no entity has two of one. */
const AT_MOST_ONE: ReadonlySet<EventType> = new Set<EventType>([
  "step_created",
  "wait_created",
  "wait_completed",
  "hook_created",
]);
const ENDS: Partial<Record<EventType, string>> = {
  run_completed: "completed",
  run_failed: "failed",
  run_cancelled: "cancelled",
};

/** One sentence for each breach. */
export function logBreaches({ events, counts, status }: FinalRun): string[] {
  const breaches: string[] = [];
  events.forEach((event, index) => {
    if (event.slot !== index + 1) breaches.push(`slot ${event.slot} stands at ${index + 1}`);
    if ((event.eventType === "run_created") !== (index === 0)) {
      breaches.push(`${event.eventType} stands at slot ${event.slot}`);
    }
  });
  if (counts !== null && counts.seq !== events.length) {
    breaches.push(`the World counts ${counts.seq} events and lists ${events.length}`);
  }
  if (counts !== null && (counts.seqInBand < 1 || counts.seqInBand > counts.seq)) {
    breaches.push(`${counts.seqInBand} of ${counts.seq} events are in-band`);
  }
  const end = events.find((event) => ENDS[event.eventType] !== undefined);
  if (end !== undefined && status !== ENDS[end.eventType]) {
    breaches.push(`the run is ${status}, its first end is ${end.eventType}`);
  }
  if (end !== undefined) {
    for (const event of events.slice(end.slot)) {
      if (CLOSED_BY_THE_END.has(event.eventType)) {
        breaches.push(`${nameOf(event)} was taken after ${end.eventType} at slot ${end.slot}`);
      }
    }
  }
  return [...breaches, ...entityBreaches(events)];
}

function entityBreaches(events: readonly RunEvent[]): string[] {
  const breaches: string[] = [];
  const seen = new Map<string, RunEvent>();
  const inline = new Set<string>();
  const ended = new Map<string, RunEvent>();
  for (const event of events) {
    const id = event.correlationId;
    if (id === null) continue;
    const key = `${event.eventType} ${id}`;
    const before = seen.get(key);
    if (before !== undefined && AT_MOST_ONE.has(event.eventType)) {
      breaches.push(`${nameOf(event)} repeats slot ${before.slot}`);
    }
    seen.set(key, event);
    switch (event.eventType) {
      case "step_started":
        if (event.eventData.inline === true) inline.add(id);
        break;
      case "step_retrying":
        if (event.eventData.creatorMessageId !== undefined) inline.delete(id);
        break;
      case "step_completed":
      case "step_failed": {
        const first = ended.get(id);
        // An inline step's events are all in-band, so the fence lets only one outcome through.
        if (first !== undefined && inline.has(id)) {
          breaches.push(`the inline step of ${nameOf(event)} ended at slot ${first.slot}`);
        }
        ended.set(id, first ?? event);
        break;
      }
      default:
        break;
    }
  }
  return breaches;
}

export function nameOf(event: RunEvent): string {
  return `${event.eventType} at slot ${event.slot}`;
}

export function endOf(events: readonly RunEvent[]): RunEvent | null {
  return events.find((event) => ENDS[event.eventType] !== undefined) ?? null;
}
