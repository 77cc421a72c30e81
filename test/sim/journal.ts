/**
 * The journal of one schedule: what passed over the borders of the engine, in the order of virtual
 * time. The oracle reads its records; a timeline prints its lines.
 */
import { InvariantViolation } from "../../engine/assert.ts";
import { isBatonError } from "../../engine/errors.ts";
import type { RunEvent } from "../../engine/events.ts";
import type { DeliveryMeta, DeliveryResult, Message } from "../../engine/ports/queue.ts";
import type { EventBatchResult, EventResult, StoredSnapshot } from "../../engine/ports/world.ts";
import type { BodyRecord, Commit, DeliveryRecord, SendRecord } from "./observation.ts";
import { sendsOf } from "./process.ts";
import type { VirtualClock } from "./virtual-clock.ts";

export interface JournalOptions {
  readonly clock: VirtualClock;
  readonly startMs: number;
  /** Null: no timeline is kept. */
  readonly print: ((line: string) => void) | null;
}

export class Journal {
  readonly #options: JournalOptions;
  readonly sendRecords: SendRecord[] = [];
  readonly deliveries: DeliveryRecord[] = [];
  readonly bodies: BodyRecord[] = [];
  readonly calls = new Map<string, number>();
  readonly surprises: string[] = [];
  readonly commits: Commit[] = [];
  readonly heard: { readonly runId: string; readonly outcome: string }[] = [];
  /** The newest snapshot that each run put away. */
  readonly snapshots = new Map<string, StoredSnapshot>();

  constructor(options: JournalOptions) {
    this.#options = options;
  }

  note(who: string, text: string): void {
    const { print, clock, startMs } = this.#options;
    print?.(
      `${String(Math.round(clock.now() - startMs)).padStart(12)} ms  ${who.padEnd(10)} ${text}`,
    );
  }

  count(site: string): void {
    this.calls.set(site, (this.calls.get(site) ?? 0) + 1);
  }

  body(record: BodyRecord): void {
    this.bodies.push(record);
    this.note(record.owner, `body ${record.stepId} (${record.stepName}) attempt ${record.attempt}`);
  }

  sends(owner: string, site: string, args: readonly unknown[], isStored: boolean): void {
    for (const { message, options = {} } of sendsOf(site, args)) {
      const atMs = this.#options.clock.now();
      this.sendRecords.push({ message, options, atMs, owner, isStored });
      if (isStored) this.note(owner, `sends ${nameOf(message)} ${JSON.stringify(options)}`);
    }
  }

  applied(owner: string, site: string, args: readonly unknown[], result: unknown): void {
    if (site === "snapshots.put") this.snapshots.set(String(args[0]), args[1] as StoredSnapshot);
    if (site === "events.create" && (result as EventResult).allocated > 0) {
      this.commits.push((result as EventResult).event);
    }
    if (this.#options.print === null) return;
    for (const event of committedOf(site, result)) {
      const who = event.correlationId ?? event.runId;
      this.note(owner, `${shortId(String(args[0]))} slot ${event.slot} ${event.eventType} ${who}`);
    }
  }

  refused(owner: string, site: string, args: readonly unknown[], error: unknown): void {
    this.note(owner, `${site} of ${shortId(String(args[0]))} was refused: ${textOf(error)}`);
  }

  delivery(owner: string, message: Message, meta: DeliveryMeta): DeliveryRecord {
    const record: DeliveryRecord = {
      message,
      meta,
      owner,
      startedAtMs: this.#options.clock.now(),
      answer: null,
      answeredAtMs: null,
    };
    this.deliveries.push(record);
    const { deliveryCount, attempt } = meta;
    this.note(owner, `gets ${nameOf(message)} delivery ${deliveryCount} attempt ${attempt}`);
    return record;
  }

  answered(record: DeliveryRecord, answer: DeliveryResult): void {
    record.answer = answer;
    record.answeredAtMs = this.#options.clock.now();
    this.note(record.owner, `answers ${nameOf(record.message)}: ${JSON.stringify(answer)}`);
  }

  threw(record: DeliveryRecord, error: unknown): void {
    record.answer = { kind: "rejected", error: textOf(error) };
    record.answeredAtMs = this.#options.clock.now();
    this.note(record.owner, `rejects ${nameOf(record.message)}: ${textOf(error)}`);
    this.unexpected(`the delivery of ${nameOf(record.message)}`, error);
  }

  /** Keeps an error that no fault explains. */
  unexpected(what: string, error: unknown): void {
    const isExplained =
      isBatonError(error, "WORLD_UNAVAILABLE") || isBatonError(error, "THROTTLED");
    if (!isExplained) this.surprises.push(`${what} failed: ${textOf(error)}`);
  }

  /**
   * Something that the engine logged as an error of its own. Simulated code is deterministic and
   * has no writers but those that the engine knows, so it neither diverges nor meets a hazard.
   */
  alarm(owner: string, text: string, fields: Readonly<Record<string, unknown>>): void {
    const error = fields["err"] ?? fields["error"] ?? "";
    const line = `${text}: ${textOf(error)}`;
    this.note(owner, line);
    const isBreach =
      error instanceof InvariantViolation ||
      fields["code"] === "REPLAY_DIVERGENCE" ||
      fields["possibleLogCorruption"] === true;
    if (isBreach) this.surprises.push(line);
  }
}

function committedOf(site: string, result: unknown): readonly RunEvent[] {
  if (site === "events.create") return [(result as EventResult).event];
  if (site !== "events.createBatch") return [];
  return (result as EventBatchResult).results.flatMap((each) =>
    each.kind === "committed" ? [each.event] : [],
  );
}

export function nameOf(message: Message): string {
  const run = shortId(message.runId);
  if (message.kind === "step") return `step message ${message.stepId} of ${run}`;
  return `${message.reason} of ${run}`;
}

function shortId(id: string): string {
  return id.startsWith("wrun_") ? `…${id.slice(-5)}` : id;
}

export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const at = error.stack?.split("\n").find((line) => line.includes("    at "));
  return isBatonError(error)
    ? `${error.code} ${error.message}`
    : `${error.name}: ${error.message}${at ?? ""}`;
}
