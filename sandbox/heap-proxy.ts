/**
 * A heap as the engine holds it: orders go to where it lives, answers are read here.
 */
import { assert, assertNever } from "../engine/assert.ts";
import { BatonError } from "../engine/errors.ts";
import type {
  GuestEvent,
  Heap,
  HeapImage,
  HeapRequest,
  PassResult,
  SnapshotPosition,
} from "../engine/ports/sandbox.ts";
import { positionOf } from "../engine/slots.ts";
import type { Slot } from "../engine/slots.ts";
import { divergenceIn } from "./border.ts";
import { Violation } from "./guest-text.ts";
import { OpenOperations, violated } from "./open-operations.ts";
import type { Lodging } from "./place.ts";
import type { PassAnswer } from "./wire.ts";

export class HeapProxy implements Heap {
  readonly #request: HeapRequest;
  readonly #lodging: Lodging;
  readonly #operations: OpenOperations;
  #consumedSlot: Slot;
  #isBusy = false;
  /** Set once the heap is gone or closed, and why. */
  #ended: string | null = null;

  constructor(request: HeapRequest, lodging: Lodging, consumedSlot: number) {
    this.#request = request;
    this.#lodging = lodging;
    this.#operations = new OpenOperations(request, request.limits);
    this.#consumedSlot = positionOf(consumedSlot);
  }

  get consumedSlot(): Slot {
    return this.#consumedSlot;
  }

  async pass(events: readonly GuestEvent[]): Promise<PassResult> {
    assert(!this.#isBusy, "a heap has one pass at a time");
    if (this.#ended !== null) return { kind: "lost", reason: this.#ended };
    this.#checkOrder(events);
    this.#isBusy = true;
    const { place, heapId } = this.#lodging;
    const answer = await place.order({ kind: "pass", heapId, events });
    this.#isBusy = false;
    const result = this.#read(answer);
    if (result.kind !== "quiet") this.#end("the heap was given up", false);
    else this.#consumedSlot = events.at(-1)?.slot ?? this.#consumedSlot;
    return result;
  }

  async snapshot(position: SnapshotPosition): Promise<HeapImage | null> {
    assert(!this.#isBusy, "a heap is not snapshotted during a pass");
    if (this.#ended !== null || position.slot !== this.#consumedSlot) return null;
    this.#isBusy = true;
    const { slot, digest } = position;
    const { place, heapId } = this.#lodging;
    const binding = { run: this.#request.run, slot, digest };
    const answer = await place.order({ kind: "snapshot", heapId, binding });
    this.#isBusy = false;
    if (answer.kind === "none") return null;
    return { slot, digest, fingerprint: answer.fingerprint, image: answer.bytes };
  }

  close(): void {
    this.#end("the heap was closed", true);
  }

  #checkOrder(events: readonly GuestEvent[]): void {
    let before: number = this.#consumedSlot;
    for (const { slot } of events) {
      assert(slot > before, "events are fed in slot order, each once");
      before = slot;
    }
  }

  #read(answer: PassAnswer): PassResult {
    switch (answer.kind) {
      case "report": {
        this.#lodging.note(answer.usage.heapBytes);
        const read = this.#operations.read(answer.text, answer.isFull);
        if (read.kind === "limit") return { ...read, usage: answer.usage };
        return { kind: "quiet", ...read.standing, usage: answer.usage };
      }
      case "diverged":
        return diverged(answer);
      case "unreadable":
        this.#end("the heap was given up", false);
        throw new BatonError(
          "PAYLOAD_UNREADABLE",
          `the payload of the event at slot ${answer.slot} is no devalue text`,
          { field: "payload", slot: answer.slot },
        );
      case "limit":
      case "lost":
        return answer;
      default:
        return assertNever(answer);
    }
  }

  #end(reason: string, isReusable: boolean): void {
    if (this.#ended !== null) return;
    this.#ended = reason;
    const { place, heapId } = this.#lodging;
    void place.order({ kind: "close", heapId, isReusable });
    this.#lodging.release();
  }
}

function diverged({ slot, text }: Extract<PassAnswer, { kind: "diverged" }>): PassResult {
  try {
    return { kind: "diverged", divergence: divergenceIn(text, positionOf(slot)) };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    return { kind: "limit", exceeded: violated(), usage: { cpuMs: 0, heapBytes: 0 } };
  }
}
