/**
 * The mutants of `mutants.ts` that break what a World promises of messages: the run gate, delivery,
 * dedupe and fairness. Owns that part of the table.
 */
import type { Mutant } from "./mutants.ts";

const inQueue = { cases: "deliveries|redelivery|dedupe|turn|both or neither" };
const inGate = { cases: "one delivery per run|coalescing|handoffs|leaves" };

export const QUEUE_MUTANTS: readonly Mutant[] = [
  {
    breaks: "W20",
    file: "worlds/run-gate.ts",
    find: 'return message.kind === "orchestrator" && message.waitContinuation?.resumeAtMs === undefined;',
    replace: 'return message.kind === "orchestrator";',
    ...inGate,
  },
  {
    breaks: "W20",
    file: "worlds/run-gate.ts",
    find: 'return message.kind === "orchestrator" && message.waitContinuation?.resumeAtMs === undefined;',
    replace: 'return message.kind === "orchestrator" && message.waitContinuation === undefined;',
    ...inGate,
  },
  {
    breaks: "W21",
    file: "worlds/run-gate.ts",
    find: "message === newest || message.recovery || message.timer !== null;",
    replace: "message === newest || message.timer !== null;",
    ...inGate,
  },
  {
    breaks: "W21",
    file: "worlds/run-gate.ts",
    find: "message === newest || message.recovery || message.timer !== null;",
    replace: "message === newest || message.recovery;",
    ...inGate,
  },
  {
    breaks: "W21",
    file: "worlds/run-gate.ts",
    find: "timer === null ? [] : [timer]",
    replace: "timer === null ? [timer] : []",
    ...inGate,
  },
  {
    breaks: "W21",
    file: "worlds/run-gate.ts",
    find: "if (state.held.length === 0 || isStopping) {",
    replace: "if (state.held.length >= 0 || isStopping) {",
    ...inGate,
  },
  {
    breaks: "W22",
    file: "worlds/run-gate.ts",
    find: "state.reruns >= RERUNS_MAX",
    replace: "state.reruns > RERUNS_MAX",
    ...inGate,
  },
  {
    breaks: "W22",
    file: "worlds/queue-ledger.ts",
    find: "isRerun ? flight.invocationStartedAt : now",
    replace: "now",
    ...inGate,
  },
  {
    breaks: "W23",
    file: "worlds/run-gate.ts",
    find: 'return { state: null, holder: "leaves", ack: [], release: idsOf(waitingOn(state)) };',
    replace: 'return { state: null, holder: "leaves", ack: idsOf(waitingOn(state)), release: [] };',
    ...inGate,
  },
  {
    breaks: "W23",
    file: "worlds/queue-ledger.ts",
    find: "const deliveryCount = row.deliveryCount - 1;",
    replace: "const deliveryCount = row.deliveryCount;",
    ...inGate,
  },
  {
    breaks: "W24",
    file: "worlds/queue-ledger.ts",
    find: "if (alive !== null) return",
    replace: "if (alive !== null && !alive.isClaimed) return",
    ...inQueue,
  },
  {
    breaks: "W24",
    file: "worlds/queue-ledger.ts",
    find: "if (alive !== null) return",
    replace: "if (alive !== null && alive.dueAt <= now) return",
    ...inQueue,
  },
  {
    breaks: "W25",
    file: "worlds/queue-ledger.ts",
    find: "uncounted: row.uncounted + (isCounted ? 0 : 1),",
    replace: "uncounted: row.uncounted,",
    ...inQueue,
  },
  {
    breaks: "W25",
    file: "worlds/queue-ledger.ts",
    find: "attempt: row.deliveryCount - row.uncounted,",
    replace: "attempt: row.deliveryCount,",
    ...inQueue,
  },
  {
    breaks: "W26",
    file: "worlds/queue-rows.ts",
    find: "const BACKOFF_MAX_MS = 300_000;",
    replace: "const BACKOFF_MAX_MS = 10_000;",
    ...inQueue,
  },
  {
    breaks: "W26",
    file: "worlds/queue-ledger.ts",
    find: "messages.update({ ...waiting, dueAt: now + backoffMs(row) }, now);",
    replace: "messages.delete(row.messageId);",
    ...inQueue,
  },
  {
    breaks: "W27",
    file: "worlds/queue-ledger.ts",
    find: "const start = this.#lastTenant[kind];",
    replace: 'const start: string = "";',
    ...inQueue,
  },
  {
    breaks: "W28",
    file: "worlds/event-ledger.ts",
    find: "if (request.send !== null && tail.allocated > 0) {",
    replace: "if (request.send !== null && tail.allocated < 0) {",
    ...inQueue,
  },
];
