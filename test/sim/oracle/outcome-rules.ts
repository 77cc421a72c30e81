/**
 * What a run came to, held against the model and against what its program must come to.
 *
 * Every run, whether or not its outcome depends on timing, must have asked for exactly what the
 * model asks for when it is fed the run's own log: same ids, same names and labels, same deadlines, in time.
 */
import { isDeepStrictEqual } from "node:util";
import type { RunEvent } from "../../../engine/events.ts";
import type { FinalRun } from "../observation.ts";
import { endOf, nameOf } from "./log-rules.ts";
import { valueOf } from "./model.ts";
import type { Asked, Model, ModelBundle } from "./model.ts";

export async function outcomeBreaches(run: FinalRun, bundle: ModelBundle): Promise<string[]> {
  if (run.events.length === 0) return [];
  const breaches: string[] = [];
  const model = bundle.start(run.events);
  const end = endOf(run.events);
  for (const event of run.events) {
    if (event === end) break;
    breaches.push(...creationBreaches(model, event));
    if (!drawsLabels(run)) breaches.push(...labelBreaches(model, event));
    await model.feed(event);
  }
  breaches.push(...(end === null ? openBreaches(run, model) : endBreaches(run, model, end)));
  breaches.push(...coldBreaches(run, model, end));
  return [...breaches, ...expectationBreaches(run, end)];
}

/** A creation in the log is one that the code had asked for, from what stands below it. */
function creationBreaches(model: Model, event: RunEvent): string[] {
  const id = event.correlationId;
  if (id === null) return [];
  const asked = model.asked.get(id);
  const differs = (what: unknown, by: unknown) => [
    `${nameOf(event)} says ${String(what)}, its code asked for ${String(by)}`,
  ];
  switch (event.eventType) {
    case "step_created":
    case "step_started":
      if (asked?.kind !== "step") return differs(event.eventData.stepName, "no such step");
      if (asked.stepName === event.eventData.stepName) return [];
      return differs(event.eventData.stepName, asked.stepName);
    case "wait_created":
      if (asked?.kind !== "wait") return differs("a wait", "no such wait");
      if (asked.resumeAt === event.eventData.resumeAt) return [];
      return differs(event.eventData.resumeAt, asked.resumeAt);
    case "hook_created":
    case "hook_conflict":
      return asked?.kind === "hook" ? [] : differs("a hook", "no such hook");
    case "hook_disposed":
      // That another run took the token is that run's doing.
      if (event.eventData.forceClaimedBy !== undefined) return [];
      return model.asked.has(`dispose ${id}`) ? [] : differs("a disposal", "none");
    case "attr_set":
      if (event.eventData.writer.kind !== "workflow") return [];
      return asked?.kind === "attr" ? [] : differs("attributes", "none");
    default:
      return [];
  }
}

/** A step's label is its second argument: under one id, only one is right. */
function labelBreaches(model: Model, event: RunEvent): string[] {
  if (event.eventType !== "step_created" && event.eventType !== "step_started") return [];
  const { correlationId, eventData } = event;
  const asked = correlationId === null ? undefined : model.asked.get(correlationId);
  if (asked?.kind !== "step" || eventData.input === undefined) return [];
  // The library's own steps have no labels.
  if (asked.stepName.startsWith("__builtin_")) return [];
  // What could not be encoded stands in the log without its arguments.
  const { args } = valueOf(eventData.input, null) as { args?: readonly unknown[] };
  if (args === undefined || args[1] === asked.args[1]) return [];
  return [`${nameOf(event)} is ${String(args[1])}, its code asked for ${String(asked.args[1])}`];
}

/** The model runs on another source of randomness than heaps do. */
function drawsLabels({ record }: FinalRun): boolean {
  return record.planned.workflow.endsWith("randomReader");
}

