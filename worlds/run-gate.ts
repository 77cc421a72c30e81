/**
 * The run gate: one orchestrator delivery per run, and what becomes of the messages that come
 * meanwhile. A pure state machine; every World drives it and carries out what it answers.
 *
 * Owns who holds a run, who waits on the holder, and how often a holder runs again. Knows neither
 * storage nor handlers nor time.
 *
 * W20  While a delivery of a run is in flight no second one starts; step messages and intermediate
 *      timer hops do not pass through the gate at all.
 * W21  A later message is noted on the holder. The newest stays un-acked until a re-run that began
 *      after it came has acked; earlier ones are acked at once, unless they carry a flag or are a
 *      timer. The re-run is told of the flags and the timers that it covers.
 * W22  A re-run counts as a delivery and not as an attempt, within the same invocation; after
 *      `RERUNS_MAX` the holder is handed off: at the front, as a new invocation.
 * W23  A holder that leaves without an ack (a redelivery, a rejection) covers nothing: what waited
 *      on it is released at once, as never delivered.
 */
import type { MessageId } from "../engine/ids.ts";
import type { DeliveryMeta, Message, WaitContinuation } from "../engine/ports/queue.ts";

/** Re-runs within one invocation; past it the holder is handed off. */
export const RERUNS_MAX = 32;

export interface GateMessage {
  readonly messageId: MessageId;
  /** The flag that a re-run must not lose; see `DeliveryMeta.recovery`. */
  readonly recovery: boolean;
  /** Of a timer: its wait, which a re-run has to see to; see `DeliveryMeta.timers`. */
  readonly timer: WaitContinuation | null;
}

export interface GateState {
  readonly holder: GateMessage;
  /** Re-runs in this invocation so far. */
  readonly reruns: number;
  /** Came before the present run of the handler began: its ack covers them. */
  readonly covering: readonly GateMessage[];
  /** Came since: they need one more run. */
  readonly held: readonly GateMessage[];
}

export interface GateStep {
  /** Null: nobody holds the run any more. */
  readonly state: GateState | null;
  /** What the holder does now. */
  readonly holder: "runs" | "reruns" | "handed_off" | "acked" | "leaves" | "released";
  readonly ack: readonly MessageId[];
  /** Back to the queue, due at once, as if never delivered. */
  readonly release: readonly MessageId[];
}

/** Whether a message passes through the gate. */
export function isGated(message: Message): boolean {
  return message.kind === "orchestrator" && message.waitContinuation?.resumeAtMs === undefined;
}

/** The first message of a free run becomes its holder. */
export function opened(message: GateMessage): GateState {
  return { holder: message, reruns: 0, covering: [], held: [] };
}

/** A message came while the run was held. */
export function noted(state: GateState, message: GateMessage): GateStep {
  const { kept, ack } = thinned([...state.held, message]);
  return { state: { ...state, held: kept }, holder: "runs", ack, release: [] };
}

/** What the present run stands for besides its own message. */
export function standsFor({
  holder,
  covering,
}: GateState): Pick<DeliveryMeta, "recovery" | "timers"> {
  return {
    recovery: holder.recovery || covering.some((message) => message.recovery),
    timers: covering.flatMap(({ timer }) => (timer === null ? [] : [timer])),
  };
}

/**
 * The handler answered. `leave`: it asked for a redelivery, or rejected. `isStopping`: nothing may
 * be delivered to its consumer any more.
 */
export function settled(
  state: GateState,
  answer: "ack" | "handoff" | "leave",
  isStopping: boolean,
): GateStep {
  if (answer === "leave") {
    return { state: null, holder: "leaves", ack: [], release: idsOf(waitingOn(state)) };
  }
  if (answer === "handoff") return handedOff(state, isStopping);
  const covered = idsOf(state.covering);
  if (state.held.length === 0 || isStopping) {
    return {
      state: null,
      holder: "acked",
      ack: [state.holder.messageId, ...covered],
      release: idsOf(state.held),
    };
  }
  const isSpent = state.reruns >= RERUNS_MAX;
  return {
    state: {
      holder: state.holder,
      reruns: isSpent ? 0 : state.reruns + 1,
      covering: state.held,
      held: [],
    },
    holder: isSpent ? "handed_off" : "reruns",
    ack: covered,
    release: [],
  };
}

/** The new invocation begins after all that has come so far, so it covers all of it. */
function handedOff(state: GateState, isStopping: boolean): GateStep {
  const waiting = waitingOn(state);
  if (isStopping) return { state: null, holder: "released", ack: [], release: idsOf(waiting) };
  const { kept, ack } = thinned(waiting);
  return {
    state: { holder: state.holder, reruns: 0, covering: kept, held: [] },
    holder: "handed_off",
    ack,
    release: [],
  };
}

function waitingOn(state: GateState): readonly GateMessage[] {
  return [...state.covering, ...state.held];
}

/** Of messages that say the same, only the newest needs to live on; flags and timers say more. */
function thinned(messages: readonly GateMessage[]) {
  const newest = messages.at(-1);
  const isKept = (message: GateMessage) =>
    message === newest || message.recovery || message.timer !== null;
  return {
    kept: messages.filter(isKept),
    ack: idsOf(messages.filter((message) => !isKept(message))),
  };
}

function idsOf(messages: readonly GateMessage[]): readonly MessageId[] {
  return messages.map((message) => message.messageId);
}
