/**
 * The least guest library that keeps to protocol.ts, for tests of the host side alone. Payloads
 * are JSON. `forge` lets a test's program answer in the library's place, as a tenant would that
 * had broken it.
 */
import { EntityIds } from "../../sandbox/guest/entity-ids.ts";
import type { EntityKind } from "../../engine/ids.ts";
import type { Ask, GuestCommand, Report } from "../../sandbox/protocol.ts";

type Settle = { resolve: (value: unknown) => void; reject: (error: unknown) => void };
type HostCall = (name: string, value: string) => void;
type Workflow = (input: unknown) => unknown;

export function boot(hostCall: HostCall): (command: string, payload?: string) => string {
  const workflows = new Map<string, Workflow>();
  const steps = new Set<string>();
  const open = new Map<string, Ask>();
  const settles = new Map<string, Settle>();
  let ids: EntityIds | null = null;
  let workflowName = "";
  let drawn = 0;
  let asked: Ask[] = [];
  let closed: string[] = [];
  let lines: { level: string; text: string }[] = [];
  let done: Report["done"] = null;
  let clock = -1;
  let forged: ((command: GuestCommand) => string | undefined) | null = null;

  function ask<T>(kind: EntityKind, make: (n: number, id: string) => Ask): Promise<T> {
    const n = drawn++;
    const id = (ids as EntityIds).at(kind, n);
    const entry = make(n, id);
    open.set(id, entry);
    asked.push(entry);
    return new Promise<T>((resolve, reject) => {
      settles.set(id, { resolve: resolve as (value: unknown) => void, reject });
    });
  }

  Object.assign(globalThis, {
    workflow: (name: string, body: Workflow) => workflows.set(name, body),
    forge: (by: typeof forged) => (forged = by),
    now: () => {
      if (clock < 0) hostCall("clock_read", "");
      return clock;
    },
    step: (name: string, input: unknown = null) => {
      steps.add(name);
      return ask("step", (n, id) => ({ k: "step", n, id, name, input: JSON.stringify(input) }));
    },
    sleep: (at: number) => ask("wait", (n, id) => ({ k: "wait", n, id, at })),
    hook: (token: string) => {
      const first = ask("hook", (n, id) => ({
        k: "hook",
        n,
        id,
        token,
        metadata: null,
        webhook: false,
        system: false,
        force: false,
        retentionMs: 0,
        conflict: false,
      }));
      return first;
    },
    print: (text: string) => lines.push({ level: "log", text }),
  });

  function event(command: GuestCommand & { t: "event" }, payload: string | undefined): string {
    const value: unknown = payload === undefined ? undefined : JSON.parse(payload);
    if (command.type === "run_started") {
      const body = workflows.get(workflowName) as Workflow;
      Promise.resolve()
        .then(() => body(value))
        .then(
          (output) => (done = { ok: true, text: JSON.stringify(output ?? null), code: null }),
          (error: unknown) =>
            (done = { ok: false, text: JSON.stringify(String(error)), code: null }),
        );
    }
    if (command.type.endsWith("_completed") || command.type === "hook_received") {
      const settle = settles.get(command.id as string);
      if (settle === undefined) {
        return JSON.stringify({
          diverged: { slot: command.slot, found: command.type, expected: "nothing" },
        });
      }
      clock = Math.max(clock, command.at);
      hostCall("clock_set", String(clock));
      settles.delete(command.id as string);
      if (open.delete(command.id as string)) closed.push(command.id as string);
      settle.resolve(value);
    }
    return "";
  }

  function report(isFull: boolean): string {
    const answer: Report = {
      asked: isFull ? [...open.values()] : asked,
      closed: isFull ? [] : closed,
      awaited: [...open.values()].filter((entry) => entry.k === "hook").map((entry) => entry.id),
      awaitedConflicts: [],
      done,
      console: lines,
      drawn,
    };
    asked = [];
    closed = [];
    lines = [];
    return JSON.stringify(answer);
  }

  return (text, payload) => {
    const command = JSON.parse(text) as GuestCommand;
    const instead = forged?.(command);
    if (instead !== undefined) return instead;
    switch (command.t) {
      case "init": {
        const bytes = command.seed.match(/../g)?.map((hex) => Number.parseInt(hex, 16)) ?? [];
        ids = new EntityIds(Uint8Array.from(bytes), command.createdAt);
        workflowName = command.workflowName;
        clock = command.createdAt;
        return "";
      }
      case "event":
        return event(command, payload);
      case "registered":
        return JSON.stringify({ workflows: [...workflows.keys()], steps: [...steps] });
      case "open":
      case "report":
        return report(command.t === "open");
      default:
        return command satisfies never;
    }
  };
}
