/**
 * The queue over any tables. Synchronous: one call is one atomic step; what is to be delivered
 * comes out of `flush`, and is handed over only once the transaction has committed.
 *
 * Owns due times, dedupe, delivery counts, back-off, whose turn it is, and the run gates' states.
 * Runs no handler and reads no clock.
 *
 * W24  A second send under a key changes nothing while the first message lives: waiting, delayed,
 *      in flight, held or backing off. The key is free once that message is acked.
 * W25  Each claim is counted and stored before its handler runs, so a count never goes back;
 *      `attempt` leaves out handoffs, re-runs and uncounted redeliveries.
 * W26  A message is never given up: a rejection backs off, and only an ack ends it.
 * W27  Of two tenants with due messages, each gets its turn; of one tenant's, the longest due. No
 *      tenant holds more deliveries than its own limit, nor, where the consumer asks so, more than
 *      its share of the places.
 */
import { assert, assertNever, present } from "../engine/assert.ts";
import type { MessageId, RunRef, TenantId } from "../engine/ids.ts";
import { SPEC_VERSION } from "../engine/events.ts";
import type {
  ConsumeOptions,
  DeliveryMeta,
  Message,
  SendResult,
  TenantDeliveries,
} from "../engine/ports/queue.ts";
import type { InFlight, ConsumerState, Outcome } from "./queue-rows.ts";
import {
  BAD_DELAY_MS,
  answerOf,
  backoffMs,
  claimed,
  flightOf,
  freePlaces,
  gateKey,
  gateMessage,
  hasShare,
  uncountedOnce,
} from "./queue-rows.ts";
import type { GateState, GateStep } from "./run-gate.ts";
import { isGated, noted, opened, settled, standsFor } from "./run-gate.ts";
import type { MessageKind, MessageRow, Tables } from "./tables.ts";
import type { Journal } from "./undo.ts";
import { JournaledMap } from "./undo.ts";

/** Before everything else that is due. */
const AT_THE_FRONT = 0;

const KINDS: readonly MessageKind[] = ["orchestrator", "step"];

export interface PreparedSend {
  readonly messageId: MessageId;
  readonly message: Message;
  readonly key: string | null;
  readonly delayMs: number;
}

/** One handing of a message to a handler, decided and stored. */
export interface Delivery {
  readonly consumerId: number;
  readonly message: Message;
  readonly meta: DeliveryMeta;
}

export interface QueueEffects {
  readonly deliveries: readonly Delivery[];
  /** Epoch ms; null: nothing waits for a time. */
  readonly nextDueAt: number | null;
}

export class QueueLedger {
  readonly #tables: Tables;
  readonly #newMessageId: (now: number) => MessageId;
  readonly #gates: JournaledMap<string, GateState>;
  readonly #inFlight: JournaledMap<MessageId, InFlight>;
  readonly #consumers: JournaledMap<number, ConsumerState>;
  /** Deliveries in flight by kind and tenant. */
  readonly #shares: JournaledMap<string, number>;
  /** What a tenant may have of a kind in flight; absent: no limit of its own. */
  readonly #ownMax: JournaledMap<string, number>;
  readonly #lastTenant: Record<MessageKind, string> = { orchestrator: "", step: "" };
  #deliveries: Delivery[] = [];

  constructor(tables: Tables, journal: Journal, newMessageId: (now: number) => MessageId) {
    this.#tables = tables;
    this.#newMessageId = newMessageId;
    this.#gates = new JournaledMap(journal);
    this.#inFlight = new JournaledMap(journal);
    this.#consumers = new JournaledMap(journal);
    this.#shares = new JournaledMap(journal);
    this.#ownMax = new JournaledMap(journal);
  }

  sendAll(sends: readonly PreparedSend[], now: number): SendResult[] {
    return sends.map((send) => this.#send(send, now));
  }

  /** A message that only says: look at this run. */
  wake(run: RunRef & { specVersion: number }, now: number): void {
    const { tenantId, runId } = run;
    this.#send(
      {
        messageId: this.#newMessageId(now),
        message: {
          kind: "orchestrator",
          tenantId,
          runId,
          specVersion: SPEC_VERSION,
          reason: "wake",
        },
        key: null,
        delayMs: 0,
      },
      now,
    );
  }

