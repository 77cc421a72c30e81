/**
 * What a chaos child says, and the account that is kept of it across its lives.
 *
 * Owns the judgement: what was answered must be there, what is there must be there once.
 */
import type { MessageId, RunId } from "../engine/ids.ts";
import type { DeliveryMeta, Queue } from "../engine/ports/queue.ts";
import type { TenantStore } from "../engine/ports/world.ts";
import { SLOT_NONE } from "../engine/slots.ts";

export const TENANT = "chaos";
export const TRACED_APPENDS = 50;

export type Said =
  | { readonly kind: "begin"; readonly op: number }
  | { readonly kind: "end"; readonly op: number }
  | { readonly kind: "run"; readonly runId: RunId }
  /** An append was answered; `nonce` is in the event. */
  | {
      readonly kind: "appended";
      readonly runId: RunId;
      readonly slot: number;
      readonly nonce: string;
    }
  /** A send was answered. */
  | { readonly kind: "sent"; readonly messageId: MessageId }
  | {
      readonly kind: "delivered";
      readonly messageId: MessageId;
      readonly deliveryCount: number;
      /** Names the event that the message came with, if it came with one. */
      readonly nonce: string | null;
    };

export class Account {
  lost = 0;
  gaps = 0;
  doubles = 0;
  stuck = 0;
  countsBack = 0;
  deliveries = 0;
  isSound = false;
  readonly #runs = new Set<RunId>();
  readonly #appended = new Map<string, { runId: RunId; slot: number }>();
  readonly #sent = new Set<MessageId>();
  readonly #counts = new Map<MessageId, number>();
  readonly #noncesDelivered = new Set<string>();
  readonly #begun = new Set<number>();

  get ackedAppends(): number {
    return this.#appended.size;
  }

  get ackedSends(): number {
    return this.#sent.size;
  }

  /** Something was begun and not answered. */
  get isBusy(): boolean {
    return this.#begun.size > 0;
  }

  newLife(): void {
    this.#begun.clear();
  }

  hear(said: Said): void {
    switch (said.kind) {
      case "begin":
        this.#begun.add(said.op);
        return;
      case "end":
        this.#begun.delete(said.op);
        return;
      case "run":
        this.#runs.add(said.runId);
        return;
      case "appended":
        this.#appended.set(said.nonce, said);
        return;
      case "sent":
        this.#sent.add(said.messageId);
        return;
      case "delivered":
        this.#delivered(said.messageId, said.deliveryCount, said.nonce);
        return;
      default:
    }
  }

  /** Reads what is left, takes what is still queued, and judges. */
  async close(store: TenantStore, queue: Queue): Promise<void> {
    const nonces = await this.#readLogs(store);
    await this.#drain(queue);
    for (const [nonce, { runId, slot }] of this.#appended) {
      const found = nonces.get(nonce);
      if (found?.runId !== runId || found.slot !== slot) this.lost++;
    }
    for (const messageId of this.#sent) if (!this.#counts.has(messageId)) this.stuck++;
    // Both or neither: an event that came with a message has it, and no message is without its own.
    for (const [nonce, { withMessage }] of nonces) {
      if (withMessage && !this.#noncesDelivered.has(nonce)) this.lost++;
    }
    for (const nonce of this.#noncesDelivered) if (!nonces.has(nonce)) this.lost++;
  }

  #delivered(messageId: MessageId, deliveryCount: number, nonce: string | null): void {
    this.deliveries++;
    if (deliveryCount <= (this.#counts.get(messageId) ?? 0)) this.countsBack++;
    this.#counts.set(messageId, deliveryCount);
    if (nonce !== null) this.#noncesDelivered.add(nonce);
  }

  async #readLogs(store: TenantStore) {
    const nonces = new Map<string, { runId: RunId; slot: number; withMessage: boolean }>();
    for (const runId of this.#runs) {
      let expected = 1;
      for (let afterSlot = SLOT_NONE, hasMore = true; hasMore;) {
        const page = await store.events.list(runId, { afterSlot });
        for (const event of page.events) {
          if (event.slot !== expected) this.gaps++;
          expected = event.slot + 1;
          if (event.eventType !== "attr_set") continue;
          const nonce = event.eventData.changes[0]?.value ?? "";
          if (nonces.has(nonce)) this.doubles++;
          const withMessage = event.eventData.changes[0]?.key === "with-message";
          nonces.set(nonce, { runId, slot: event.slot, withMessage });
        }
        afterSlot = page.events.at(-1)?.slot ?? afterSlot;
        hasMore = page.hasMore;
      }
    }
    return nonces;
  }

  /** Takes everything that is due until nothing has come for a while. */
  async #drain(queue: Queue): Promise<void> {
    let last = performance.now();
    const take = async (message: Parameters<typeof nonceOf>[0], meta: DeliveryMeta) => {
      last = performance.now();
      this.#delivered(meta.messageId, meta.deliveryCount, nonceOf(message));
      return { kind: "ack" as const };
    };
    const consumer = queue.consume(
      { orchestrator: take, step: take },
      { orchestratorsMax: 200, stepsMax: 200 },
    );
    // Longer than the longest delay that a child asks for, and than its first back-offs.
    while (performance.now() - last < 2_500) {
      await new Promise<void>((resolve) => {
        setTimeout(resolve, 50);
      });
    }
    await consumer.stop();
  }
}

/** Step messages carry the nonce in their name; wakes carry none. */
export function nonceOf(message: { readonly kind: string; readonly stepName?: string }) {
  return message.kind === "step" && message.stepName !== "plain"
    ? (message.stepName ?? null)
    : null;
}
