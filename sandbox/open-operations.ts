/**
 * What one heap has open, as the main side knows it: kept in the order asked, from reports that
 * bring only what changed.
 *
 * Owns the check of every id. Knows no events: what is open is what the guest library says is.
 */
import type { EntityId, EntityKind } from "../engine/ids.ts";
import type {
  Completion,
  ConsoleLine,
  HeapLimits,
  LimitExceeded,
  OpenOperation,
} from "../engine/ports/sandbox.ts";
import { payloadOfText } from "../engine/payload.ts";
import type { Payload } from "../engine/payload.ts";
import { isRunErrorCode, reportIn } from "./border.ts";
import { Violation } from "./guest-text.ts";
import { EntityIds } from "./guest/entity-ids.ts";
import { exceeded } from "./limits.ts";
import type { Ask, Report } from "./protocol.ts";

/** What a report says, checked, with all that is open. */
export interface Standing {
  readonly operations: readonly OpenOperation[];
  readonly completion: Completion | null;
  readonly awaitedHooks: readonly EntityId[];
  readonly console: readonly ConsoleLine[];
}

export type ReportRead =
  | { readonly kind: "standing"; readonly standing: Standing }
  | { readonly kind: "limit"; readonly exceeded: LimitExceeded };

/** A limit that a report shows to be exceeded. */
class OverLimit extends Error {
  readonly exceeded: LimitExceeded;

  constructor(over: LimitExceeded) {
    super(over.code);
    this.exceeded = over;
  }
}

export class OpenOperations {
  readonly #ids: EntityIds;
  readonly #limits: HeapLimits;
  /** By entity id; a disposal, which shares its hook's id, by that id and a mark. */
  #open = new Map<string, OpenOperation>();
  #drawn = 0;

  constructor(run: { seed: Uint8Array; createdAt: number }, limits: HeapLimits) {
    this.#ids = new EntityIds(run.seed, run.createdAt);
    this.#limits = limits;
  }

