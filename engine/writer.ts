/**
 * The in-band writer of one delivery.
 *
 * Owns the fence for one run while the delivery lasts: the count that each write names, and how the
 * answers join the log. Knows nothing of the guest or of messages.
 *
 * E6  An in-band event is written only with the in-band count it was decided from; the count comes
 *     from the load and grows by what the World says it allocated, never by counting events.
 * E7  One write at a time; the next names the top slot that the answer to the last one left.
 * E8  After "superseded" or "unknown" this writer is dead: no write of it reaches the World again.
 */
import { assert } from "./assert.ts";
import { eventsToMerge } from "./consume.ts";
import type { WriteAnswer } from "./consume.ts";
import { isBatonError } from "./errors.ts";
import type { BatonError } from "./errors.ts";
import type { NewEvent, RunEvent } from "./events.ts";
import type { RunId } from "./ids.ts";
import type { RunLog } from "./log.ts";
import type { CreateParams, Events } from "./ports/world.ts";

/** Why a writer stopped for good. */
export type WriterStop =
  /** Refused by the fence. */
  | { readonly kind: "superseded" }
  /** Sent, no answer: it may or may not be in the log. */
  | { readonly kind: "unknown"; readonly error: unknown };

export type WriteResult =
  | {
      readonly kind: "committed";
      /** What this write put into the log, in the order asked. */
      readonly events: readonly RunEvent[];
      /** What the World says landed below it. */
      readonly below: readonly RunEvent[];
      /** Why items of a batch are not in it. */
      readonly refused: readonly Error[];
    }
  /** Definitely not written; the writer goes on. */
  | { readonly kind: "refused"; readonly error: BatonError }
  | WriterStop;

interface Answer extends WriteAnswer {
  readonly allocated: number;
  readonly refused: readonly Error[];
}

export class InBandWriter {
  readonly #events: Events;
  readonly #runId: RunId;
  readonly #log: RunLog;
  #seqInBand: number;
  #stop: WriterStop | null = null;
  #isWriting = false;
  #isBehind = false;
  #committedCount = 0;

  constructor(from: {
    readonly events: Events;
    readonly runId: RunId;
    readonly log: RunLog;
    /** From the load that `log` is of. */
    readonly seqInBand: number;
  }) {
    this.#events = from.events;
    this.#runId = from.runId;
    this.#log = from.log;
    this.#seqInBand = from.seqInBand;
  }

  get stop(): WriterStop | null {
    return this.#stop;
  }

  /** Something below a write of this writer is not in the log yet: read it before consuming. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  get committedCount(): number {
    return this.#committedCount;
  }

  /** A refusal says that the log holds what this delivery has not seen. */
  noteBehind(): void {
    this.#isBehind = true;
  }

  /** The log has been read up to its end. */
  noteComplete(): void {
    this.#isBehind = false;
  }

  async create(event: NewEvent): Promise<WriteResult> {
    return this.#write(async (params) => {
      const result = await this.#events.create(this.#runId, event, params);
      const { allocated, events: report, hasMore } = result;
      return { own: [result.event], report, hasMore, allocated, refused: [] };
    });
  }

  async createBatch(events: readonly NewEvent[]): Promise<WriteResult> {
    assert(events.length > 0, "a batch holds an event");
    return this.#write(async (params) => {
      const result = await this.#events.createBatch(this.#runId, events, params);
      const own: RunEvent[] = [];
      const refused: Error[] = [];
      for (const item of result.results) {
        if (item.kind === "committed") own.push(item.event);
        else refused.push(item.error);
      }
      const { allocated, events: report, hasMore } = result;
      return { own, report, hasMore, allocated, refused };
    });
  }

  async #write(send: (params: CreateParams) => Promise<Answer>): Promise<WriteResult> {
    if (this.#stop !== null) return this.#stop;
    assert(!this.#isWriting, "in-band writes go out one at a time");
    this.#isWriting = true;
    try {
      const answer = await send({
        inBand: true,
        expectedSeqInBand: this.#seqInBand,
        eventCount: this.#log.topSlot,
      });
      return this.#take(answer);
    } catch (error) {
      return this.#refusal(error);
    } finally {
      this.#isWriting = false;
    }
  }

  #take(answer: Answer): WriteResult {
    this.#seqInBand += answer.allocated;
    this.#committedCount += answer.own.length;
    const merged = eventsToMerge(this.#log.topSlot, answer);
    for (const event of merged.events) this.#log.append(event);
    if (merged.isBehind || answer.refused.length > 0) this.#isBehind = true;
    return {
      kind: "committed",
      events: answer.own,
      below: answer.report,
      refused: answer.refused,
    };
  }

  #refusal(error: unknown): WriteResult {
    if (isBatonError(error, "IN_BAND_SUPERSEDED")) return this.#end({ kind: "superseded" });
    // A refusal with a status of the caller's is definite; anything else may have been written.
    if (isBatonError(error) && error.status < 500) {
      this.#isBehind = true;
      return { kind: "refused", error };
    }
    return this.#end({ kind: "unknown", error });
  }

  #end(stop: WriterStop): WriterStop {
    this.#stop = stop;
    return stop;
  }
}