  attach(consumerId: number, options: ConsumeOptions): void {
    this.#consumers.set(consumerId, {
      consumerId,
      options,
      isStopping: false,
      inFlight: { orchestrator: 0, step: 0 },
    });
  }

  limitTenant(tenantId: TenantId, { orchestratorsMax, stepsMax }: TenantDeliveries): void {
    for (const [kind, max] of [
      ["orchestrator", orchestratorsMax] as const,
      ["step", stepsMax] as const,
    ]) {
      if (max === null) this.#ownMax.delete(`${kind}/${tenantId}`);
      else this.#ownMax.set(`${kind}/${tenantId}`, max);
    }
  }

  /** No new delivery for this consumer. */
  detach(consumerId: number): void {
    const consumer = this.#consumers.get(consumerId);
    if (consumer === undefined) return;
    this.#consumers.set(consumerId, { ...consumer, isStopping: true });
  }

  /** A handler ended. An answer to a delivery that is not the present one says nothing. */
  settle(messageId: MessageId, deliveryCount: number, outcome: Outcome, now: number): void {
    const flight = this.#inFlight.get(messageId);
    if (flight?.deliveryCount !== deliveryCount) return;
    const row = this.#tables.messages.get(messageId);
    if (row === null) {
      // It was removed with its run while it was being delivered.
      if (flight.isGated) this.#gates.delete(gateKey(flight));
      this.#land(messageId, flight);
    } else if (flight.isGated) this.#settleHolder(row, flight, outcome, now);
    else {
      this.#land(messageId, flight);
      this.#dispose(row, outcome, now);
    }
  }

  /** What a dead process held is due at once; its claims stay counted. */
  recover(now: number): void {
    this.#tables.messages.releaseClaimed(now);
  }

  /** Hands out what is due, and takes everything that was decided since the last call. */
  flush(now: number): QueueEffects {
    for (const kind of KINDS) this.#pump(kind, now);
    const deliveries = this.#deliveries;
    this.#deliveries = [];
    return { deliveries, nextDueAt: this.#tables.messages.nextDueAt(now) };
  }

  /** The transaction failed: nothing of it is delivered. */
  drop(): void {
    this.#deliveries = [];
  }

  #send({ messageId, message, key, delayMs }: PreparedSend, now: number): SendResult {
    const { tenantId, runId } = message;
    if (key !== null) {
      const alive = this.#tables.messages.byKey(tenantId, runId, key);
      if (alive !== null) return { messageId: alive.messageId, deduplicated: true };
    }
    const row: MessageRow = {
      messageId,
      message,
      key,
      dueAt: now + delayMs,
      isClaimed: false,
      deliveryCount: 0,
      uncounted: 0,
    };
    // A run in flight takes its message in at once: no free place in a consumer is needed for it.
    const gate = delayMs === 0 && isGated(message) ? this.#gates.get(gateKey(message)) : undefined;
    if (gate === undefined) this.#tables.messages.insert(row, now);
    else {
      this.#tables.messages.insert(claimed(row), now);
      this.#note(gate, row);
    }
    return { messageId, deduplicated: false };
  }

  #pump(kind: MessageKind, now: number): void {
    for (;;) {
      const consumer = this.#freest(kind);
      if (consumer === null) return;
      const row = this.#nextRow(kind, consumer.options, now);
      if (row === null) return;
      this.#claim(row, consumer, now);
    }
  }

  /** The next message by turns of the tenants, leaving out those that have their share. */
  #nextRow(kind: MessageKind, options: ConsumeOptions, now: number): MessageRow | null {
    const { messages } = this.#tables;
    const start = this.#lastTenant[kind];
    let hasWrapped = false;
    for (let after = start; ;) {
      const tenantId = messages.tenantWithDue(kind, after, now);
      if (tenantId === null || (hasWrapped && tenantId > start)) {
        if (hasWrapped) return null;
        hasWrapped = true;
        after = "";
        continue;
      }
      if (this.#hasShare(kind, tenantId, options)) {
        this.#lastTenant[kind] = tenantId;
        return messages.firstDue(kind, tenantId, now);
      }
      after = tenantId;
    }
  }

  #hasShare(kind: MessageKind, tenantId: TenantId, options: ConsumeOptions): boolean {
    const key = `${kind}/${tenantId}`;
    const held = this.#shares.get(key) ?? 0;
    const ownMax = this.#ownMax.get(key) ?? Number.POSITIVE_INFINITY;
    let free = 0;
    for (const consumer of this.#consumers.values()) free += freePlaces(consumer, kind);
    return hasShare(options, { held, free, ownMax });
  }

  #claim(row: MessageRow, consumer: ConsumerState, now: number): void {
    const taken = claimed(row);
    this.#tables.messages.update(taken, now);
    const gated = isGated(row.message);
    const gate = gated ? this.#gates.get(gateKey(row.message)) : undefined;
    if (gate !== undefined) {
      this.#note(gate, row);
      return;
    }
    const state = opened(gateMessage(row));
    if (gated) this.#gates.set(gateKey(row.message), state);
    const flight = flightOf(consumer, taken, gated, now);
    this.#count(flight, 1);
    this.#deliver(taken, flight, state);
  }

  #note(gate: GateState, row: MessageRow): void {
    const step = noted(gate, gateMessage(row));
    this.#gates.set(gateKey(row.message), present(step.state, "a noted run stays held"));
    for (const id of step.ack) this.#tables.messages.delete(id);
  }

  #settleHolder(row: MessageRow, flight: InFlight, outcome: Outcome, now: number): void {
    const key = gateKey(row.message);
    const gate = present(this.#gates.get(key), "a delivery in flight holds its run");
    assert(gate.holder.messageId === row.messageId, "the holder answers for its run");
    const consumer = this.#consumers.get(flight.consumerId);
    const step = settled(gate, answerOf(outcome), consumer?.isStopping ?? true);
    for (const id of step.ack) this.#tables.messages.delete(id);
    for (const id of step.release) this.#release(id, now);
    if (step.state === null) this.#gates.delete(key);
    else this.#gates.set(key, step.state);
    this.#moveHolder(row, flight, step, outcome, now);
  }

  #moveHolder(
    row: MessageRow,
    flight: InFlight,
    step: GateStep,
    outcome: Outcome,
    now: number,
  ): void {
    switch (step.holder) {
      case "reruns":
      case "handed_off": {
        const again = uncountedOnce(claimed(row));
        this.#tables.messages.update(again, now);
        const isRerun = step.holder === "reruns";
        const startedAt = isRerun ? flight.invocationStartedAt : now;
        const state = present(step.state, "a holder that runs again holds its run");
        this.#deliver(
          again,
          { ...flight, deliveryCount: again.deliveryCount, invocationStartedAt: startedAt },
          state,
        );
        return;
      }
      case "acked":
        this.#land(row.messageId, flight);
        return;
      case "released":
      case "leaves":
        this.#land(row.messageId, flight);
        this.#dispose(row, outcome, now);
        return;
      case "runs":
        throw new Error("a settled holder does not keep running");
      default:
        assertNever(step.holder);
    }
  }

  /** What becomes of a message whose delivery is over and that no gate keeps. */
  #dispose(row: MessageRow, outcome: Outcome, now: number): void {
    const { messages } = this.#tables;
    const waiting = { ...row, isClaimed: false };
    switch (outcome.kind) {
      case "ack":
        messages.delete(row.messageId);
        return;
      case "handoff":
        messages.update({ ...waiting, dueAt: AT_THE_FRONT, uncounted: row.uncounted + 1 }, now);
        return;
      case "redeliver": {
        const isSound = Number.isFinite(outcome.afterMs) && outcome.afterMs >= 0;
        const isCounted = outcome.counted || !isSound;
        const change = {
          dueAt: now + (isSound ? Math.ceil(outcome.afterMs) : BAD_DELAY_MS),
          uncounted: row.uncounted + (isCounted ? 0 : 1),
        };
        messages.update({ ...waiting, ...change }, now);
        return;
      }
      case "rejected":
        messages.update({ ...waiting, dueAt: now + backoffMs(row) }, now);
        return;
      default:
        assertNever(outcome);
    }
  }

  /** It was held and never delivered, so its claim does not count. */
  #release(messageId: MessageId, now: number): void {
    const row = this.#tables.messages.get(messageId);
    if (row === null) return;
    const deliveryCount = row.deliveryCount - 1;
    this.#tables.messages.update({ ...row, isClaimed: false, deliveryCount, dueAt: now }, now);
  }

  #deliver(row: MessageRow, flight: InFlight, gate: GateState): void {
    this.#inFlight.set(row.messageId, flight);
    this.#deliveries.push({
      consumerId: flight.consumerId,
      message: row.message,
      meta: {
        messageId: row.messageId,
        deliveryCount: row.deliveryCount,
        attempt: row.deliveryCount - row.uncounted,
        invocationStartedAt: flight.invocationStartedAt,
        ...standsFor(gate),
      },
    });
  }

  /** The delivery is over: its place in the consumer is free. */
  #land(messageId: MessageId, flight: InFlight): void {
    this.#inFlight.delete(messageId);
    this.#count(flight, -1);
  }

  #count({ consumerId, kind, tenantId }: InFlight, change: 1 | -1): void {
    const share = `${kind}/${tenantId}`;
    const inShare = (this.#shares.get(share) ?? 0) + change;
    if (inShare === 0) this.#shares.delete(share);
    else this.#shares.set(share, inShare);
    const consumer = this.#consumers.get(consumerId);
    if (consumer === undefined) return;
    const inFlight = {
      ...consumer.inFlight,
      [kind]: consumer.inFlight[kind] + change,
    };
    if (consumer.isStopping && inFlight.orchestrator + inFlight.step === 0) {
      this.#consumers.delete(consumerId);
    } else this.#consumers.set(consumerId, { ...consumer, inFlight });
  }

  #freest(kind: MessageKind): ConsumerState | null {
    let freest: ConsumerState | null = null;
    let most = 0;
    for (const consumer of this.#consumers.values()) {
      const free = freePlaces(consumer, kind);
      if (free > most) [freest, most] = [consumer, free];
    }
    return freest;
  }
}