  /** Takes a report in. `isFull`: it lists all that is open, and what was known is dropped. */
  read(text: string, isFull: boolean): ReportRead {
    try {
      return { kind: "standing", standing: this.#take(reportIn(text), isFull) };
    } catch (error) {
      if (error instanceof OverLimit) return { kind: "limit", exceeded: error.exceeded };
      if (error instanceof Violation) return { kind: "limit", exceeded: violated() };
      throw error;
    }
  }

  #take(report: Report, isFull: boolean): Standing {
    if (isFull) this.#open = new Map();
    const drawnBefore = isFull ? 0 : this.#drawn;
    const drawn = this.#checkedOrdinals(report, drawnBefore, isFull);
    for (const ask of report.asked) this.#add(ask);
    for (const id of report.closed) this.#close(id, isFull);
    this.#drawn = drawn;
    this.#checkCount();
    this.#checkConsole(report.console);
    this.#markConflicts(report.awaitedConflicts);
    return {
      operations: [...this.#open.values()],
      completion: this.#completionOf(report.done),
      awaitedHooks: report.awaited.map((id) => this.#hook(id)),
      console: report.console as readonly ConsoleLine[],
    };
  }

  /** Ordinals are dense from where the last report ended; a full report leaves out what closed. */
  #checkedOrdinals({ asked, drawn }: Report, drawnBefore: number, isFull: boolean): number {
    let next = drawnBefore;
    for (const { n } of asked) {
      if (n === null) continue;
      if (isFull ? n < next : n !== next) throw new Violation("ordinals follow one another");
      next = n + 1;
    }
    if (isFull ? drawn < next : drawn !== next) throw new Violation("it says how many it drew");
    return drawn;
  }

  #add(ask: Ask): void {
    if (ask.k === "dispose") {
      this.#open.set(disposalKey(this.#hook(ask.id)), {
        kind: "dispose_hook",
        correlationId: ask.id as EntityId,
      });
      return;
    }
    const id = this.#ids.at(KIND_OF[ask.k], ask.n);
    if (id !== ask.id) throw new Violation("an id is the one of its ordinal");
    this.#open.set(id, this.#operation(ask, id));
  }

  #operation(ask: Exclude<Ask, { k: "dispose" }>, id: EntityId): OpenOperation {
    switch (ask.k) {
      case "step": {
        const step = { correlationId: id, stepName: ask.name };
        return "error" in ask
          ? { kind: "unserializable_step", ...step, error: this.#payload(ask.error) }
          : { kind: "step", ...step, input: this.#payload(ask.input) };
      }
      case "wait":
        return { kind: "wait", correlationId: id, resumeAt: ask.at };
      case "hook":
        return {
          kind: "hook",
          correlationId: id,
          token: ask.token,
          metadata: ask.metadata === null ? null : this.#payload(ask.metadata),
          isWebhook: ask.webhook,
          isSystem: ask.system,
          force: ask.force,
          retentionMs: ask.retentionMs,
          awaitsConflict: ask.conflict,
        };
      case "attr":
        return { kind: "set_attributes", correlationId: id, changes: ask.changes };
      default:
        return ask satisfies never;
    }
  }

  #close(id: string, isFull: boolean): void {
    this.#open.delete(disposalKey(id));
    const wasOpen = this.#open.delete(id);
    // After a restore, what closed on the way was never known to be open.
    if (!wasOpen && !isFull) throw new Violation("what closes was open");
  }

  #hook(id: string): EntityId {
    if (this.#open.get(id)?.kind !== "hook") throw new Violation("it names an open hook");
    return id as EntityId;
  }

  #markConflicts(awaited: readonly string[]): void {
    const ids = new Set<string>(awaited.map((id) => this.#hook(id)));
    for (const [key, operation] of this.#open) {
      if (operation.kind !== "hook") continue;
      const awaitsConflict = ids.has(key);
      if (operation.awaitsConflict !== awaitsConflict) {
        this.#open.set(key, { ...operation, awaitsConflict });
      }
    }
  }

  #completionOf(done: Report["done"]): Completion | null {
    if (done === null) return null;
    if (done.ok) {
      if (done.code !== null) throw new Violation("what completes has no error code");
      return { kind: "completed", output: this.#payload(done.text) };
    }
    const errorCode = done.code ?? "USER_ERROR";
    if (!isRunErrorCode(errorCode)) throw new Violation("an error code is a known one");
    return { kind: "failed", error: this.#payload(done.text), errorCode };
  }

  #payload(text: string): Payload {
    const { payloadBytesMax } = this.#limits;
    const payload = payloadOfText(text);
    const bytes = payload.length - PREFIX_BYTES;
    if (bytes <= payloadBytesMax) return payload;
    throw new OverLimit(
      exceeded("PAYLOAD_LIMIT_EXCEEDED", "payloadBytesMax", bytes, payloadBytesMax),
    );
  }

  #checkCount(): void {
    const { openOperationsMax } = this.#limits;
    if (this.#open.size <= openOperationsMax) return;
    let counted = 0;
    for (const { kind } of this.#open.values()) {
      if (kind !== "set_attributes" && kind !== "dispose_hook") counted++;
    }
    if (counted <= openOperationsMax) return;
    throw new OverLimit(
      exceeded("DECISION_LIMIT_EXCEEDED", "openOperationsMax", counted, openOperationsMax),
    );
  }

  #checkConsole(lines: Report["console"]): void {
    let bytes = 0;
    for (const { text } of lines) bytes += utf8.encode(text).length;
    if (bytes > this.#limits.consoleBytesPerPassMax) {
      throw new Violation("console lines fit their limit");
    }
  }
}

const utf8 = new TextEncoder();
/** `devl`, which the host puts before the guest's text. */
const PREFIX_BYTES = 4;
const KIND_OF = {
  step: "step",
  wait: "wait",
  hook: "hook",
  attr: "attr",
} as const satisfies Record<Exclude<Ask["k"], "dispose">, EntityKind>;

function disposalKey(hookId: string): string {
  return `${hookId} disposal`;
}

/** Written by no guest library of ours. */
export function violated(): LimitExceeded {
  return exceeded("GUEST_PROTOCOL_VIOLATION", "violationsMax", 1, 0);
}