/** A run that goes on has asked for what the log holds, and waits for something of it. */
function openBreaches(run: FinalRun, model: Model): string[] {
  if (run.parked !== null) return [];
  if (model.end !== null) return ["its code has ended, and the run has not"];
  const created = new Set(run.events.map(({ correlationId }) => correlationId));
  return model
    .open()
    .filter(({ id, kind }) => kind !== "dispose" && !created.has(id))
    .map((asked) => `its code asked for ${textOf(asked)}, and the log does not hold it`);
}

function endBreaches(run: FinalRun, model: Model, end: RunEvent): string[] {
  switch (end.eventType) {
    case "run_completed": {
      if (model.end?.kind !== "returned") return ["the run completed, and its code had not"];
      const value = valueOf(end.eventData.output, null);
      if (isSame(value, model.end.value)) return [];
      return [`the run completed with ${shown(value)}, its code gave ${shown(model.end.value)}`];
    }
    case "run_failed":
      if (end.eventData.errorCode !== "USER_ERROR") {
        return [`the run failed with ${end.eventData.errorCode}`];
      }
      return model.end?.kind === "threw" ? [] : ["the run failed, and its code did not throw"];
    default:
      return run.record.planned.script.cancelAfterMs === null ? ["nobody cancelled the run"] : [];
  }
}

/** A heap that is fed the log from slot 1 asks for what the model asks for. */
function coldBreaches({ coldReplay }: FinalRun, model: Model, end: RunEvent | null): string[] {
  if (coldReplay === null) return [];
  if (coldReplay.kind === "other") return [`a cold replay of the log ${coldReplay.why}`];
  if (end !== null) return [];
  const expected = model
    .open()
    .map((asked) => textOf(asked))
    .sort();
  const found = coldReplay.open.toSorted();
  if (isDeepStrictEqual(found, expected)) return [];
  return [`a cold replay has open ${found.join(", ")}; the model has ${expected.join(", ")}`];
}

function expectationBreaches({ record, events }: FinalRun, end: RunEvent | null): string[] {
  const { expected, creations } = record.planned;
  const breaches: string[] = [];
  if (end !== null && end.eventType !== "run_cancelled" && expected !== null) {
    const isOk = end.eventType === "run_completed";
    if (isOk !== expected.ok) breaches.push(`the run ended in ${end.eventType}`);
    if (end.eventType === "run_completed" && expected.ok) {
      const value = valueOf(end.eventData.output, null);
      if (withoutSerials(shown(value)) !== shown(expected.value)) {
        breaches.push(`the run gave ${shown(value)}, and had to give ${shown(expected.value)}`);
      }
    }
  }
  if (creations !== null && end !== null && end.eventType !== "run_cancelled") {
    const found = creationsOf(events);
    if (!isDeepStrictEqual(found, [...creations])) {
      breaches.push(`it created ${found.join(", ")}, and had to create ${creations.join(", ")}`);
    }
  }
  return breaches;
}

/** Live creations of a log, as `Expectation.creations` names them. */
function creationsOf(events: readonly RunEvent[]): string[] {
  const found = new Map<string, string>();
  for (const event of events) {
    const id = event.correlationId ?? "";
    if (found.has(id)) continue;
    switch (event.eventType) {
      case "step_created":
      case "step_started": {
        if (event.eventData.input === undefined) break;
        const { args } = valueOf(event.eventData.input, null) as { args: [unknown, string] };
        found.set(id, `step ${args[1]}`);
        break;
      }
      case "wait_created":
        found.set(id, "wait");
        break;
      case "hook_created":
        found.set(id, "hook");
        break;
      case "attr_set":
        found.set(id, "attr");
        break;
      default:
        break;
    }
  }
  return [...found.values()].sort();
}

export function textOf(asked: Asked): string {
  return `${asked.kind} ${asked.id}`;
}

/** Values of two realms: equal if they read the same. */
function isSame(a: unknown, b: unknown): boolean {
  return shown(a) === shown(b);
}

/** Which of its bodies a result is of depends on timing. */
function withoutSerials(text: string): string {
  return text.replaceAll(/#\d+/g, "");
}

function shown(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) => (each === undefined ? "undefined" : each));
}
