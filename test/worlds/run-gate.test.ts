/** The run gate by itself: each transition, without a queue around it. */
import {
  array,
  assert,
  boolean,
  constant,
  constantFrom,
  oneof,
  property,
  record,
} from "fast-check";
import { describe, expect, it } from "vitest";
import type { EntityId, MessageId } from "../../engine/ids.ts";
import type { GateMessage, GateState, GateStep } from "../../worlds/run-gate.ts";
import { RERUNS_MAX, noted, opened, settled, standsFor } from "../../worlds/run-gate.ts";

const message = (name: string, recovery = false): GateMessage => ({
  messageId: `msg_${name}` as MessageId,
  recovery,
  timer: null,
});
const timer = (name: string): GateMessage => ({
  ...message(name),
  timer: { correlationId: `wait_${name}` as EntityId, attempt: 1 },
});
const holding = (...names: string[]): GateState =>
  names.reduce(
    (state, name) => {
      const step = noted(state, message(name));
      return step.state as GateState;
    },
    opened(message("holder")),
  );

describe("the run gate", () => {
  it("a free run's first message becomes its holder and waits for nobody", () => {
    const step = settled(opened(message("holder")), "ack", false);
    expect(step).toEqual({ state: null, holder: "acked", ack: ["msg_holder"], release: [] });
  });

  it("only the newest of those that wait is kept", () => {
    const step = noted(holding("a"), message("b"));
    expect(step.ack).toEqual(["msg_a"]);
    expect(step.state?.held.map((held) => held.messageId)).toEqual(["msg_b"]);
  });

  it("a flagged one is kept beside the newest, and its flag is on the run that covers it", () => {
    const flagged = noted(holding(), message("r", true)).state as GateState;
    const step = noted(flagged, message("b"));
    expect(step.ack).toEqual([]);
    expect(standsFor(step.state as GateState).recovery).toBe(false);
    const rerun = settled(step.state as GateState, "ack", false).state as GateState;
    expect(standsFor(rerun).recovery).toBe(true);
    expect(settled(rerun, "ack", false).ack).toEqual(["msg_holder", "msg_r", "msg_b"]);
  });

  it("a timer is kept beside the newest, and the run that covers it is told of its wait", () => {
    const both = noted(noted(holding(), timer("t")).state as GateState, timer("u"));
    const step = noted(both.state as GateState, message("b"));
    expect(step.ack).toEqual([]);
    expect(standsFor(step.state as GateState).timers).toEqual([]);
    const rerun = settled(step.state as GateState, "ack", false).state as GateState;
    expect(standsFor(rerun).timers).toEqual([timer("t").timer, timer("u").timer]);
    expect(settled(rerun, "ack", false).ack).toEqual(["msg_holder", "msg_t", "msg_u", "msg_b"]);
  });

  it("a holder that leaves gives its timers back", () => {
    const step = noted(noted(holding(), timer("t")).state as GateState, message("b"));
    const left = settled(step.state as GateState, "leave", false);
    expect(left.release).toEqual(["msg_t", "msg_b"]);
  });

  it("what came before a re-run is acked only when the re-run has acked", () => {
    const first = settled(holding("a"), "ack", false);
    expect([first.holder, first.ack]).toEqual(["reruns", []]);
    const rerun = noted(first.state as GateState, message("b")).state as GateState;
    const second = settled(rerun, "ack", false);
    expect([second.holder, second.ack]).toEqual(["reruns", ["msg_a"]]);
  });

  it("the 33rd run in one invocation is a handoff, which counts its re-runs anew", () => {
    let state = holding("a");
    for (let n = 1; n <= RERUNS_MAX; n++) {
      const step = settled(state, "ack", false);
      expect(step.holder).toBe("reruns");
      state = noted(step.state as GateState, message(`m${n}`)).state as GateState;
    }
    const step = settled(state, "ack", false);
    expect([step.holder, step.state?.reruns]).toEqual(["handed_off", 0]);
  });

  it("a stopping consumer's holder gives back what nobody has covered", () => {
    const step = settled(holding("a"), "ack", true);
    expect([step.holder, step.ack, step.release]).toEqual(["acked", ["msg_holder"], ["msg_a"]]);
    expect(settled(holding("a"), "handoff", true)).toMatchObject({
      state: null,
      holder: "released",
      release: ["msg_a"],
    });
  });

  it("no message is lost: each is acked, released or still held, and acked only once covered", () => {
    const action = oneof(
      record({ kind: constant("note" as const), flagged: boolean() }),
      record({ kind: constantFrom("ack" as const, "handoff" as const) }),
    );
    assert(
      property(array(action, { maxLength: 120 }), (actions) => {
        let state: GateState | null = opened(message("holder"));
        const alive = new Set<string>(["msg_holder"]);
        let newest = "msg_holder";
        for (const [i, act] of actions.entries()) {
          if (state === null) break;
          let step: GateStep;
          if (act.kind === "note") {
            newest = `msg_${i}`;
            alive.add(newest);
            step = noted(state, message(String(i), act.flagged));
          } else step = settled(state, act.kind, false);
          for (const id of [...step.ack, ...step.release]) alive.delete(id);
          state = step.state;
          // Until everything is covered, the newest message is there to bring the run back.
          if (state !== null && act.kind === "note") expect(alive).toContain(newest);
          const kept: readonly GateMessage[] =
            state === null ? [] : [state.holder, ...state.covering, ...state.held];
          expect(new Set(kept.map((held) => held.messageId))).toEqual(alive);
        }
      }),
    );
  });
});
